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

// Connect is the outcome of one TCP connect to one address.
type Connect struct {
	// Connected: the other side, or something in its name, accepted. It proves
	// both directions for small packets only.
	Connected bool `json:"connected"`
	// Source is the own end of the connection; zero = not connected, or the
	// connection does not tell.
	Source netip.AddrPort `json:"source,omitzero"`
	// Errno is the symbolic name of the operating system's answer, the POSIX
	// one also on Windows ("ECONNREFUSED"); "" = none.
	Errno string `json:"errno,omitempty"`
	// TimedOut: nothing answered within the limit, or until the kernel gave up.
	TimedOut bool `json:"timedOut,omitempty"`
	// ElapsedMS is the time until the outcome, in whole milliseconds.
	ElapsedMS int64 `json:"elapsedMs"`
	// Error is the dialer's own text, shortened; "" when connected.
	Error string `json:"error,omitempty"`
}

// maxErrorText bounds Connect.Error and reasons that quote an error, in bytes.
const maxErrorText = 256

// limitReached is the cause of a context that our own limit ended. Each call
// makes its own, so that the limit of an outer call is never taken for ours.
type limitReached struct{ limit time.Duration }

func (e *limitReached) Error() string { return "no answer within " + e.limit.String() }

// connect tries target once and notes the outcome in r. The returned connection
// is open; nil means that there is none.
func (c *Checker) connect(ctx context.Context, target netip.AddrPort, r *Report) net.Conn {
	if ctx.Err() != nil {
		r.inconclusive(endedReason(ctx, "the connect"))
		return nil
	}
	own := &limitReached{c.limit()}
	stepCtx, cancel := context.WithTimeoutCause(ctx, own.limit, own)
	defer cancel()

	start := time.Now()
	conn, err := c.dialer().DialContext(stepCtx, "tcp", target.String())
	r.Connect = &Connect{ElapsedMS: time.Since(start).Milliseconds()}
	if err == nil && conn != nil {
		r.Connect.Connected, r.Connect.Source = true, localAddr(conn)
		return conn
	}
	if err == nil {
		r.inconclusive("the dialer returned neither a connection nor an error")
		return nil
	}
	r.Connect.Error = classify.Redact(err.Error(), maxErrorText)
	errno := errnoOf(err)
	r.Connect.Errno = errno

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
