package reach

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/pullwalk/pullwalk/classify"
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

// Connect is the outcome of one TCP connect to one address. What is marked
// "Linux" needs the system's own sockets: a [System], a [*net.Dialer] or nil as
// the Checker's Dialer.
type Connect struct {
	// Connected: the other side, or something in its name, accepted. It proves
	// both directions for small packets only.
	Connected bool `json:"connected"`
	// Source is the own end of the connection; on Linux also of one that did not
	// come about. Zero = not known.
	Source netip.AddrPort `json:"source,omitzero"`
	// Errno is the symbolic name of the operating system's answer, the POSIX
	// one also on Windows ("ECONNREFUSED"); "" = none.
	Errno string `json:"errno,omitempty"`
	// TimedOut: nothing answered within the limit, or until the kernel gave up.
	TimedOut bool `json:"timedOut,omitempty"`
	// ElapsedMS is the time until the outcome, in whole milliseconds.
	ElapsedMS int64 `json:"elapsedMs"`
	// RoundTripMS is the time from SYN to SYN-ACK as the kernel measured it, in
	// whole milliseconds; Linux. 0 = less than one, or not known.
	RoundTripMS int64 `json:"roundTripMs,omitempty"`
	// Retransmits counts the SYNs that had to be repeated; Linux.
	Retransmits int `json:"synRetransmits,omitempty"`
	// Segment is the largest payload of one own packet, PathMTU what the kernel
	// believes of the path, both in bytes; Linux. 0 = not known.
	Segment int `json:"segment,omitempty"`
	PathMTU int `json:"pathMtu,omitempty"`
	// ICMP is the answer that ended the connect; Linux. nil = none: a TCP reset,
	// silence, or an answer of this machine.
	ICMP *ICMP `json:"icmp,omitempty"`
	// After is what became of the connection while it was watched (see
	// [Checker.Watch]): "reset", "closed", or "" = it stayed open. A reset that
	// is faster than the dialer leaves Connected false.
	After string `json:"after,omitempty"`
	// Error is the dialer's own text, shortened; "" when connected.
	Error string `json:"error,omitempty"`
}

// maxErrorText bounds Connect.Error and reasons that quote an error, in bytes.
const maxErrorText = 256

func boundedText(err error) string { return classify.Redact(err.Error(), maxErrorText) }

// limitReached is the cause of a context that our own limit ended. Each call
// makes its own, so that the limit of an outer call is never taken for ours.
type limitReached struct{ limit time.Duration }

func (e *limitReached) Error() string { return "no answer within " + e.limit.String() }

// open calls the dialer, and watches the socket where that can be done.
func (c *Checker) open(ctx context.Context, target netip.AddrPort, namespace string) (net.Conn, *watch, error) {
	s, ok := c.sockets()
	if !ok {
		conn, err := c.Dialer.DialContext(ctx, "tcp", target.String())
		return conn, newWatch(), err
	}
	if namespace != "" {
		s.namespace = namespace
	}
	return s.dial(ctx, "tcp", target.String(), socketOptions{observe: canObserve})
}

// connectOnce tries target once and notes the outcome in r. The returned
// connection is open; nil means that there is none. from is the namespace to look from, "" = the
// Checker's.
func (c *Checker) connectOnce(ctx context.Context, target netip.AddrPort, from string, r *Report) net.Conn {
	if ctx.Err() != nil {
		r.inconclusive(endedReason(ctx, "the connect"))
		return nil
	}
	own := &limitReached{c.limit()}
	stepCtx, cancel := context.WithTimeoutCause(ctx, own.limit, own)
	defer cancel()

	start := time.Now()
	conn, w, err := c.open(stepCtx, target, from)
	defer w.close()
	r.Connect = &Connect{ElapsedMS: time.Since(start).Milliseconds()}
	if err == nil && conn != nil {
		r.Connect.Connected, r.Connect.Source = true, localAddr(conn)
		r.Connect.count(w.connected())
		return conn
	}
	if err == nil {
		r.inconclusive("the dialer returned neither a connection nor an error")
		return nil
	}
	var namespace *namespaceError
	if errors.As(err, &namespace) {
		r.Connect = nil // nothing was sent
		r.inconclusive(boundedText(err))
		return nil
	}
	flow, source, icmp := w.failed()
	r.Connect.count(flow)
	r.Connect.RoundTripMS = 0 // that of a SYN without an answer is the kernel's first guess
	r.Connect.Source, r.Connect.ICMP = source, icmp
	r.Connect.Error = boundedText(err)
	errno := errnoOf(err)
	r.Connect.Errno = errno
	if errno == "ECONNRESET" {
		// A reset in the place of an answer is ECONNREFUSED (RFC 9293, 3.10.7.3):
		// this one came after the accept, before the dialer could look.
		r.Connect.After = AfterReset
	}

	// net.Dialer arms its own timer from the context's deadline and may be ahead
	// of the context by a moment; wait for it, or its end would look like an
	// error of the network.
	var netErr net.Error
	if errno == "" && errors.As(err, &netErr) && netErr.Timeout() {
		if deadline, ok := stepCtx.Deadline(); ok && !time.Now().Before(deadline) {
			<-stepCtx.Done()
		}
	}
	stage := &classify.StageError{Stage: classify.StageConnect, Endpoint: target.String(), Address: target.String(), Err: err}
	switch ended := context.Cause(stepCtx); {
	case errno != "": // an answer, even if it came with the last moment of a limit
		r.Connect.TimedOut = errno == "ETIMEDOUT"
	case ended == error(own):
		r.Connect.TimedOut = true
		stage.Limit = own.limit
	case ended != nil:
		r.inconclusive(endedReason(ctx, "the connect"))
		return nil
	case netErr != nil && netErr.Timeout():
		r.Connect.TimedOut = true // a limit of the caller's own Dialer
	}

	f := classify.Error(stage)
	if f.Cause == classify.NodeLocalLimit || outOfDescriptors(errno) {
		r.localLimit(target.String(), "connect to", err)
		return nil
	}
	f.Endpoint = target.String()
	f = addFact(f, classify.FactAddress, target.String())
	f = addFact(f, classify.FactErrno, errno)
	r.add(f)
	return nil
}

// count takes over what the kernel counted.
func (c *Connect) count(flow Flow) {
	c.RoundTripMS = flow.roundTrip / 1000
	c.Retransmits, c.Segment, c.PathMTU = flow.Retransmits, flow.Segment, flow.PathMTU
}

// localAddr returns the own end of conn, zero if it is no IP address with port.
func localAddr(conn net.Conn) netip.AddrPort {
	local := conn.LocalAddr()
	if local == nil {
		return netip.AddrPort{}
	}
	var ap netip.AddrPort
	switch a := local.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	default:
		ap, _ = netip.ParseAddrPort(local.String()) // a caller's own kind of connection
	}
	if !ap.Addr().IsValid() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}
