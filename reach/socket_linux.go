package reach

import (
	"encoding/binary"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// canObserve: sockets can be looked at and clamped on this system.
const canObserve = true

// watch is a second descriptor of a socket. It outlives the one that net.Dialer
// closes when a connect fails, so that the answers can still be read.
type watch struct {
	fd int // -1 = none
	v6 bool
}

func newWatch() *watch { return &watch{fd: -1} }

// prepare sets the options on a socket before it connects.
func (w *watch) prepare(network string, c syscall.RawConn, o socketOptions) error {
	w.v6 = network == "tcp6"
	var failed error
	err := c.Control(func(fd uintptr) {
		if o.segment > 0 {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, o.segment)
		}
		if o.observe && failed == nil {
			// Neither is needed to connect: without them we only see less.
			_ = setQueue(int(fd), w.v6, true)
			if dup, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
				w.fd = dup
			}
		}
	})
	if err != nil {
		return err
	}
	return failed
}

// setQueue switches the queue of ICMP answers (ip(7), IP_RECVERR).
func setQueue(fd int, v6, on bool) error {
	value := 0
	if on {
		value = 1
	}
	if v6 {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, value)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, value)
}

// connected ends the watch over a connection that came about. A queue left
// switched on would turn passing ICMP errors into failures of reads and writes
// (tcp_v4_err in net/ipv4/tcp_ipv4.c), which no client of the registry meets.
func (w *watch) connected() (info tcpInfo) {
	if w.fd < 0 {
		return tcpInfo{}
	}
	info = infoOf(w.fd)
	_ = setQueue(w.fd, w.v6, false)
	w.close()
	return info
}

// failed ends the watch over a connect that failed.
func (w *watch) failed() (info tcpInfo, source netip.AddrPort, icmp *ICMP) {
	if w.fd < 0 {
		return tcpInfo{}, netip.AddrPort{}, nil
	}
	info, source, icmp = infoOf(w.fd), sourceOf(w.fd), readICMP(w.fd)
	if icmp != nil {
		icmp.Own = icmp.From == source.Addr()
	}
	w.close()
	return info, source, icmp
}

func (w *watch) close() {
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
		w.fd = -1
	}
}

// infoOf reads TCP_INFO (tcp(7)).
func infoOf(fd int) tcpInfo {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return tcpInfo{}
	}
	return tcpInfo{retransmits: int(info.Total_retrans), segment: int(info.Snd_mss), pathMTU: int(info.Pmtu), roundTrip: int64(info.Rtt)}
}

// sourceOf returns the address that the socket sends from.
func sourceOf(fd int) netip.AddrPort {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}
	}
	return addrPortOf(sa)
}

func addrPortOf(sa unix.Sockaddr) netip.AddrPort {
	var addr netip.Addr
	var port int
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		addr, port = netip.AddrFrom4(sa.Addr), sa.Port
	case *unix.SockaddrInet6:
		addr, port = netip.AddrFrom16(sa.Addr).Unmap(), sa.Port
	}
	if !addr.IsValid() || addr.IsUnspecified() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(addr, uint16(port))
}

// readICMP takes the first ICMP answer out of a socket's error queue; nil = none.
func readICMP(fd int) *ICMP {
	control := make([]byte, 512)
	var payload [64]byte
	for range 8 { // more than one answer can wait there, and entries of other origin
		_, n, _, _, err := unix.Recvmsg(fd, payload[:], control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil
		}
		messages, err := unix.ParseSocketControlMessage(control[:n])
		if err != nil {
			return nil
		}
		for _, m := range messages {
			v4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR
			v6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR
			if v4 || v6 {
				if icmp := parseICMP(m.Data); icmp != nil {
					return icmp
				}
			}
		}
	}
	return nil
}

// The layout of struct sock_extended_err (linux/errqueue.h); the offender's
// address follows it.
const extendedErrSize = 16

// parseICMP reads what the kernel says about one ICMP answer; nil if it is none.
func parseICMP(data []byte) *ICMP {
	if len(data) < extendedErrSize {
		return nil
	}
	icmp := &ICMP{Type: int(data[5]), Code: int(data[6])}
	switch data[4] {
	case unix.SO_EE_ORIGIN_ICMP:
		icmp.Kind = icmp4Kind(icmp.Type, icmp.Code)
	case unix.SO_EE_ORIGIN_ICMP6:
		icmp.Kind = icmp6Kind(icmp.Type, icmp.Code)
	default:
		return nil
	}
	if icmp.Kind == icmpTooBig {
		icmp.MTU = int(min(binary.NativeEndian.Uint32(data[8:]), 1<<16))
	}
	offender := data[extendedErrSize:]
	if len(offender) >= 2 {
		switch family := binary.NativeEndian.Uint16(offender); {
		case family == unix.AF_INET && len(offender) >= 8:
			icmp.From = netip.AddrFrom4([4]byte(offender[4:8]))
		case family == unix.AF_INET6 && len(offender) >= 24:
			icmp.From = netip.AddrFrom16([16]byte(offender[8:24])).Unmap()
		}
	}
	return icmp
}
