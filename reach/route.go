package reach

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Router looks up the route to an address.
//
// A refusal by the routing (no route, unreachable, …) is a [Route] with that
// kind, not an error. An error means that the lookup failed; it
// wraps [errors.ErrUnsupported] where nothing can be looked at. RouteTo must
// return soon after ctx ended and must be safe for concurrent use.
type Router interface {
	RouteTo(ctx context.Context, dst netip.Addr) (Route, error)
}

// RouterFunc is a function that is a [Router].
type RouterFunc func(ctx context.Context, dst netip.Addr) (Route, error)

// RouteTo calls f.
func (f RouterFunc) RouteTo(ctx context.Context, dst netip.Addr) (Route, error) { return f(ctx, dst) }

// routeLimit: a lookup takes microseconds. A kernel that is busy changing
// thousands of interfaces can hold it up; longer than this is no answer.
const routeLimit = 2 * time.Second

// RouteKind is the type of a route, as Linux names it (rtnetlink(7)).
type RouteKind string

// The kinds of a [Route]. Only [RouteUnicast] and [RouteLocal] deliver TCP.
const (
	RouteUnicast     RouteKind = "unicast"     // sent out, to the gateway or to the destination itself
	RouteLocal       RouteKind = "local"       // the destination is this machine
	RouteBroadcast   RouteKind = "broadcast"   // broadcast address of a network of this machine; TCP is refused
	RouteUnreachable RouteKind = "unreachable" // a route that answers "no route to host"
	RouteBlackhole   RouteKind = "blackhole"   // a route that throws packets away
	RouteProhibit    RouteKind = "prohibit"    // a route or rule that forbids the destination
	RouteNone        RouteKind = "none"        // no route matches, or no such address family here
)

// The values of [Route.Method] that this package sets.
const (
	methodNetlink    = "netlink"     // Linux: the kernel's own lookup
	methodBSDRoute   = "bsd-route"   // BSD, macOS: kernel by UDP connect, details from the routing table
	methodUDPConnect = "udp-connect" // source address and refusal only
)

// Route is the outcome of a route lookup for one address. It says nothing of the
// way back, nor of the path behind the next hop.
type Route struct {
	// Destination is the address that was asked for.
	Destination netip.Addr `json:"destination,omitzero"`
	// Source is the address that the kernel would send from; zero = not known.
	Source netip.Addr `json:"source,omitzero"`
	// Gateway is the next hop; zero = none, or not known (see OnLink). An IPv4
	// destination may have an IPv6 gateway (RFC 5549).
	Gateway netip.Addr `json:"gateway,omitzero"`
	// Interface is the name of the outgoing interface; "" = not known.
	Interface string `json:"interface,omitempty"`
	// Table is the number of the Linux routing table; 0 = not known. While there
	// are no policy rules, Linux answers for IPv4 addresses of its own with the
	// main table (254) instead of the local one (255).
	Table int `json:"table,omitempty"`
	// MTU, in bytes, is what the route itself says or the kernel has learnt for
	// this path; 0 = nothing, so that LinkMTU counts.
	MTU int `json:"mtu,omitempty"`
	// LinkMTU, in bytes, is the MTU of the interface; 0 = not known.
	LinkMTU int `json:"linkMtu,omitempty"`
	// OnLink: no gateway in between, the destination is on the interface's own
	// network (or a tunnel takes it). false where it is not known.
	OnLink bool `json:"onLink,omitempty"`
	// Prefix is the entry of the table that decides, for a default route the one of
	// length 0; Protocol who put it there, by the names of iproute2 ("kernel", "dhcp",
	// "static", "bird"; a number where it has none). "boot" is what `ip route add`
	// leaves, and many scripts and container networks with it. Linux, and only for
	// addresses of other machines; zero = not known.
	Prefix   netip.Prefix `json:"prefix,omitzero"`
	Protocol string       `json:"protocol,omitempty"`
	// Kind is what the routing does with the packet; "" = not known.
	Kind RouteKind `json:"kind"`
	// Method says how this was found out: "netlink" (Linux: the kernel's own
	// lookup), "bsd-route" (BSD, macOS: kernel by UDP connect, details from the
	// routing table), "udp-connect" (source address and refusal only), or a word of
	// the caller's own Router.
	Method string `json:"method,omitempty"`
}

// Usable reports whether the route delivers TCP (unicast or local). It does not
// prove that packets arrive.
func (r Route) Usable() bool { return r.Kind == RouteUnicast || r.Kind == RouteLocal }

// finding returns what is wrong with the route; false if nothing is, or if the
// kind is none that this package knows.
func (r Route) finding(dst netip.Addr, endpoint string) (classify.Finding, bool) {
	var cause classify.Cause
	var summary string
	switch r.Kind {
	case RouteNone:
		cause, summary = classify.RouteNetworkUnreachable, fmt.Sprintf("this machine has no route to %v", dst)
		if dst.Is6() {
			cause, summary = classify.RouteIPv6Unreachable, fmt.Sprintf("this machine has no IPv6 route to %v", dst)
		}
	case RouteUnreachable:
		cause, summary = classify.RouteNoRouteToHost, fmt.Sprintf("the routing of this machine declares %v unreachable", dst)
	case RouteBlackhole:
		cause, summary = classify.RouteBlackhole, fmt.Sprintf("a blackhole route of this machine throws away every packet to %v", dst)
	case RouteProhibit:
		cause, summary = classify.RouteProhibited, fmt.Sprintf("the routing of this machine prohibits %v", dst)
	case RouteBroadcast:
		// The kernel answers a connect there with ENETUNREACH.
		cause, summary = classify.RouteNetworkUnreachable, fmt.Sprintf("%v is the broadcast address of a network of this machine, and TCP cannot go there", dst)
	default:
		return classify.Finding{}, false
	}
	f := classify.New(cause, summary, classify.Fact{Key: classify.FactAddress, Value: dst.String()},
		classify.Fact{Key: classify.FactRoute, Value: string(r.Kind)})
	f.Endpoint = endpoint
	return r.addFacts(f), true
}

// addFacts returns f with what the route knows and f does not say yet.
func (r Route) addFacts(f classify.Finding) classify.Finding {
	if r.Gateway.IsValid() {
		f = addFact(f, classify.FactGateway, r.Gateway.String())
	}
	f = addFact(f, classify.FactInterface, r.Interface)
	if r.Source.IsValid() {
		f = addFact(f, classify.FactSource, r.Source.String())
	}
	if r.Table > 0 {
		f = addFact(f, classify.FactTable, strconv.Itoa(r.Table))
	}
	return f
}
