package reach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// connectLimit: a SYN is repeated after 1 s and 3 s (RFC 6298 with the usual
// initial timeout of 1 s), so that 5 s covers the loss of two.
const connectLimit = 5 * time.Second

// Checker looks at addresses. The zero value asks this machine. It is safe for
// concurrent use and must not be copied after its first use.
type Checker struct {
	// Router answers the route question; nil = the kernel of this machine.
	Router Router
	// Dialer opens the connection; nil = the operating system's TCP, one plain
	// attempt without keep-alive probes. A [System] looks from another network
	// namespace. Answers from the socket's error queue, counters and traces need
	// nil, a System or a [*net.Dialer].
	Dialer Dialer
	// Limit bounds one connect; 0 or less = 5 s.
	Limit time.Duration
	// NoTrace leaves out the trace that follows a second of silence or a refusal
	// by a router.
	NoTrace bool
	// Pressure is the file tree of the machine that connects: when nothing answers
	// for a second, or a connect lacks something on this machine, the kernel's
	// counters below its proc are read, see [CheckPressure]. nil = they are not.
	Pressure fs.FS
	// Ranges are networks that exist only inside the cluster or the node, such as
	// the pod and the service range. A registry's address inside one of them is a
	// finding. nil = not known, only the node's interfaces are looked at.
	Ranges []Range

	traces slots
}

func (c *Checker) limit() time.Duration {
	if c.Limit > 0 {
		return c.Limit
	}
	return connectLimit
}

// Check looks up the route to target and then tries a TCP connect, which it
// closes again. It connects whatever the lookup gave: policy routing can treat
// a connection otherwise than a bare address, and then the refused lookup is only
// a warning.
//
// An error means that target is no TCP destination. The end of ctx is no error:
// the report holds what is known by then.
func (c *Checker) Check(ctx context.Context, target netip.AddrPort) (*Report, error) {
	target, err := cleanTarget(target)
	if err != nil {
		return nil, err
	}
	r := &Report{Target: target}
	if err := c.route(ctx, target.Addr(), target.String(), r); err != nil {
		r.inconclusive("the route was not looked at: " + classify.Redact(err.Error(), maxErrorText))
	}
	if ctx.Err() != nil {
		if r.Inconclusive == "" {
			r.inconclusive(endedReason(ctx, "the connect"))
		}
		return r, nil
	}
	routed := len(r.findings)
	if conn := c.connect(ctx, target, r); conn != nil {
		_ = conn.Close() // nothing was written
	}
	r.reconcile(routed)
	return r, nil
}

// CheckRoute only looks up the route to addr.
//
// An error means that addr is no destination or, wrapping
// [errors.ErrUnsupported], that routes cannot be looked at here.
func (c *Checker) CheckRoute(ctx context.Context, addr netip.Addr) (*Report, error) {
	addr, err := cleanAddr(addr)
	if err != nil {
		return nil, err
	}
	r := &Report{Target: netip.AddrPortFrom(addr, 0)}
	if err := c.route(ctx, addr, addr.String(), r); err != nil {
		return nil, err
	}
	return r, nil
}

// Connect only tries the TCP connect. The connection is handed on open and the
// caller closes it; it is nil when there is none, and the report says why.
//
// An error means that target is no TCP destination.
func (c *Checker) Connect(ctx context.Context, target netip.AddrPort) (*Report, net.Conn, error) {
	target, err := cleanTarget(target)
	if err != nil {
		return nil, nil, err
	}
	r := &Report{Target: target}
	return r, c.connect(ctx, target, r), nil
}

// Trace finds the routers on the way to target with connects of limited hop
// count to the same port, up to 30 hops at once and 3 s in all. It needs no
// privileges and no raw socket, and it works on Linux only.
//
// A connect that arrives is closed at once, unless it is the target's own
// refusal. Beside them one SYN to TCP 80 and one datagram to UDP 33434 of the
// same address ask whether it lives at all.
//
// An error means that target is no TCP destination or, wrapping
// [errors.ErrUnsupported], that this system or the Checker's Dialer does not
// allow to look.
func (c *Checker) Trace(ctx context.Context, target netip.AddrPort) (*Trace, error) {
	target, err := cleanTarget(target)
	if err != nil {
		return nil, err
	}
	s, ok := socketsOf(c.Dialer)
	switch {
	case !canObserve:
		return nil, fmt.Errorf("reach: trace: %w on this system", errors.ErrUnsupported)
	case !ok:
		return nil, fmt.Errorf("reach: trace: %w by the Checker's Dialer, whose sockets are not ours", errors.ErrUnsupported)
	}
	return c.traces.trace(ctx, s.namespace, target, traceLimit), nil
}

// route asks the router once and notes the answer in r. An error means that
// nothing can be looked at here.
func (c *Checker) route(ctx context.Context, dst netip.Addr, endpoint string, r *Report) error {
	if ctx.Err() != nil {
		r.inconclusive(endedReason(ctx, "the route lookup"))
		return nil
	}
	own := &limitReached{routeLimit}
	stepCtx, cancel := context.WithTimeoutCause(ctx, own.limit, own)
	defer cancel()

	route, err := routerOr(c.Router).RouteTo(stepCtx, dst)
	if err == nil {
		r.Route = &route
		if f, bad := route.finding(dst, endpoint); bad {
			r.add(f)
		} else if f, inside := inside(c.Ranges, c.Router, route, dst, endpoint); inside {
			r.add(f)
		} else if !route.Usable() {
			r.inconclusive(fmt.Sprintf("the route lookup gave a route of unknown kind %q", classify.Redact(string(route.Kind), 32)))
		}
		return nil
	}
	switch ended := context.Cause(stepCtx); {
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("reach: route to %v: %w", dst, err)
	case outOfDescriptors(errnoOf(err)):
		r.localLimit(endpoint, "look up the route to", err)
	case ended == error(own):
		r.inconclusive("the route lookup gave " + own.Error())
	case ended != nil:
		r.inconclusive(endedReason(ctx, "the route lookup"))
	default:
		r.inconclusive("the route could not be looked up: " + classify.Redact(err.Error(), maxErrorText))
	}
	return nil
}

// reconcile makes one story of the findings of the route, the first routed
// ones, and those of the connect.
func (r *Report) reconcile(routed int) {
	if r.Route == nil || r.Connect == nil {
		return
	}
	if r.Connect.Connected {
		for i := range r.findings[:routed] {
			if r.Route.Usable() {
				continue
			}
			r.findings[i].Severity = classify.SeverityWarn
			r.findings[i].Summary += ", yet a connection came about: connections are routed by more than the address here"
		}
		return
	}
	for i, f := range r.findings[:routed] {
		if f.Severity == classify.SeverityInfo && len(r.findings) > routed {
			r.findings[i].Severity = classify.SeverityWarn // it may explain the failure
		}
	}
	refused := routed > 0 && !r.Route.Usable() && r.Connect.Errno != ""
	for i, f := range slices.Backward(r.findings[routed:]) {
		i += routed
		if refused && f.Layer == classify.LayerRoute {
			// The kernel refused the connect because of that very route.
			r.findings[0] = addFact(r.findings[0], classify.FactErrno, r.Connect.Errno)
			r.findings = slices.Delete(r.findings, i, i+1)
			continue
		}
		r.findings[i] = r.Route.addFacts(f)
	}
}
