package reach

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// kernelRoute asks the kernel of this machine for its own lookup
// (RTM_GETROUTE), which applies the policy rules as for a socket of this user.
// Sockets are opened on the calling thread: they belong to its network
// namespace.
func kernelRoute(ctx context.Context, dst netip.Addr) (Route, error) {
	if ctx.Err() != nil {
		return Route{}, context.Cause(ctx)
	}
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		if outOfDescriptors(errnoOf(err)) {
			return Route{}, err
		}
		return udpRoute(ctx, dst) // a sandbox without netlink
	}
	found, by, err := lookup(ctx, handle, dst)
	if err == nil {
		return fromNetlink(dst, found).from(by), nil
	}
	if ctx.Err() != nil {
		return Route{}, context.Cause(ctx)
	}
	kind := refusal(errnoOf(err))
	switch kind {
	case RouteNone, RouteUnreachable:
		return Route{Destination: dst, Kind: kind, Method: methodNetlink}, nil
	}
	// EACCES may also be a security module that keeps us from asking, EINVAL a
	// kernel that does not know the request; other numbers say that netlink
	// cannot answer. A socket's own lookup decides.
	seen, udpErr := udpRoute(ctx, dst)
	switch {
	case udpErr == nil && kind != "" && seen.Kind == kind:
		seen.Method = methodNetlink
		return seen, nil
	case udpErr == nil:
		return seen, nil
	default:
		return Route{}, err
	}
}

// lookup asks over handle, which it closes. The request runs in a goroutine of
// its own because a kernel that holds its configuration lock cannot be
// interrupted; that goroutine ends with the kernel's answer.
func lookup(ctx context.Context, handle *netlink.Handle, dst netip.Addr) (route netlink.Route, by *netlink.Route, err error) {
	type result struct {
		route netlink.Route
		entry *netlink.Route
		err   error
	}
	answer := make(chan result, 1)
	go func() {
		var res result
		// Bounds the wait for a reply that got lost.
		if res.err = handle.SetSocketTimeout(routeLimit); res.err == nil {
			var routes []netlink.Route
			routes, res.err = handle.RouteGetWithOptions(net.IP(dst.AsSlice()), nil)
			switch {
			case res.err == nil && len(routes) > 0:
				res.route = routes[0]
				if res.route.Type == unix.RTN_UNICAST {
					res.entry = tableEntry(handle, dst)
				}
			case res.err == nil:
				res.err = syscall.EOPNOTSUPP // an answer without a route is none
			}
		}
		handle.Close()
		answer <- res
	}()
	select {
	case res := <-answer:
		return res.route, res.entry, res.err
	case <-ctx.Done():
		return netlink.Route{}, nil, context.Cause(ctx)
	}
}

// tableEntry asks which entry of the table answers: the lookup itself shows the way
// and not who put it there. nil = the kernel does not say (before Linux 4.13).
func tableEntry(handle *netlink.Handle, dst netip.Addr) *netlink.Route {
	routes, err := handle.RouteGetWithOptions(net.IP(dst.AsSlice()), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil || len(routes) == 0 {
		return nil
	}
	return &routes[0]
}

// protocols are the names of iproute2 (rt_protos) for the numbers of
// rtnetlink(7) that are met on nodes.
var protocols = map[netlink.RouteProtocol]string{
	unix.RTPROT_REDIRECT: "redirect", unix.RTPROT_KERNEL: "kernel", unix.RTPROT_BOOT: "boot", unix.RTPROT_STATIC: "static",
	unix.RTPROT_RA: "ra", unix.RTPROT_ZEBRA: "zebra", unix.RTPROT_BIRD: "bird", unix.RTPROT_DHCP: "dhcp", unix.RTPROT_KEEPALIVED: "keepalived",
	unix.RTPROT_BGP: "bgp", unix.RTPROT_OSPF: "ospf",
}

// from adds the entry that decides to a route.
func (r Route) from(entry *netlink.Route) Route {
	if entry == nil {
		return r
	}
	if r.Protocol = protocols[entry.Protocol]; r.Protocol == "" && entry.Protocol != unix.RTPROT_UNSPEC {
		r.Protocol = strconv.Itoa(int(entry.Protocol))
	}
	unspecified := netip.IPv4Unspecified()
	if r.Destination.Is6() {
		unspecified = netip.IPv6Unspecified()
	}
	r.Prefix = netip.PrefixFrom(unspecified, 0)
	if entry.Dst != nil {
		if addr, ok := netip.AddrFromSlice(entry.Dst.IP); ok {
			ones, _ := entry.Dst.Mask.Size()
			r.Prefix = netip.PrefixFrom(addr.Unmap(), ones)
		}
	}
	return r
}

// fromNetlink translates the kernel's answer.
func fromNetlink(dst netip.Addr, found netlink.Route) Route {
	route := Route{
		Destination: dst,
		Table:       found.Table,
		MTU:         found.MTU,
		Kind:        kindOf(found.Type),
		Method:      methodNetlink,
		Source:      addrOf(found.Src),
		Gateway:     addrOf(found.Gw),
	}
	// An IPv4 route with an IPv6 next hop comes as RTA_VIA.
	if via, ok := found.Via.(*netlink.Via); ok && via != nil && !route.Gateway.IsValid() {
		route.Gateway = addrOf(via.Addr)
	}
	route.OnLink = route.Kind == RouteUnicast && len(found.Gw) == 0 && found.Via == nil
	if found.LinkIndex > 0 {
		route.Interface, route.LinkMTU = linkOf(found.LinkIndex)
	}
	return route
}

// kindOf translates an RTN_ type (rtnetlink(7)); "" for those that no lookup of
// an output route answers with.
func kindOf(rtn int) RouteKind {
	switch rtn {
	case unix.RTN_UNICAST:
		return RouteUnicast
	case unix.RTN_LOCAL, unix.RTN_ANYCAST: // both are delivered here
		return RouteLocal
	case unix.RTN_BROADCAST:
		return RouteBroadcast
	case unix.RTN_UNREACHABLE:
		return RouteUnreachable
	case unix.RTN_BLACKHOLE:
		return RouteBlackhole
	case unix.RTN_PROHIBIT:
		return RouteProhibit
	}
	return ""
}

// addrOf returns ip as an address; zero if it is none.
func addrOf(ip net.IP) netip.Addr {
	addr, ok := netip.AddrFromSlice(ip)
	if !ok || addr.IsUnspecified() {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// linkOf returns name and MTU of an interface, "" and 0 if they are not to be
// had. The ioctls (netdevice(7)) take no configuration lock, where a dump of all
// interfaces would wait for it and be slow on a node with thousands of Pods.
func linkOf(index int) (name string, mtu int) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", 0
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("")
	if err != nil {
		return "", 0
	}
	req.SetUint32(uint32(index))
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFNAME, req); err != nil {
		return "", 0
	}
	name = req.Name()
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFMTU, req); err != nil {
		return name, 0
	}
	return name, int(req.Uint32())
}
