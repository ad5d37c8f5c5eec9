package dnscheck

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// searchCapture tells of a search domain that answered in place of the name.
func (j *judge) searchCapture(d decision) []classify.Finding {
	l, r := j.lookup, j.report
	if l.aside.searched == "" || r.From != FromDNS {
		return nil
	}
	domain := unrooted(l.aside.searched)
	own := j.absolute(d)
	common := slices.ContainsFunc(own, func(a netip.Addr) bool { return slices.Contains(r.Addresses, a) })
	switch {
	case common, len(own) == 0 && r.Wildcard == nil:
		return nil
	}
	asked := unrooted(l.rounds[d.round].name)
	text := fmt.Sprintf("The runtime takes %s for %s from the search domain %s, by asking for %s", joined(r.Addresses), r.Name, domain, asked)
	if l.rounds[0].name != rooted(l.name) {
		text += fmt.Sprintf(" first (ndots %d)", l.settings.NDots)
	}
	if len(own) > 0 {
		text += "; the name itself has " + joined(own)
	} else {
		text += "; the name itself has no address"
	}
	if r.Wildcard != nil {
		text += fmt.Sprintf("; a wildcard in %s answers any name", domain)
	}
	f := j.finding(classify.DNSSearchCapture, false, text+".", append(j.addressFacts(r.Addresses), classify.Fact{Key: classify.FactFile, Value: l.settings.File})...)
	if len(own) == 0 {
		f.Certainty = classify.CertaintyLikely
	}
	return []classify.Finding{f}
}

// absolute is what the nameserver that decided says of the name as it stands.
func (j *judge) absolute(d decision) []netip.Addr {
	l := j.lookup
	if n := l.aside.absolute; n != nil {
		return slices.Concat(n.Servers[0].A.addresses(), n.Servers[0].AAAA.addresses())
	}
	for _, round := range l.rounds {
		if round.name == rooted(l.name) {
			seen := &round.seen[d.server()]
			return slices.Concat(seen[famA].addresses(), seen[famAAAA].addresses())
		}
	}
	return nil
}

// clusterOnly tells of a name that only the cluster's DNS can know.
func (j *judge) clusterOnly() []classify.Finding {
	why := clusterName(j.report.Name)
	answered := slices.ContainsFunc(j.lookup.rounds, (*round).anyAnswer) // silence says nothing of a name
	if why == "" || !answered || j.report.Inconclusive != "" || !j.gotNothing() || isLocalhost(j.report.Name) || !slices.Contains(j.report.Settings.Order, sourceDNS) {
		return nil
	}
	f := j.finding(classify.DNSClusterOnlyName, true,
		fmt.Sprintf("%s %s, which the cluster's DNS serves to pods; the runtime asks the node's resolver, and that gives no address for it.", j.report.Name, why))
	f.Certainty = classify.CertaintyLikely
	return []classify.Finding{f}
}

// clusterName says why name looks like one of the cluster's own; "" = it does not.
func clusterName(name string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	switch {
	case strings.HasSuffix(name, ".svc"), strings.Contains(name, ".svc."):
		return "is the name of a Service"
	case strings.HasSuffix(name, ".cluster.local"):
		return "is a name of the cluster domain"
	case !strings.Contains(name, "."):
		return "is a single label, as a Service has in its own namespace"
	}
	return ""
}

// podResolver tells that another resolver than the node's was looked at.
func (j *judge) podResolver() []classify.Finding {
	s := &j.report.Settings
	if !s.Cluster {
		return nil
	}
	return []classify.Finding{j.finding(classify.DNSPodResolver, false,
		fmt.Sprintf("%s searches %s, as a kubelet writes it for a pod; what it leads to is no evidence about the node, whose runtime pulls.",
			s.File, strings.Join(s.Search[:min(len(s.Search), 4)], ", ")),
		classify.Fact{Key: classify.FactFile, Value: s.File})}
}

// halfDenied tells of a nameserver that has addresses of one family and denies the
// whole name for the other: RFC 4074 section 4.2. A cache that takes it by its
// word forgets the addresses, too.
func (j *judge) halfDenied(d decision) []classify.Finding {
	round := j.lookup.rounds[d.round]
	for s := range round.seen {
		for f := range families {
			o, other := &round.seen[s][f], &round.seen[s][1-f]
			if o.kind != kindNXDomain || other.kind != kindAddresses {
				continue
			}
			server := j.lookup.settings.Nameservers[s].String()
			finding := j.finding(classify.DNSNXDOMAIN, false,
				fmt.Sprintf("Nameserver %s has %s records of %s and answers NXDOMAIN to %s, which denies the name as a whole; a cache in between may then forget the addresses.",
					server, 1-f, unrooted(round.name), f),
				classify.Fact{Key: classify.FactResolver, Value: server}, classify.Fact{Key: classify.FactRCode, Value: rcodeNXDomain})
			finding.Severity = classify.SeverityInfo // this runtime gets what it needs
			return []classify.Finding{finding}
		}
	}
	return nil
}
