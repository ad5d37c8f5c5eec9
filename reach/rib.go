package reach

import (
	"math/bits"
	"net/netip"
)

// ribEntry is one route of a routing table that was read as a whole, as the
// BSDs and macOS offer it.
type ribEntry struct {
	prefix    netip.Prefix
	gateway   netip.Addr // zero = the network is on the link
	ifIndex   int
	mtu       int
	reject    bool // set to answer "unreachable"
	blackhole bool // set to throw packets away
}

// withTable adds to a kernel's answer what the routing table says of it, and
// returns the index of the outgoing interface, 0 if it is not known. A refusal by
// the kernel is never turned into a way out.
func withTable(seen Route, entries []ribEntry) (Route, int) {
	best, found := longestMatch(entries, seen.Destination)
	switch {
	case !found && seen.Usable():
		return seen, 0 // a part of the table was not understood
	case !found:
		// These kernels say "no route to host" also when there is no route.
		seen.Kind = RouteNone
	case seen.Kind == RouteLocal:
		// Packets to oneself stay here, whatever covers the address.
	case best.blackhole:
		seen.Kind = RouteBlackhole
	case best.reject:
		seen.Kind = RouteUnreachable
	}
	seen.Method = methodBSDRoute
	if !seen.Usable() {
		return seen, 0
	}
	seen.MTU = best.mtu
	if seen.Kind == RouteUnicast {
		seen.Gateway, seen.OnLink = best.gateway, !best.gateway.IsValid()
	}
	return seen, best.ifIndex
}

// longestMatch returns the most specific entry for dst, of equal ones the
// first; false if none matches (RFC 1812, section 5.2.4.3).
func longestMatch(entries []ribEntry, dst netip.Addr) (ribEntry, bool) {
	best, found := ribEntry{}, false
	for _, e := range entries {
		if e.prefix.Contains(dst) && (!found || e.prefix.Bits() > best.prefix.Bits()) {
			best, found = e, true
		}
	}
	return best, found
}

// prefixOf makes a prefix of a routing table's address and mask. A nil mask is
// that of a host route, or of the default route, which has none. It is false
// for masks with holes, which BSD kernels once allowed and netip cannot say.
func prefixOf(addr netip.Addr, mask []byte, host bool) (netip.Prefix, bool) {
	switch {
	case !addr.IsValid():
		return netip.Prefix{}, false
	case host:
		return netip.PrefixFrom(addr, addr.BitLen()), true
	case mask == nil:
		return netip.PrefixFrom(addr, 0), addr.IsUnspecified()
	case len(mask)*8 != addr.BitLen():
		return netip.Prefix{}, false
	}
	length, ended := 0, false
	for _, b := range mask {
		ones := bits.LeadingZeros8(^b)
		if ended && b != 0 || b<<ones != 0 {
			return netip.Prefix{}, false
		}
		length += ones
		ended = ended || ones < 8
	}
	return netip.PrefixFrom(addr, length).Masked(), true
}
