package reach

import (
	"context"
	"net"
	"net/netip"
)

// udpRoute finds the source address or the refusal by connecting a UDP socket:
// the kernel looks up the route and sends nothing. It shows no gateway, and the
// interface that owns the source address need not be the outgoing one, so
// neither is claimed.
func udpRoute(ctx context.Context, dst netip.Addr) (Route, error) {
	route := Route{Destination: dst, Method: methodUDPConnect}
	var d net.Dialer
	// The port plays no part, but some kernels refuse 0.
	conn, err := d.DialContext(ctx, "udp", netip.AddrPortFrom(dst, 443).String())
	if err != nil {
		errno := errnoOf(err)
		if route.Kind = refusal(errno); route.Kind == "" && dst.Is6() && errno == "EADDRNOTAVAIL" {
			route.Kind = RouteNone // IPv6 without an address to send from: switched off
		}
		if route.Kind != "" {
			return route, nil
		}
		return Route{}, err
	}
	route.Source = localAddr(conn).Addr()
	route.Kind = RouteUnicast
	if dst.IsLoopback() || dst == route.Source {
		route.Kind = RouteLocal
	}
	_ = conn.Close() // nothing was written
	return route, nil
}
