package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// System is the operating system's own routing and TCP: a [Router], a [Dialer]
// and a [SegmentDialer]. The zero value is what a zero [Checker] uses.
type System struct {
	// Namespace is the path of a Linux network namespace to look from, such as
	// "/proc/4711/ns/net" or "/run/netns/blue"; "" = that of the calling thread.
	// Entering one needs CAP_SYS_ADMIN there, and an agent needs the host's pid
	// namespace to see such a path. Elsewhere than on Linux everything fails
	// with [errors.ErrUnsupported] if it is set.
	//
	// Only a thread made for the purpose enters it; the caller's own never does.
	// While a connect is under way there, it holds one thread.
	Namespace string
}

// SegmentDialer is a [Dialer] that can also clamp the size of TCP segments, in
// both directions: own segments are no larger than mss bytes, and the peer is
// told to send none larger. [System] is one.
//
// mss is at least 88 and at most 32767, 0 = as usual. DialSegment returns an
// error that wraps [errors.ErrUnsupported] where it cannot clamp.
type SegmentDialer interface {
	DialSegment(ctx context.Context, network, address string, mss int) (net.Conn, error)
}

// SegmentDialerFunc is a function that is a [SegmentDialer].
type SegmentDialerFunc func(ctx context.Context, network, address string, mss int) (net.Conn, error)

// DialSegment calls f.
func (f SegmentDialerFunc) DialSegment(ctx context.Context, network, address string, mss int) (net.Conn, error) {
	return f(ctx, network, address, mss)
}

var (
	_ Router        = System{}
	_ Dialer        = System{}
	_ SegmentDialer = System{}
)

// RouteTo asks the kernel for its route to dst.
func (s System) RouteTo(ctx context.Context, dst netip.Addr) (route Route, err error) {
	err = inNamespace(s.Namespace, func() (err error) {
		route, err = kernelRoute(ctx, dst)
		return err
	})
	return route, err
}

// DialContext opens a connection as the runtime's dialer would, without
// keep-alive probes.
func (s System) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, _, err := s.sockets().dial(ctx, network, address, socketOptions{})
	return conn, err
}

// The limits of TCP_MAXSEG: Linux' tcp_setsockopt refuses others.
const (
	minSegment = 88
	maxSegment = 32767
)

// DialSegment is DialContext with segments of at most mss bytes. Linux only.
func (s System) DialSegment(ctx context.Context, network, address string, mss int) (net.Conn, error) {
	if mss != 0 && (mss < minSegment || mss > maxSegment) {
		return nil, fmt.Errorf("reach: segment size %d: want 0 or %d to %d", mss, minSegment, maxSegment)
	}
	if mss != 0 && !canObserve {
		return nil, fmt.Errorf("reach: clamping TCP segments: %w on this system", errors.ErrUnsupported)
	}
	conn, _, err := s.sockets().dial(ctx, network, address, socketOptions{segment: mss})
	return conn, err
}

func (s System) sockets() sockets {
	// The address is a literal, so there is no lookup and nothing to race.
	return sockets{base: net.Dialer{FallbackDelay: -1, KeepAlive: -1}, namespace: s.Namespace}
}

// sockets opens connections whose sockets we can look at.
type sockets struct {
	base      net.Dialer
	namespace string
}

// socketOptions are set on a socket before it connects.
type socketOptions struct {
	segment int  // TCP_MAXSEG; 0 = as usual
	observe bool // queue the ICMP answers, and keep a second descriptor
}

// sockets returns what opens the Checker's connections, if its sockets can be
// looked at; false for a Dialer of the caller's own kind.
func (c *Checker) sockets() (sockets, bool) {
	switch d := c.Dialer.(type) {
	case nil:
		return System{}.sockets(), true
	case System:
		return d.sockets(), true
	case *System:
		return d.sockets(), true
	case *net.Dialer:
		return sockets{base: *d}, true
	}
	return sockets{}, false
}

// dial connects. The watch is never nil and, with observe, shows the socket also
// after a failure; the caller closes it, and soon: as long as it is open the
// kernel keeps the socket.
func (s sockets) dial(ctx context.Context, network, address string, o socketOptions) (net.Conn, *watch, error) {
	d, w := s.base, newWatch()
	control, controlContext := d.Control, d.ControlContext
	if o != (socketOptions{}) {
		d.Control = nil
		d.ControlContext = w.prepare(o, control, controlContext)
	}
	var conn net.Conn
	err := inNamespace(s.namespace, func() (err error) {
		conn, err = d.DialContext(ctx, network, address)
		return err
	})
	if err != nil {
		return nil, w, err // not conn: a nil *net.TCPConn in an interface is not nil
	}
	return conn, w, nil
}
