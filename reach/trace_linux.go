package reach

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// otherPort and livenessPort are the other ports of [OtherAnswer]. 33434 is the first
// port of traceroute(8), which nothing listens on.
const (
	otherPort    = 80
	livenessPort = 33434
)

// run asks all hops at once.
func (t *Trace) run(ctx context.Context, namespace string) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type started struct {
		probe
		file *os.File
		at   time.Time
	}
	var probes []started
	err := inNamespace(namespace, func() error {
		add := func(p probe, port uint16) error {
			at := time.Now()
			file, err := p.start(netip.AddrPortFrom(t.Target.Addr(), port))
			if err == nil {
				probes = append(probes, started{p, file, at})
			}
			return err
		}
		for n := 1; n <= maxHops; n++ {
			if err := add(probe{kind: probeHop, hops: n}, t.Target.Port()); err != nil {
				return err
			}
		}
		// Without them we only learn less.
		if t.Target.Port() != otherPort {
			_ = add(probe{kind: probeTCP}, otherPort)
		}
		_ = add(probe{kind: probeUDP}, livenessPort)
		return nil
	})
	if err != nil {
		// What was started still counts.
		t.Inconclusive = "not every hop could be asked: " + reasonOf(err)
	}
	answers := make(chan probe, len(probes))
	for _, p := range probes {
		go func() { answers <- p.wait(ctx, p.file, p.at) }()
	}
	t.gather(answers, len(probes), stop)
}

// reasonOf names an error of the system shortly.
func reasonOf(err error) string {
	if errno := errnoOf(err); errno != "" {
		return errno
	}
	return boundedText(err)
}

// start opens the socket of a probe on the calling thread and sends it off.
func (p probe) start(to netip.AddrPort) (*os.File, error) {
	family, kind := unix.AF_INET, unix.SOCK_STREAM
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	if p.kind == probeUDP {
		kind = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*os.File, error) {
		_ = unix.Close(fd)
		return nil, err
	}
	if err := setQueue(fd, family == unix.AF_INET6, true); err != nil {
		return fail(err)
	}
	if p.kind == probeHop {
		if family == unix.AF_INET6 {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, p.hops)
		} else {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, p.hops)
		}
		if err != nil {
			return fail(err)
		}
	}
	if err := unix.Connect(fd, sockaddrOf(to)); err != nil && err != unix.EINPROGRESS {
		return fail(err)
	}
	if p.kind == probeUDP {
		if _, err := unix.Write(fd, []byte{0}); err != nil {
			return fail(err)
		}
	}
	// A non-blocking descriptor joins the runtime's poller.
	return os.NewFile(uintptr(fd), "probe"), nil
}

func sockaddrOf(to netip.AddrPort) unix.Sockaddr {
	if to.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
}

// wait returns the probe with its answer, unanswered when ctx ends first. It
// closes the socket.
func (p probe) wait(ctx context.Context, file *os.File, start time.Time) probe {
	defer file.Close()
	raw, err := file.SyscallConn()
	if err != nil {
		return p
	}
	// Ends the wait below; errors mean that it has ended already.
	defer context.AfterFunc(ctx, func() { _ = file.SetDeadline(time.Unix(1, 0)) })()
	look := func(fd uintptr) bool {
		errno, done := p.state(int(fd))
		if !done {
			return false
		}
		p.took = time.Since(start)
		p.icmp = readICMP(int(fd))
		if p.icmp != nil {
			source := sourceOf(int(fd)).Addr()
			p.icmp.Own = p.icmp.From == source
		}
		switch {
		case p.icmp != nil:
			p.answer, p.answered = p.icmp.Kind, true
		case errno == 0:
			p.answer, p.answered = answerAccepted, true
		case errno == unix.ECONNREFUSED || errno == unix.ECONNRESET:
			p.answer, p.answered = answerRefused, true
		}
		return true
	}
	if p.kind == probeUDP {
		_ = raw.Read(look) // its end is the end of ctx: unanswered
	} else {
		_ = raw.Write(look)
	}
	return p
}

// state says whether the socket has met its fate, and which.
func (p probe) state(fd int) (syscall.Errno, bool) {
	if p.kind == probeUDP {
		var one [1]byte
		_, _, err := unix.Recvfrom(fd, one[:], unix.MSG_DONTWAIT)
		var errno syscall.Errno
		if err == nil || !errors.As(err, &errno) {
			return 0, true
		}
		return errno, errno != unix.EAGAIN && errno != unix.EINTR
	}
	if code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
		return syscall.Errno(code), true
	}
	_, err := unix.Getpeername(fd)
	return 0, err == nil
}
