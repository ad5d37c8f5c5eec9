package reach

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pullwalk/pullwalk/classify"
)

// neighbourWaitMS is how long a router looks for a machine on its network before
// it says "host unreachable", at the least: RFC 4861 and Linux' ARP ask three
// times, a second apart. A rule refuses at once.
const neighbourWaitMS = 900

// explain makes the finding of a failed connect as precise as the ICMP answer,
// the route and the trace allow.
func explain(ctx context.Context, router Router, r *Report) {
	if r.Connect == nil || r.Connect.Connected || len(r.findings) == 0 {
		return
	}
	i := len(r.findings) - 1
	f := &r.findings[i]
	if !classifiedByAnswer(f.Cause) {
		return
	}
	switch icmp := r.Connect.ICMP; {
	case icmp != nil && icmp.Own && icmp.Kind != icmpHostUnreachable:
		*f = instead(addFact(*f, factICMP, icmp.String()), classify.RouteProhibited, classify.CertaintyProven,
			fmt.Sprintf("a packet filter of this machine itself refuses connections to %v (%s)", r.Target, icmp.Kind), f.Cause)
	case icmp != nil && icmp.Own:
		*f = neighbourSilent(ctx, router, r, *f)
	case icmp != nil:
		*f = rejected(r, *f)
	case r.Connect.TimedOut:
		*f = timedOut(r, *f)
	}
	if r.Trace != nil {
		*f = r.Trace.addFacts(*f)
	}
}

// classifiedByAnswer: only what the network answered can be explained by it.
func classifiedByAnswer(c classify.Cause) bool {
	switch c {
	case classify.RouteNoRouteToHost, classify.RouteNetworkUnreachable, classify.RouteIPv6Unreachable,
		classify.RouteConnectTimeout, classify.RouteProhibited, classify.EndpointConnectionRefused:
		return true
	}
	return false
}

// neighbourSilent: this machine's own kernel found nobody on the link.
func neighbourSilent(ctx context.Context, router Router, r *Report, f classify.Finding) classify.Finding {
	f = addFact(f, factICMP, r.Connect.ICMP.String())
	certainty := classify.CertaintyProven
	if r.Connect.ElapsedMS < neighbourWaitMS {
		// Another connect may have waited already; or it is a rule that says so.
		certainty = classify.CertaintyLikely
	}
	route := r.Route
	if route == nil {
		// Microseconds, and only when the connect has failed already.
		if found, err := routerOr(router).RouteTo(ctx, r.Target.Addr()); err == nil {
			route = &found
		}
	}
	switch {
	case route == nil:
		return f
	case route.Gateway.IsValid():
		f = route.addFacts(f)
		return instead(f, classify.RouteNoRouteToHost, certainty,
			fmt.Sprintf("the gateway %v does not answer on %s, so no packet to %v leaves this machine's network", route.Gateway, orSomewhere(route.Interface), r.Target), classify.RouteProhibited)
	case route.OnLink && innerInterface(router, route.Interface):
		f = route.addFacts(f)
		return instead(f, classify.RouteOverlap, classify.CertaintyLikely,
			fmt.Sprintf("packets to %v go to %s, a network inside this machine, where nobody answers for it", r.Target.Addr(), route.Interface), classify.RouteHostAbsent)
	case route.OnLink:
		f = route.addFacts(f)
		return instead(f, classify.RouteHostAbsent, certainty,
			fmt.Sprintf("nobody answers for %v on the network of %s", r.Target.Addr(), orSomewhere(route.Interface)), classify.RouteOverlap, classify.RouteProhibited)
	}
	return f
}

func orSomewhere(name string) string {
	if name == "" {
		return "the outgoing interface"
	}
	return name
}

// rejected: something on the path, or the host itself, refused by ICMP.
func rejected(r *Report, f classify.Finding) classify.Finding {
	icmp, to := r.Connect.ICMP, r.Target
	before := f.Cause
	f = addFact(f, factICMP, icmp.String())
	switch {
	case icmp.From == to.Addr() && icmp.Kind == icmpPortUnreachable:
		// The code of a closed port stays; only that it was a rule is added.
		f.Summary = fmt.Sprintf("%v refuses the connection by ICMP, as a REJECT rule on the host does", to)
		return f
	case icmp.From == to.Addr():
		return instead(f, classify.RouteRejected, classify.CertaintyProven,
			fmt.Sprintf("%v itself refuses the connection by ICMP (%s), as a filter on the host does", to, icmp.Kind), before)
	case icmp.Kind == icmpTimeExceeded:
		return instead(f, classify.RouteRejected, classify.CertaintyProven,
			fmt.Sprintf("the packets to %v run in a circle: the hop count ran out at %v", to, icmp.From), before)
	case icmp.Kind == icmpHostUnreachable && r.Connect.ElapsedMS >= neighbourWaitMS:
		return instead(f, classify.RouteHostAbsent, classify.CertaintyLikely,
			fmt.Sprintf("the router %v finds nobody who answers for %v on its network", icmp.From, to.Addr()), classify.RouteRejected)
	}
	return instead(f, classify.RouteRejected, classify.CertaintyProven,
		fmt.Sprintf("%v refuses the connection to %v by ICMP: %s", icmp.From, to, icmp.Kind), before)
}

// timedOut: nothing came back. What the trace saw decides what may be suspected.
func timedOut(r *Report, f classify.Finding) classify.Finding {
	t := r.Trace
	if sent := 1 + r.Connect.Retransmits; r.Connect.Retransmits > 0 {
		f = addFact(f, factSYNs, strconv.Itoa(sent))
	}
	if r.Connect.Source.IsValid() {
		f = addFact(f, classify.FactSource, r.Connect.Source.Addr().String())
	}
	if t == nil || f.Cause != classify.RouteConnectTimeout {
		return f
	}
	switch {
	case t.Rejected != nil && !t.Rejected.Own:
		return instead(addFact(f, factICMP, t.Rejected.String()), classify.RouteRejected, classify.CertaintyLikely,
			fmt.Sprintf("%v gave no answer, and a trace to the same port met a refusal by %v: %s", r.Target, t.Rejected.From, t.Rejected.Kind), classify.RouteConnectTimeout)
	case t.Reached:
		return instead(f, classify.RouteIntermittent, classify.CertaintyLikely,
			fmt.Sprintf("%v gave no answer to one connect and answered another a moment later", r.Target), classify.RouteConnectTimeout)
	case len(t.Others) > 0:
		// The address lives and its answers come back: it is this port.
		return instead(f, classify.RouteConnectTimeout, classify.CertaintyProven,
			fmt.Sprintf("%s; the same address answers on %s, so a way back exists and this port is filtered", f.Summary, t.Others[0].Door), f.Alternatives...)
	case t.Answered() == 0:
		f.Summary += "; no router on the way answered a trace, which proves nothing of them"
		return f
	}
	last := t.LastHop()
	// The silence is what was seen; where it comes from is only possible.
	return instead(f, classify.RouteConnectTimeout, classify.CertaintyProven,
		fmt.Sprintf("%v gave no answer; the last router that answers for the same port is %v (hop %d). Either no way leads back from there, or the target's or that router's filter drops in silence", r.Target, last.Address, last.Number),
		classify.RouteReturnPathSuspected, classify.RouteNoReturnRoute)
}
