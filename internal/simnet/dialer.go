package simnet

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/pullwalk/pullwalk/reach"
)

// Dial is one attempt to connect to one address.
type Dial struct {
	Start     time.Time
	Host      string // as the caller wrote it: an address or a name
	Address   netip.AddrPort
	Connected bool  // false with a nil Err: still trying
	Err       error // what the caller got
}

// Dials returns every attempt so far, in the order in which they started.
func (n *Net) Dials() []Dial {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.dials)
}

// Dialer connects to addresses of the Net. It takes "tcp", "tcp4" and "tcp6".
// An address that holds a name is looked up at [Net.Nameservers]; its addresses
// are tried in turn. Its DialSegment clamps segments.
func (n *Net) Dialer() reach.Dialer { return dialer{n} }

type dialer struct{ net *Net }

// DialSegment connects and keeps segments within mss bytes, both ways.
func (d dialer) DialSegment(ctx context.Context, network, address string, mss int) (net.Conn, error) {
	return d.dial(ctx, network, address, mss)
}

// DialContext connects. Errors are a [*net.OpError] as from [net.Dialer].
func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d.dial(ctx, network, address, defaultMSS)
}

func (d dialer) dial(ctx context.Context, network, address string, mss int) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	if !slices.Contains([]string{"tcp", "tcp4", "tcp6"}, network) {
		return fail(net.UnknownNetworkError(network))
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return fail(err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return fail(&net.AddrError{Err: "invalid port", Addr: address})
	}
	addrs := []netip.Addr{}
	if addr, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, addr)
	} else if addrs, err = d.net.lookup(ctx, host); err != nil {
		return fail(err)
	}
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool {
		is4 := a.Unmap().Is4()
		return network == "tcp4" && !is4 || network == "tcp6" && is4
	})
	if len(addrs) == 0 {
		return fail(&net.AddrError{Err: "no suitable address found", Addr: host})
	}
	var first error
	for _, addr := range addrs {
		c, err := d.net.dial(ctx, network, host, netip.AddrPortFrom(addr.Unmap(), uint16(port)), mss)
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// dial connects to one address and records it.
func (n *Net) dial(ctx context.Context, network, host string, to netip.AddrPort, mss int) (net.Conn, error) {
	n.mu.Lock()
	at := len(n.dials)
	n.dials = append(n.dials, Dial{Start: time.Now(), Host: host, Address: to})
	n.mu.Unlock()

	c, err := n.connect(ctx, to, mss)
	if err != nil {
		err = &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials[at].Connected, n.dials[at].Err = err == nil, err
	if err != nil {
		return nil, err
	}
	return c, nil
}

// connect does what the kernel does between SYN and its answer.
func (n *Net) connect(ctx context.Context, to netip.AddrPort, mss int) (*Conn, error) {
	if err := n.sleep(ctx, 0); err != nil {
		return nil, err
	}
	route := n.routeTo(to.Addr())
	if errno := routeErrno(route.Kind); errno != 0 {
		return nil, os.NewSyscallError("connect", errno)
	}
	f, delay := n.faultAt(to)
	l, zone, isHost := n.at(to)
	switch {
	case f.kind == silent, !isHost:
		return nil, n.sleep(ctx, forever)
	case f.kind == unreachable:
		return nil, n.answer(ctx, 2*delay, eHOSTUNREACH)
	case f.kind == refuse:
		return nil, n.answer(ctx, 2*delay, eCONNREFUSED)
	case f.kind == mute, f.kind == reset, l != nil:
	case zone != nil && zone.isSilent():
		return nil, n.sleep(ctx, forever)
	case zone == nil, !zone.listensOn(true):
		return nil, n.answer(ctx, 2*delay, eCONNREFUSED)
	}

	if err := n.sleep(ctx, delay); err != nil {
		return nil, err
	}
	from := net.TCPAddrFromAddrPort(netip.AddrPortFrom(sourceOf(route), n.nextPort()))
	var toServer, fromServer limit
	switch {
	case f.kind == hole && f.up:
		toServer = limit{kind: hole, left: f.bytes, whole: f.whole}
	case f.kind == hang || f.kind == cut || f.kind == hole:
		fromServer = limit{kind: f.kind, left: f.bytes}
	}
	c, s := newPair(from, net.TCPAddrFromAddrPort(to), delay, mss, toServer, fromServer)
	if f.kind == mute || f.kind == reset || l == nil { // a nameserver waits for a question in here
		c.out.swallow, c.resetOnAnswer = true, f.kind == reset
	} else {
		if !n.list(s) {
			return nil, net.ErrClosed
		}
		if !l.offer(s) {
			s.Close()
			return nil, n.answer(ctx, delay, eCONNREFUSED)
		}
	}
	if err := n.sleep(ctx, delay); err != nil {
		c.Close()
		return nil, err
	}
	if !n.list(c) {
		c.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

// at returns what stands at an address.
func (n *Net) at(ap netip.AddrPort) (l *listener, zone *Nameserver, isHost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listeners[ap], n.zones[ap], n.hosts[ap.Addr()]
}

// nextPort counts through the range that Linux takes source ports from.
func (n *Net) nextPort() uint16 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lastPort < 32768 || n.lastPort >= 60999 {
		n.lastPort = 32767
	}
	n.lastPort++
	return n.lastPort
}

// answer returns errno once it has come back over the wire.
func (n *Net) answer(ctx context.Context, after time.Duration, errno syscall.Errno) error {
	if err := n.sleep(ctx, after); err != nil {
		return err
	}
	return os.NewSyscallError("connect", errno)
}

const forever time.Duration = -1

// sleep waits; a negative time is for ever. It ends early, with an error, when
// the context or the network does.
func (n *Net) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-n.done:
		return net.ErrClosed
	default:
	}
	var alarm <-chan time.Time
	switch {
	case ctx.Err() != nil:
		return contextError(ctx)
	case d == 0:
		return nil
	case d > 0:
		t := time.NewTimer(d)
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-alarm:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	case <-n.done:
		return net.ErrClosed
	}
}

// contextError is what package net makes of a context's end: texts of its own,
// an expiry counts as a timeout, and [errors.Is] finds the context's error.
func contextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return timeoutError{}
	}
	return canceledError{}
}

type timeoutError struct{}

func (timeoutError) Error() string        { return "i/o timeout" }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Temporary() bool      { return true }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

type canceledError struct{}

func (canceledError) Error() string        { return "operation was canceled" }
func (canceledError) Is(target error) bool { return target == context.Canceled }
