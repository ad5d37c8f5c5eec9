package simnet

import (
	"context"
	"net/netip"
	"syscall"

	"github.com/pullwalk/pullwalk/reach"
)

type route struct {
	prefix netip.Prefix
	route  reach.Route
}

// Route adds a route. The longest prefix wins, of equal ones the last added.
// In r, Destination is filled in with the address asked for, an empty Kind
// means "unicast" and an empty Method "simnet". Source is the address that
// connections come from; without one they come from an address of the
// documentation ranges.
//
// A new Net has no routes, and nothing can be dialled without one.
func (n *Net) Route(prefix netip.Prefix, r reach.Route) {
	if r.Kind == "" {
		r.Kind = reach.RouteUnicast
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.routes = append(n.routes, route{prefix: prefix.Masked(), route: r})
}

// Router answers from the routes of the Net; no route is Kind "none".
func (n *Net) Router() reach.Router { return router{n} }

type router struct{ net *Net }

// RouteTo looks the address up. The only error is that of an ended context.
func (r router) RouteTo(ctx context.Context, addr netip.Addr) (reach.Route, error) {
	if err := ctx.Err(); err != nil {
		return reach.Route{}, err
	}
	return r.net.routeTo(addr), nil
}

func (n *Net) routeTo(addr netip.Addr) reach.Route {
	addr = addr.Unmap()
	n.mu.Lock()
	defer n.mu.Unlock()
	best, bits := reach.Route{Kind: reach.RouteNone}, -1
	for _, r := range n.routes {
		if r.prefix.Contains(addr) && r.prefix.Bits() >= bits {
			best, bits = r.route, r.prefix.Bits()
		}
	}
	best.Destination = addr
	if best.Method == "" {
		best.Method = "simnet"
	}
	return best
}

// routeErrno is what connect gives for a route of this kind on Linux
// (net/ipv4/fib_semantics.c, table fib_props); 0 = packets go out.
func routeErrno(kind reach.RouteKind) syscall.Errno {
	switch kind {
	case reach.RouteNone, reach.RouteBroadcast:
		return eNETUNREACH
	case reach.RouteUnreachable:
		return eHOSTUNREACH
	case reach.RouteProhibit:
		return eACCES
	case reach.RouteBlackhole:
		return eINVAL
	}
	return 0
}

// sourceOf returns the address that packets on this route come from.
func sourceOf(r reach.Route) netip.Addr {
	switch {
	case r.Source.IsValid():
		return r.Source
	case r.Destination.Is4():
		return netip.AddrFrom4([4]byte{192, 0, 2, 1})
	}
	return netip.MustParseAddr("2001:db8::1")
}
