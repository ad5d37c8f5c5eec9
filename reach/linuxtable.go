package reach

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
)

// linuxRoute is one entry of `ip -j route`.
type linuxRoute struct {
	Type     string         `json:"type"`
	Dst      string         `json:"dst"`
	Gateway  string         `json:"gateway"`
	Via      *linuxVia      `json:"via"`
	Dev      string         `json:"dev"`
	Protocol string         `json:"protocol"`
	PrefSrc  string         `json:"prefsrc"`
	Table    string         `json:"table"`
	Metric   int            `json:"metric"`
	Flags    []string       `json:"flags"`
	NextHops []linuxNextHop `json:"nexthops"`
}

type linuxVia struct {
	Host string `json:"host"`
}

type linuxNextHop struct {
	Gateway string    `json:"gateway"`
	Via     *linuxVia `json:"via"`
	Dev     string    `json:"dev"`
	Flags   []string  `json:"flags"`
}

// ParseLinuxRoutes reads what `ip -j route` or `ip -j -6 route` prints. Of `show
// table all` it takes the tables main and local: which other table applies is
// decided by rules that stand elsewhere. A route with several next hops keeps
// the first that is up.
//
// The word "default" says no address family; it is taken from the gateway, else
// such a route counts for both.
func ParseLinuxRoutes(r io.Reader) ([]TableRoute, error) {
	list, err := decodeList[linuxRoute](r)
	if err != nil {
		return nil, fmt.Errorf("reach: ip -j route: %w", err)
	}
	var routes []TableRoute
	var count counted
	for i, entry := range list {
		found, err := entry.routes()
		if err == nil {
			err = count.add(len(found))
		}
		if err != nil {
			return nil, fmt.Errorf("reach: ip -j route: entry %d: %w", i+1, err)
		}
		routes = append(routes, found...)
	}
	return routes, nil
}

func (in linuxRoute) routes() ([]TableRoute, error) {
	if in.Dst == "" {
		return nil, fmt.Errorf(`no "dst": this is no route`)
	}
	switch in.Table {
	case "", "main", "254", "local", "255":
	default:
		return nil, nil
	}
	route := TableRoute{Interface: clip(in.Dev), Metric: in.Metric, Inactive: down(in.Flags)}
	if in.Protocol != "" {
		// Not the words of other tables: on Linux only the metric decides.
		route.Source = "proto " + clip(in.Protocol)
	}
	gateway := in.Gateway
	if gateway == "" && in.Via != nil {
		gateway = in.Via.Host
	}
	for _, hop := range in.NextHops {
		if down(hop.Flags) {
			continue
		}
		gateway, route.Interface = hop.Gateway, clip(hop.Dev)
		if gateway == "" && hop.Via != nil {
			gateway = hop.Via.Host
		}
		break
	}
	if len(in.NextHops) > 0 && !slices.ContainsFunc(in.NextHops, func(h linuxNextHop) bool { return !down(h.Flags) }) {
		route.Inactive = true
	}
	switch in.Type {
	case "", "unicast":
		route.Kind = HopLocal
		if gateway != "" {
			route.Kind = HopGateway
		}
	case "local", "anycast":
		route.Kind = HopLocal
	case "blackhole":
		route.Kind = HopNone
	case "unreachable", "throw":
		route.Kind = HopUnreachable
	case "prohibit":
		route.Kind = HopProhibit
	case "broadcast", "multicast":
		return nil, nil
	default:
		return nil, fmt.Errorf("type %q", clip(in.Type))
	}
	var err error
	if gateway != "" {
		if route.Address, err = parseHop(gateway); err != nil {
			return nil, err
		}
	}
	if in.Dst != "default" {
		route.Prefix, err = parsePrefix(in.Dst)
		return []TableRoute{route}, err
	}
	var both []TableRoute
	for _, any := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		// An IPv4 route may have an IPv6 next hop, but then it comes as "via".
		if in.Gateway != "" && route.Address.Is4() != any.Addr().Is4() || in.Via != nil && any.Addr().Is6() {
			continue
		}
		route.Prefix = any
		both = append(both, route)
	}
	return both, nil
}

// down reports whether the kernel passes over a route with these flags.
func down(flags []string) bool {
	return slices.Contains(flags, "dead") || slices.Contains(flags, "linkdown")
}
