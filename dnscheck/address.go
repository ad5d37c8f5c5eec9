package dnscheck

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Addresses that mean the same everywhere. Google's two are public address space and
// still lead through a private route; sharedAddresses is RFC 6598, between a
// provider's customers; azurePlatform answers inside every Azure network.
var (
	googlePrivate    = netip.MustParsePrefix("199.36.153.8/30")
	googleRestricted = netip.MustParsePrefix("199.36.153.4/30")
	sharedAddresses  = netip.MustParsePrefix("100.64.0.0/10")
	azurePlatform    = netip.MustParseAddr("168.63.129.16")
)

// Why an address cannot be the one of a registry.
const (
	whyUnspecified = "means no host (RFC 1122 section 3.2.1.3, RFC 4291 section 2.5.2)"
	whyMulticast   = "is a multicast address"
	whyBroadcast   = "is the broadcast address"
	whyLinkLocal   = "is link-local and needs an interface, which DNS cannot name"
)

// unusable says why addr cannot be dialled in a pull; "" = it can. Loopback and
// private addresses can.
func unusable(addr netip.Addr) string {
	addr = addr.Unmap()
	switch {
	case addr.IsUnspecified(), addr.Is4() && addr.As4()[0] == 0:
		return whyUnspecified
	case addr.IsMulticast():
		return whyMulticast
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return whyBroadcast
	case addr.IsLinkLocalUnicast() && addr.Zone() == "":
		return whyLinkLocal
	}
	return ""
}

// isPrivate reports whether packets to addr stay off the internet. The ranges for
// documentation count as public.
func isPrivate(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() ||
		sharedAddresses.Contains(addr) || googlePrivate.Contains(addr) || googleRestricted.Contains(addr)
}

// allPublic returns addrs if all of them are usable and public, else nil: a public
// IPv6 address beside a private IPv4 one is ordinary.
func allPublic(addrs []netip.Addr) []netip.Addr {
	if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return unusable(a) != "" || isPrivate(a) }) {
		return nil
	}
	return addrs
}

// privateOf returns the addresses of the private ranges (RFC 1918, RFC 4193).
func privateOf(addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !a.IsPrivate() })
}

// overlap reports whether a and b have an address in common.
func overlap(a, b []netip.Addr) bool {
	return slices.ContainsFunc(a, func(x netip.Addr) bool { return slices.Contains(b, x) })
}

func sameAddresses(a, b []netip.Addr) bool {
	missing := func(from []netip.Addr) func(netip.Addr) bool {
		return func(x netip.Addr) bool { return !slices.Contains(from, x) }
	}
	return !slices.ContainsFunc(a, missing(b)) && !slices.ContainsFunc(b, missing(a))
}

func ipv4First(addrs []netip.Addr) []netip.Addr {
	order := map[bool]int{true: 0, false: 1}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return order[a.Is4()] - order[b.Is4()] })
	return addrs
}

// joined lists at most eight addresses.
func joined(addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs[:min(len(addrs), 8)] {
		texts = append(texts, a.String())
	}
	text := strings.Join(texts, ", ")
	if n := len(addrs) - len(texts); n > 0 {
		text = fmt.Sprintf("%s and %d more", text, n)
	}
	return text
}
