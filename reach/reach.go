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

const (
	// connectLimit: a SYN is repeated after 1 s and 3 s (RFC 6298 with the
	// usual initial timeout of 1 s), so that 5 s covers the loss of two.
	connectLimit = 5 * time.Second
	// routeLimit: a lookup takes microseconds. A kernel that is busy changing
	// thousands of interfaces can hold it up; longer than this is no answer.
	routeLimit = 2 * time.Second
)

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
	// Rounds is how often Check connects, to show rates; 0 or less = once, at
	// most 100. The rounds start Every apart, all at once if that is 0: loss of
	// ports for address translation shows with many at once, a path that comes
	// and goes with some time between.
	Rounds int
	Every  time.Duration
	// Watch is how long Check waits whether an accepted connection is reset or
	// closed again at once; 0 or less = not at all. A healthy connection costs all
	// of it. Not on Windows.
	Watch time.Duration
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

func (c *Checker) router() Router {
	if c.Router != nil {
		return c.Router
	}
	return RouterFunc(kernelRoute)
}

// Report is what was seen of one address.
type Report struct {
	// Target is what was asked for; an IPv4-mapped address stands unmapped, and
	// the port is 0 if only a route was asked for.
	Target netip.AddrPort `json:"target"`
	// Route is the way there; nil = not asked for, or not known.
	Route *Route `json:"route,omitempty"`
	// Connect is the outcome of the connect; nil = not asked for, or not tried. Of
	// several rounds it is the first that failed, else the first.
	Connect *Connect `json:"connect,omitempty"`
	// Rounds are all connects in the order of their start, if there were several.
	Rounds []Connect `json:"rounds,omitempty"`
	// Trace is the way as the routers answered; nil = not begun, see
	// [Checker.Trace].
	Trace *Trace `json:"trace,omitempty"`
	// Pressure is how much room the kernel had left when the connect failed in a way
	// that a lack of it explains; nil = it did not, or nobody asked.
	Pressure *Pressure `json:"pressure,omitempty"`
	// Inconclusive says why something that was asked for is not decided; "" =
	// all of it is.
	Inconclusive string `json:"inconclusive,omitempty"`

	findings []classify.Finding
}

// Held reports whether everything that was asked for was seen to work.
func (r *Report) Held() bool {
	return r.Inconclusive == "" && (r.Route != nil || r.Connect != nil) &&
		(r.Route == nil || r.Route.Usable()) && (r.Connect == nil || r.Connect.Connected && r.Connect.After == "")
}

// Findings returns what is wrong or worth saying, the route first. Their
// Endpoint is the address, with the port if a connect was asked for. The slice
// is the caller's own. A report that was decoded from JSON has none.
func (r *Report) Findings() []classify.Finding { return slices.Clone(r.findings) }

func (r *Report) add(f classify.Finding) { r.findings = append(r.findings, f) }

// inconclusive notes a reason; an earlier one is kept.
func (r *Report) inconclusive(reason string) {
	switch r.Inconclusive {
	case "":
		r.Inconclusive = reason
	case reason: // route and connect met the same obstacle
	default:
		r.Inconclusive += "; " + reason
	}
}

// Check looks up the route to target and then tries a TCP connect, or several
// (see [Checker.Rounds]), which it closes again. The connect is tried whatever the lookup said: routing rules
// may treat a connection otherwise than a bare address, and then the refusal is
// only a warning.
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
	c.connects(ctx, target, r)
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

	route, err := c.router().RouteTo(stepCtx, dst)
	if err == nil {
		r.Route = &route
		if f, bad := route.finding(dst, endpoint); bad {
			r.add(f)
		} else if f, inside := c.inside(route, dst, endpoint); inside {
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

// endedReason says that the caller's context ended while doing what.
func endedReason(ctx context.Context, what string) string {
	return "the caller's context ended before " + what + " was decided: " +
		classify.Redact(context.Cause(ctx).Error(), maxErrorText)
}
