//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package reach

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"syscall"

	"golang.org/x/net/route"
)

// darwinScoped is RTF_IFSCOPE of macOS' net/route.h: a route only for sockets
// bound to that interface, so never the one of an ordinary connection.
const darwinScoped = 0x1000000

// kernelRoute asks the kernel of this machine. The kernel decides, through a
// UDP socket; the routing table adds the way where it agrees with that.
func kernelRoute(ctx context.Context, dst netip.Addr) (Route, error) {
	seen, err := udpRoute(ctx, dst)
	if err != nil {
		return Route{}, err
	}
	entries, err := readTable(dst)
	if err != nil {
		return seen, nil // the kernel's answer stands without details
	}
	seen, index := withTable(seen, entries)
	if index > 0 {
		if link, err := net.InterfaceByIndex(index); err == nil {
			seen.Interface, seen.LinkMTU = link.Name, link.MTU
		}
	}
	return seen, nil
}

// readTable reads the kernel's routes of the family of dst.
func readTable(dst netip.Addr) ([]ribEntry, error) {
	family := syscall.AF_INET
	if dst.Is6() {
		family = syscall.AF_INET6
	}
	rib, err := route.FetchRIB(family, route.RIBTypeRoute, 0)
	if err != nil {
		return nil, err
	}
	messages, err := route.ParseRIB(route.RIBTypeRoute, rib)
	if err != nil {
		return nil, err
	}
	var entries []ribEntry
	for _, m := range messages {
		if rm, ok := m.(*route.RouteMessage); ok {
			if e, ok := entryOf(rm); ok {
				entries = append(entries, e)
			}
		}
	}
	return entries, nil
}

// entryOf translates one message; false for what is no route of an ordinary
// connection.
func entryOf(m *route.RouteMessage) (ribEntry, bool) {
	if m.Flags&syscall.RTF_UP == 0 || runtime.GOOS == "darwin" && m.Flags&darwinScoped != 0 {
		return ribEntry{}, false
	}
	part := func(i int) route.Addr {
		if i < len(m.Addrs) {
			return m.Addrs[i]
		}
		return nil
	}
	prefix, ok := prefixOf(ipOf(part(syscall.RTAX_DST)), maskOf(part(syscall.RTAX_NETMASK)), m.Flags&syscall.RTF_HOST != 0)
	if !ok {
		return ribEntry{}, false
	}
	e := ribEntry{
		prefix:  prefix,
		ifIndex: m.Index,
		// A host route that is not static rejects for a while after its
		// neighbour did not answer: no setting, and soon over.
		reject:    m.Flags&syscall.RTF_REJECT != 0 && m.Flags&syscall.RTF_STATIC != 0,
		blackhole: m.Flags&syscall.RTF_BLACKHOLE != 0,
	}
	if m.Flags&syscall.RTF_GATEWAY != 0 {
		e.gateway = ipOf(part(syscall.RTAX_GATEWAY))
	}
	for _, s := range m.Sys() {
		if metrics, ok := s.(*route.RouteMetrics); ok {
			e.mtu = max(metrics.PathMTU, 0)
		}
	}
	return e, true
}

// ipOf returns the address in a, zero if it holds none.
func ipOf(a route.Addr) netip.Addr {
	switch a := a.(type) {
	case *route.Inet4Addr:
		return netip.AddrFrom4(a.IP)
	case *route.Inet6Addr:
		return netip.AddrFrom16(a.IP)
	}
	return netip.Addr{}
}

// maskOf returns the bytes of a mask, nil if a is none.
func maskOf(a route.Addr) []byte {
	switch a := a.(type) {
	case *route.Inet4Addr:
		return a.IP[:]
	case *route.Inet6Addr:
		return a.IP[:]
	}
	return nil
}
