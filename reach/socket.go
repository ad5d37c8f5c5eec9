package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Dialer opens connections. [*net.Dialer] is one.
//
// It is called with network "tcp" and a literal address with port. It must
// return soon after ctx ended and must be safe for concurrent use.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// DialerFunc is a function that is a [Dialer].
type DialerFunc func(ctx context.Context, network, address string) (net.Conn, error)

// DialContext calls f.
func (f DialerFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// System is the operating system's own routing and TCP: a [Router] and a
// [Dialer] that can also clamp segments. The zero value is what a zero [Checker] uses.
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

var (
	_ Router = System{}
	_ Dialer = System{}
)

// routerOr returns r, the kernel of this machine for nil.
func routerOr(r Router) Router {
	if r == nil {
		return System{}
	}
	return r
}

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

// DialSegment is DialContext with TCP segments of at most mss bytes in both
// directions: the peer is told to send none larger. mss is 88 to 32767, or 0 for
// the usual size. Elsewhere than on Linux a clamp is refused with an error that
// wraps [errors.ErrUnsupported].
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

// socketsOf returns what opens the connections of d, if its sockets can be
// looked at; false for a Dialer of the caller's own kind. nil = the zero System.
func socketsOf(d Dialer) (sockets, bool) {
	switch d := d.(type) {
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
		d.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
			var err error
			switch { // the caller's own come first
			case controlContext != nil:
				err = controlContext(ctx, network, address, c)
			case control != nil:
				err = control(network, address, c)
			}
			if err != nil {
				return err
			}
			return w.prepare(network, c, o)
		}
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

// tcpInfo is what the kernel counted of a connection (TCP_INFO of tcp(7));
// Linux only, zero elsewhere.
type tcpInfo struct {
	retransmits int
	segment     int   // largest payload of one own segment, in bytes
	pathMTU     int   // bytes
	roundTrip   int64 // smoothed, in microseconds
}
