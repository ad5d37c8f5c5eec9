package dnscheck

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// privateLinkLabel marks the zones that are made for private endpoints: the name
// of the service is an alias into one, and only the private view of it holds a
// private address (Azure Private Link; others have taken the habit over).
const privateLinkLabel = "privatelink"

// sharedAddresses is the space between a provider's customers: RFC 6598.
var sharedAddresses = netip.MustParsePrefix("100.64.0.0/10")

// isPrivate says that packets to addr do not lead over the internet. The ranges
// for documentation count as public.
func isPrivate(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() ||
		sharedAddresses.Contains(addr) || googlePrivate.Contains(addr) || googleRestricted.Contains(addr)
}

func isPublic(addr netip.Addr) bool { return unusable(addr) == "" && !isPrivate(addr) }

// privateLinkOf returns the private-link name on the way of an answer: the name
// asked for, an alias, or the zone that denied; "" = none.
func privateLinkOf(name string, a *Answer) string {
	names := []string{name}
	if a != nil {
		names = append(append(names, a.CNAMEs...), a.SOA)
	}
	for _, n := range names {
		if slices.Contains(strings.Split(strings.ToLower(n), "."), privateLinkLabel) {
			return unrooted(n)
		}
	}
	return ""
}

// publicAnswer tells of an address that should be private, by what the caller
// expects, by the alias on the way, or by what another nameserver says.
func (j *judge) publicAnswer(d decision) []classify.Finding {
	if len(j.expect) > 0 {
		return j.outsideExpected()
	}
	r := j.report
	public := slices.DeleteFunc(r.Usable(), func(a netip.Addr) bool { return !isPublic(a) })
	if len(public) == 0 || len(public) < len(r.Usable()) || r.From != FromDNS {
		return nil // a public IPv6 address beside a private IPv4 one is ordinary
	}
	round := j.lookup.rounds[d.round]
	for f, o := range d.outcomes {
		if o.kind != kindAddresses {
			continue
		}
		link := privateLinkOf(round.name, round.seen[o.server][f].Answer)
		if link == "" {
			continue
		}
		finding := j.finding(classify.DNSPublicAnswer, false,
			fmt.Sprintf("%s leads through %s, a name made for a private endpoint, to the public address %s: the private zone is not what this resolver sees.",
				r.Name, link, joined(public))+j.platform(), j.addressFacts(public)...)
		finding.Certainty = classify.CertaintyLikely
		return []classify.Finding{finding}
	}
	for s := range round.seen {
		var private []netip.Addr
		for f := range families {
			if o := &round.seen[s][f]; o.kind == kindAddresses {
				private = append(private, slices.DeleteFunc(slices.Clone(o.Answer.Addresses), func(a netip.Addr) bool { return !a.IsPrivate() })...)
			}
		}
		if len(private) == 0 {
			continue
		}
		finding := j.finding(classify.DNSPublicAnswer, false,
			fmt.Sprintf("%s resolves to the public address %s, while nameserver %s knows the private %s.",
				r.Name, joined(public), j.lookup.settings.Nameservers[s], joined(private)), j.addressFacts(public)...)
		finding.Certainty = classify.CertaintyLikely
		return []classify.Finding{finding}
	}
	for _, b := range r.Behind {
		private := slices.DeleteFunc(slices.Concat(b.A.addresses(), b.AAAA.addresses()), func(a netip.Addr) bool { return !a.IsPrivate() })
		if len(private) == 0 {
			continue
		}
		finding := j.finding(classify.DNSPublicAnswer, false,
			fmt.Sprintf("%s resolves to the public address %s, while %s, one of the servers behind the stub%s, knows the private %s.",
				r.Name, joined(public), b.Server, onLink(b.Link), joined(private)), j.addressFacts(public)...)
		finding.Certainty = classify.CertaintyLikely
		return []classify.Finding{finding}
	}
	return nil
}

func onLink(link string) string {
	if link == "" {
		return ""
	}
	return " on link " + link
}

func (e *Exchange) addresses() []netip.Addr {
	if e.Answer == nil {
		return nil
	}
	return e.Answer.Addresses
}

func (j *judge) outsideExpected() []classify.Finding {
	outside := slices.DeleteFunc(j.report.Usable(), func(a netip.Addr) bool {
		return slices.ContainsFunc(j.expect, func(p netip.Prefix) bool { return p.Contains(a.Unmap().WithZone("")) })
	})
	if len(outside) == 0 {
		return nil
	}
	var networks []string
	for _, p := range j.expect[:min(len(j.expect), 8)] {
		networks = append(networks, p.String())
	}
	return []classify.Finding{j.finding(classify.DNSPublicAnswer, false,
		fmt.Sprintf("%s resolves to %s, outside the expected %s.", j.report.Name, joined(outside), strings.Join(networks, ", ")),
		j.addressFacts(outside)...)}
}

// CompareHosts looks at the hosts of one pull together: where some of a family of
// names are private and one is public, that one was probably forgotten (a data
// endpoint without a private record). Names are of one family when they share the
// domain that somebody registered (corp.test), or begin alike below a provider's
// domain, as REG.azurecr.io and REG.REGION.data.azurecr.io do. Hosts of other
// domains (an object store, a content network) may well be public and are not
// judged.
//
// Reports that already hold dns.public-answer, and nil ones, are passed over. The
// findings are warnings, likely only, and each names the public host.
func CompareHosts(reports []*Report) []classify.Finding {
	var all []classify.Finding
	for _, r := range reports {
		if r == nil || r.From != FromDNS || slices.ContainsFunc(r.findings, func(f classify.Finding) bool { return f.Cause == classify.DNSPublicAnswer }) {
			continue
		}
		public := slices.DeleteFunc(r.Usable(), func(a netip.Addr) bool { return !isPublic(a) })
		if len(public) == 0 || len(public) != len(r.Usable()) {
			continue
		}
		for _, other := range reports {
			if other == nil || other == r || other.Literal || !related(r.Name, other.Name) {
				continue
			}
			private := slices.DeleteFunc(other.Usable(), func(a netip.Addr) bool { return !a.IsPrivate() })
			if len(private) == 0 {
				continue
			}
			f := (&judge{report: r}).finding(classify.DNSPublicAnswer, false,
				fmt.Sprintf("%s resolves to the public address %s, while %s of the same registry is private (%s); its private record may have been forgotten.",
					r.Name, joined(public), other.Name, joined(private)), (&judge{report: r}).addressFacts(public)...)
			f.Certainty = classify.CertaintyLikely
			all = append(all, f)
			break
		}
	}
	return all
}

// related says that two names are probably of one service.
func related(a, b string) bool {
	x := strings.Split(strings.ToLower(strings.TrimSuffix(a, ".")), ".")
	y := strings.Split(strings.ToLower(strings.TrimSuffix(b, ".")), ".")
	common := 0
	for common < len(x) && common < len(y) && x[len(x)-1-common] == y[len(y)-1-common] {
		common++
	}
	switch {
	case common < 2:
		return false
	case slices.Contains(sharedDomains, strings.Join(x[len(x)-2:], ".")):
		return x[0] == y[0]
	case len(x[len(x)-1]) == 2 && len(x[len(x)-2]) <= 3: // co.uk and its like
		return common >= 3
	}
	return true
}

// sharedDomains are those below which every customer of a provider has a name.
var sharedDomains = []string{
	"azurecr.io", "azurecr.cn", "azurecr.us", "windows.net", "azure.com", "amazonaws.com", "on.aws", "cloudfront.net",
	"googleapis.com", "pkg.dev", "gcr.io", "docker.io", "docker.com", "cloudflarestorage.com", "quay.io", "github.com", "github.io",
}
