package dnscheck

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// hostsOverride tells of an answer out of the hosts file, and whether DNS says the same.
func (j *judge) hostsOverride() {
	r, d := j.report, j.decided
	if r.From != fromHosts || isLocalhost(r.Name) { // every system ships that line
		return
	}
	dns := "DNS could not be asked"
	switch found := j.seen.addresses(d); {
	case len(found) > 0 && sameAddresses(found, r.Addresses):
		dns = "DNS gives the same"
	case len(found) > 0:
		dns = "DNS disagrees and gives " + joined(found)
	case !d.decided:
		dns = "what DNS says was not seen"
	case d.denied():
		dns = "DNS does not know the name"
	}
	var facts []classify.Fact
	var places []string
	for _, e := range r.Hosts {
		place := fmt.Sprintf("%s:%d", e.File, e.Line)
		places = append(places, place)
		if len(facts) < 8 {
			facts = append(facts, fact(classify.FactFile, place)...)
		}
	}
	since := ""
	if changed := r.Hosts[0].Changed; !changed.IsZero() && changed.Unix() > 0 {
		since = " (file last written " + changed.Format(time.DateOnly) + ")"
	}
	j.warn(classify.DNSHostsOverride, append(facts, fact(classify.FactAddress, joined(r.Addresses))...),
		"The runtime takes %s for %s from %s, a line on this node alone%s; %s.",
		joined(r.Addresses), r.Name, strings.Join(places[:min(len(places), 4)], ", "), since, dns)
}

// unusableAddresses tells of addresses at which no registry can be.
func (j *judge) unusableAddresses() {
	r := j.report
	nothing := len(r.Addresses) > 0 && !r.Held()
	var bogus, linkLocal, loopback []netip.Addr
	why := ""
	for _, a := range r.Addresses {
		switch w := unusable(a); {
		case w == whyLinkLocal:
			linkLocal = append(linkLocal, a)
		case w != "":
			bogus, why = append(bogus, a), w
		case a.IsLoopback() && r.From == fromDNS && !isLocalhost(r.Name) && !j.isExpected(a):
			loopback = append(loopback, a)
		}
	}
	if len(bogus) > 0 {
		j.failIf(nothing, classify.DNSBogusAddress, j.addressFacts(bogus), "%s resolves to %s, which %s%s.", r.Name, joined(bogus), why, j.filtered())
	}
	if len(loopback) > 0 {
		// Some names are meant to be here; a block list looks the same.
		f := j.warn(classify.DNSBogusAddress, j.addressFacts(loopback),
			"%s resolves to %s, this node itself: the mark of a filtering resolver unless the registry runs on every node.", r.Name, joined(loopback))
		f.Severity, f.Certainty = classify.SeverityInfo, classify.CertaintyPossible
	}
	if len(linkLocal) > 0 {
		cause := classify.DNSBogusAddress
		if nothing && len(bogus) == 0 {
			cause = classify.DNSNoUsableAddress
		}
		j.failIf(nothing, cause, j.addressFacts(linkLocal), "%s resolves to %s, which %s.", r.Name, joined(linkLocal), whyLinkLocal)
	}
}

// filtered is the nameserver's own reason, if it gives one: blocked, censored, filtered, prohibited
// (RFC 8914 sections 4.16 to 4.19).
func (j *judge) filtered() string {
	if j.report.From != fromDNS {
		return ""
	}
	for _, s := range j.report.Servers {
		if s.Server == j.report.Answered && s.A.Answer != nil {
			return reasons(s.A.Answer)
		}
	}
	return ""
}

// publicAnswer tells of an address that should be private: by what the caller expects, by the CNAME
// chain, or by what another nameserver says.
func (j *judge) publicAnswer() {
	if len(j.expect) > 0 {
		j.outsideExpected()
		return
	}
	r, seen := j.report, j.round().seen
	public := allPublic(r.Usable())
	if len(public) == 0 || r.From != fromDNS {
		return
	}
	likely := func(format string, args ...any) {
		j.warn(classify.DNSPublicAnswer, j.addressFacts(public), format, args...).Certainty = classify.CertaintyLikely
	}
	for f, o := range j.decided.outcomes {
		if o.kind != kindAddresses {
			continue
		}
		if link := privateLinkOf(j.round().name, seen[o.server][f].Answer); link != "" {
			likely("%s leads through %s, a name made for a private endpoint, to the public address %s: the private zone is not what this resolver sees.%s",
				r.Name, link, joined(public), j.platform())
			return
		}
	}
	for s := range seen {
		var private []netip.Addr
		for f := range families {
			if o := &seen[s][f]; o.kind == kindAddresses {
				private = append(private, privateOf(o.addresses())...)
			}
		}
		if len(private) > 0 {
			likely("%s resolves to the public address %s, while nameserver %s knows the private %s.", r.Name, joined(public), j.server(s), joined(private))
			return
		}
	}
	for _, b := range r.Behind {
		if private := privateOf(b.addresses()); len(private) > 0 {
			likely("%s resolves to the public address %s, while %s, one of the servers behind the stub%s, knows the private %s.",
				r.Name, joined(public), b.Server, onLink(b.Link), joined(private))
			return
		}
	}
}

// isExpected reports whether the caller expects the address.
func (j *judge) isExpected(a netip.Addr) bool {
	return slices.ContainsFunc(j.expect, func(p netip.Prefix) bool { return p.Contains(a.Unmap().WithZone("")) })
}

func (j *judge) outsideExpected() {
	outside := slices.DeleteFunc(j.report.Usable(), j.isExpected)
	if len(outside) == 0 {
		return
	}
	var networks []string
	for _, p := range j.expect[:min(len(j.expect), 8)] {
		networks = append(networks, p.String())
	}
	j.warn(classify.DNSPublicAnswer, j.addressFacts(outside), "%s resolves to %s, outside the expected %s.",
		j.report.Name, joined(outside), strings.Join(networks, ", "))
}

// CompareHosts looks at the hosts of one pull together: where some names of one service are private
// and one is public, its private record was probably forgotten. Names belong to one service when
// they share the registered domain (corp.test), or begin alike below a provider's domain, as
// REG.azurecr.io and REG.REGION.data.azurecr.io do. Hosts of other domains (an object store, a
// content network) are not judged.
//
// Reports that already hold dns.public-answer, and nil ones, are passed over. The findings are
// warnings, likely only, and each names the public host.
func CompareHosts(reports []*Report) []classify.Finding {
	var all []classify.Finding
	for _, r := range reports {
		if r == nil || r.From != fromDNS || slices.ContainsFunc(r.findings, func(f classify.Finding) bool { return f.Cause == classify.DNSPublicAnswer }) {
			continue
		}
		public := allPublic(r.Usable())
		for _, other := range reports {
			if len(public) == 0 || other == nil || other == r || other.Literal || !related(r.Name, other.Name) {
				continue
			}
			if private := privateOf(other.Usable()); len(private) > 0 {
				j := &judge{report: r}
				j.warn(classify.DNSPublicAnswer, j.addressFacts(public),
					"%s resolves to the public address %s, while %s of the same registry is private (%s); its private record may have been forgotten.",
					r.Name, joined(public), other.Name, joined(private)).
					Certainty = classify.CertaintyLikely
				all = append(all, j.all...)
				break
			}
		}
	}
	return all
}

// searchCapture tells of a search domain that answered in place of the name.
func (j *judge) searchCapture() {
	p, r := j.seen, j.report
	if p.searched == "" || r.From != fromDNS {
		return
	}
	own := j.absolute()
	if overlap(own, r.Addresses) || len(own) == 0 && r.Wildcard == nil {
		return
	}
	domain, first, itself, wildcard := trimDot(p.searched), "", "no address", ""
	if p.rounds[0].name != fqdn(r.Name) {
		first = fmt.Sprintf(" first (ndots %d)", r.Settings.NDots)
	}
	if len(own) > 0 {
		itself = joined(own)
	}
	if r.Wildcard != nil {
		wildcard = fmt.Sprintf("; a wildcard in %s answers any name", domain)
	}
	f := j.warn(classify.DNSSearchCapture, append(j.addressFacts(r.Addresses), fact(classify.FactFile, r.Settings.File)...),
		"The runtime takes %s for %s from the search domain %s, by asking for %s%s; the name itself has %s%s.",
		joined(r.Addresses), r.Name, domain, trimDot(j.round().name), first, itself, wildcard)
	if len(own) == 0 {
		f.Certainty = classify.CertaintyLikely
	}
}

// absolute is what the nameserver that decided says of the name as it stands.
func (j *judge) absolute() []netip.Addr {
	if n := j.seen.absolute; n != nil {
		return n.Servers[0].addresses()
	}
	if r := j.seen.fullName(); r != nil {
		o := &r.seen[j.decided.server()]
		return slices.Concat(o[famA].addresses(), o[famAAAA].addresses())
	}
	return nil
}

// onlyIPv6 tells of a name that has IPv6 addresses only, on a node whose table has no route to any
// of them. Package reach asks the kernel itself.
func (j *judge) onlyIPv6() {
	usable := j.report.Usable()
	if j.routes6 == nil || len(usable) == 0 || slices.ContainsFunc(usable, func(a netip.Addr) bool { return a.Is4() || a.IsLoopback() }) {
		return
	}
	routes := parseIPv6Routes(j.routes6)
	for _, a := range usable {
		if slices.ContainsFunc(routes, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return
		}
	}
	j.warn(classify.DNSNoUsableAddress, j.addressFacts(usable),
		"%s has IPv6 addresses only (%s), and this node has no IPv6 route to them.", j.report.Name, joined(usable)).
		Certainty = classify.CertaintyLikely
}

const (
	maxRoutes   = 4096
	routeReject = 0x200 // RTF_REJECT of linux/route.h
)

// parseIPv6Routes reads the destinations of /proc/net/ipv6_route: 32 hex digits, the length of the
// prefix in hex, six more fields, flags, device. Routes that refuse, and lines that do not look
// like a route, are left out.
func parseIPv6Routes(data []byte) []netip.Prefix {
	var routes []netip.Prefix
	for line := range lines(data, nil, "") {
		f := fields(line.text)
		if len(f) < 10 || len(f[0]) != 32 || len(routes) == maxRoutes {
			continue
		}
		raw, err := hex.DecodeString(f[0])
		bits, err2 := strconv.ParseUint(f[1], 16, 8)
		flags, err3 := strconv.ParseUint(f[8], 16, 32)
		if err != nil || err2 != nil || err3 != nil || bits > 128 || flags&routeReject != 0 || f[9] == "lo" {
			continue
		}
		addr, _ := netip.AddrFromSlice(raw)
		routes = append(routes, netip.PrefixFrom(addr, int(bits)).Masked())
	}
	return routes
}
