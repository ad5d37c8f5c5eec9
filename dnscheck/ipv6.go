package dnscheck

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/pullwalk/pullwalk/classify"
)

// onlyIPv6 tells of a name that has IPv6 addresses only, on a node whose table
// has no route to any of them. The kernel's own answer, with its reason, is the
// matter of package reach.
func (j *judge) onlyIPv6() []classify.Finding {
	usable := j.report.Usable()
	if j.routes6 == nil || len(usable) == 0 || slices.ContainsFunc(usable, func(a netip.Addr) bool { return a.Is4() || a.IsLoopback() }) {
		return nil
	}
	routes := parseIPv6Routes(j.routes6)
	for _, a := range usable {
		if slices.ContainsFunc(routes, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return nil
		}
	}
	f := j.finding(classify.DNSNoUsableAddress, false,
		fmt.Sprintf("%s has IPv6 addresses only (%s), and this node has no IPv6 route to them.", j.report.Name, joined(usable)), j.addressFacts(usable)...)
	f.Certainty = classify.CertaintyLikely
	return []classify.Finding{f}
}

const maxRoutes = 4096

// routeReject is RTF_REJECT of linux/route.h.
const routeReject = 0x200

// parseIPv6Routes reads the destinations of /proc/net/ipv6_route: 32 hex digits,
// the length of the prefix in hex, six more fields, flags, device. Routes that
// refuse, and what does not look like a route, are left out.
func parseIPv6Routes(data []byte) []netip.Prefix {
	var routes []netip.Prefix
	var problems []string
	for line := range lines(data, &problems, "") {
		f := fields(line.text)
		if len(f) < 10 || len(f[0]) != 32 || len(routes) == maxRoutes {
			continue
		}
		raw, err := hex.DecodeString(f[0])
		if err != nil {
			continue
		}
		bits, err := strconv.ParseUint(f[1], 16, 8)
		flags, err2 := strconv.ParseUint(f[8], 16, 32)
		if err != nil || err2 != nil || bits > 128 || flags&routeReject != 0 || f[9] == "lo" {
			continue
		}
		addr, _ := netip.AddrFromSlice(raw)
		routes = append(routes, netip.PrefixFrom(addr, int(bits)).Masked())
	}
	return routes
}
