package simnet

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pullwalk/pullwalk/dnscheck"
)

// Question is one question to one nameserver.
type Question struct {
	Start   time.Time
	Server  netip.AddrPort
	Network string
	Name    string
	Type    string
	RCode   string // "" with a nil Err: still waiting
	Err     error  // what the caller got
}

// Questions returns every question so far, in the order in which they were asked.
func (n *Net) Questions() []Question {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.questions)
}

// Exchanger asks the nameservers of the Net, over "udp" and "tcp" and their
// variants with a family.
func (n *Net) Exchanger() dnscheck.Exchanger { return exchanger{n} }

type exchanger struct{ net *Net }

// Exchange asks one question. Errors are a [*net.OpError]: of operation "dial"
// when nothing could be sent, of "read" when no answer came.
func (e exchanger) Exchange(ctx context.Context, server netip.AddrPort, network string, q dnscheck.Question) (dnscheck.Answer, error) {
	n, server := e.net, unmap(server)
	n.mu.Lock()
	at := len(n.questions)
	n.questions = append(n.questions, Question{Start: time.Now(), Server: server, Network: network, Name: q.Name, Type: q.Type})
	n.mu.Unlock()

	a, err := n.ask(ctx, server, network, q)

	n.mu.Lock()
	defer n.mu.Unlock()
	n.questions[at].RCode, n.questions[at].Err = a.RCode, err
	return a, err
}

func (n *Net) ask(ctx context.Context, server netip.AddrPort, network string, q dnscheck.Question) (dnscheck.Answer, error) {
	tcp := strings.HasPrefix(network, "tcp")
	var addr net.Addr = net.UDPAddrFromAddrPort(server)
	if tcp {
		addr = net.TCPAddrFromAddrPort(server)
	}
	op, call := "dial", "connect"
	fail := func(err error) (dnscheck.Answer, error) {
		return dnscheck.Answer{}, &net.OpError{Op: op, Net: network, Addr: addr, Err: err}
	}

	if err := n.sleep(ctx, 0); err != nil {
		return fail(err)
	}
	if errno := routeErrno(n.routeTo(server.Addr()).Kind); errno != 0 {
		return fail(os.NewSyscallError(call, errno))
	}
	if !tcp { // a datagram needs no consent, so the first answer comes to the read
		op, call = "read", "read"
	}
	f, delay := n.faultAt(server)
	_, z, isHost := n.at(server)
	var refusal syscall.Errno
	switch {
	case f.kind == silent, !isHost:
		return fail(n.sleep(ctx, forever))
	case f.kind == unreachable:
		refusal = eHOSTUNREACH
	case f.kind == refuse, z == nil:
		refusal = eCONNREFUSED
	case z.isSilent():
		return fail(n.sleep(ctx, forever))
	case !z.listensOn(tcp):
		refusal = eCONNREFUSED
	}
	if err := n.sleep(ctx, 2*delay); err != nil {
		return fail(err)
	}
	if refusal != 0 {
		return fail(os.NewSyscallError(call, refusal))
	}
	wait := z.thinks()
	if tcp { // that was the handshake, the question comes now
		op, wait = "read", wait+2*delay
	}
	if err := n.sleep(ctx, wait); err != nil {
		return fail(err)
	}
	if err := z.nonsense(); err != nil {
		return fail(err)
	}
	return z.answer(tcp, q), nil
}

// patience is how long a resolver waits for one nameserver before it asks the
// next one: the default of resolv.conf(5).
const patience = 5 * time.Second

// Nameservers sets whom the Dialer asks for names, in this order. As a resolver
// does, it goes on to the next one only when a server gives no answer or one of
// no use, and believes the first that says yes or no. Its questions are among
// [Net.Questions] like everybody's.
func (n *Net) Nameservers(servers ...netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nameservers = slices.Clone(servers)
}

// lookup resolves a name for the Dialer. Errors are a [*net.DNSError].
func (n *Net) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	n.mu.Lock()
	servers := n.nameservers
	n.mu.Unlock()
	last := &net.DNSError{Err: "no nameserver", Name: name}
	for _, server := range servers {
		addrs, err := n.lookupAt(ctx, server, name)
		if err == nil {
			return addrs, nil
		}
		last = err
		if err.IsNotFound || ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

// lookupAt asks one nameserver for A and then AAAA.
func (n *Net) lookupAt(ctx context.Context, server netip.AddrPort, name string) ([]netip.Addr, *net.DNSError) {
	var addrs []netip.Addr
	for _, typ := range []string{"A", "AAAA"} {
		q := dnscheck.Question{Name: name, Type: typ}
		a, err := n.askWithin(ctx, server, "udp", q)
		if err == nil && a.Truncated {
			a, err = n.askWithin(ctx, server, "tcp", q)
		}
		failed := &net.DNSError{Name: name, Server: server.String(), IsTemporary: true}
		switch {
		case err != nil:
			failed.UnwrapErr, failed.Err = err, err.Error()
			failed.IsTimeout = errors.Is(err, context.DeadlineExceeded)
			return nil, failed
		case a.RCode != "NOERROR" && a.RCode != "NXDOMAIN":
			failed.Err = "server misbehaving"
			return nil, failed
		}
		addrs = append(addrs, a.Addresses...)
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, Server: server.String(), IsNotFound: true}
	}
	return addrs, nil
}

func (n *Net) askWithin(ctx context.Context, server netip.AddrPort, network string, q dnscheck.Question) (dnscheck.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return n.Exchanger().Exchange(ctx, server, network, q)
}
