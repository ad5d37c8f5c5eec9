package dnscheck

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// view is what one nameserver says of the name, both families together.
type view struct {
	server    netip.AddrPort
	kind      kind
	addresses []netip.Addr
}

// disagreement compares the nameservers that gave a final answer. They disagree
// when one denies what another answers, or when they have no address in common
// and at least one of these is private. Different public addresses are no
// disagreement: large services answer each resolver with others.
func (j *judge) disagreement(d decision) []classify.Finding {
	var views []view
	for s, seen := range j.lookup.rounds[d.round].seen {
		v := view{server: j.lookup.settings.Nameservers[s], kind: seen[famA].kind}
		for f := range families {
			if seen[f].kind == kindAddresses {
				v.kind = kindAddresses
				v.addresses = append(v.addresses, seen[f].Answer.Addresses...)
			}
		}
		if v.kind != kindMoveOn {
			views = append(views, v)
		}
	}
	if !slices.ContainsFunc(views, func(v view) bool { return disagree(views[0], v) }) {
		return nil
	}
	var texts []string
	var facts []classify.Fact
	for _, v := range views {
		texts = append(texts, fmt.Sprintf("%s says %s", v.server, v.says()))
		facts = append(facts, classify.Fact{Key: classify.FactResolver, Value: v.server.String()})
	}
	return []classify.Finding{j.finding(classify.DNSServersDisagree, false,
		fmt.Sprintf("The nameservers disagree about %s: %s; which one the runtime hears depends on which is up.",
			unrooted(j.lookup.rounds[d.round].name), strings.Join(texts, ", ")), facts...)}
}

func disagree(a, b view) bool {
	if a.kind != b.kind {
		return true
	}
	if a.kind != kindAddresses {
		return false
	}
	if slices.ContainsFunc(a.addresses, func(x netip.Addr) bool { return slices.Contains(b.addresses, x) }) {
		return false
	}
	private := func(x netip.Addr) bool { return x.IsPrivate() || x.IsLoopback() || unusable(x) != "" }
	return slices.ContainsFunc(a.addresses, private) || slices.ContainsFunc(b.addresses, private)
}

func (v view) says() string {
	switch v.kind {
	case kindAddresses:
		return joined(v.addresses)
	case kindNXDomain:
		return "that it does not exist"
	default:
		return "that it has no address"
	}
}

func sameAddresses(a, b []netip.Addr) bool {
	in := func(set []netip.Addr) func(netip.Addr) bool {
		return func(x netip.Addr) bool { return !slices.Contains(set, x) }
	}
	return !slices.ContainsFunc(a, in(b)) && !slices.ContainsFunc(b, in(a))
}

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

// addressFindings judges the addresses that the runtime gets.
func (j *judge) addressFindings() []classify.Finding {
	r := j.report
	nothing := len(r.Addresses) > 0 && !r.Held()
	var all []classify.Finding
	var bogus, linkless, loopback []netip.Addr
	why := ""
	for _, a := range r.Addresses {
		switch w := unusable(a); w {
		case "":
			if a.IsLoopback() && r.From == FromDNS && !isLocalhost(r.Name) {
				loopback = append(loopback, a)
			}
		case whyLinkLocal:
			linkless = append(linkless, a)
		default:
			bogus, why = append(bogus, a), w
		}
	}
	if len(bogus) > 0 {
		all = append(all, j.finding(classify.DNSBogusAddress, nothing,
			fmt.Sprintf("%s resolves to %s, which %s%s.", r.Name, joined(bogus), why, j.filtered()), j.addressFacts(bogus)...))
	}
	if len(loopback) > 0 {
		// Some names are meant to be here; a block list looks the same.
		f := j.finding(classify.DNSBogusAddress, false,
			fmt.Sprintf("%s resolves to %s, this node itself: the mark of a filtering resolver unless the registry runs on every node.", r.Name, joined(loopback)), j.addressFacts(loopback)...)
		f.Severity, f.Certainty = classify.SeverityInfo, classify.CertaintyPossible
		all = append(all, f)
	}
	if len(linkless) > 0 {
		cause := classify.DNSBogusAddress
		if nothing && len(bogus) == 0 {
			cause = classify.DNSNoUsableAddress
		}
		all = append(all, j.finding(cause, nothing,
			fmt.Sprintf("%s resolves to %s, which %s.", r.Name, joined(linkless), whyLinkLocal), j.addressFacts(linkless)...))
	}
	return all
}

// filtered is what the nameserver says of its own reasons, when it does: blocked,
// censored, filtered, prohibited (RFC 8914 sections 4.16 to 4.19).
func (j *judge) filtered() string {
	if j.report.From != FromDNS {
		return ""
	}
	for _, s := range j.report.Servers {
		if s.Server == j.report.Answered && s.A.Answer != nil {
			return reasons(s.A.Answer)
		}
	}
	return ""
}

func (j *judge) addressFacts(addrs []netip.Addr) []classify.Fact {
	facts := []classify.Fact{{Key: classify.FactAddress, Value: joined(addrs)}}
	if j.report.Answered.IsValid() {
		facts = append(facts, classify.Fact{Key: classify.FactResolver, Value: j.report.Answered.String()})
	}
	return facts
}
