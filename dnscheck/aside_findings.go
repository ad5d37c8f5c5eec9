package dnscheck

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// keptFor says how long a denial outlives the repair of the record.
func keptFor(a *Answer) string {
	if a == nil || a.NegativeTTLSeconds == 0 {
		return ""
	}
	return fmt.Sprintf(" Caches may keep this denial for %v after a repair.", time.Duration(a.NegativeTTLSeconds)*time.Second)
}

// reasons are the server's own, RFC 8914.
func reasons(a *Answer) string {
	if a == nil || len(a.Extended) == 0 {
		return ""
	}
	var all []string
	for _, e := range a.Extended {
		text := e.Name
		if text == "" {
			text = fmt.Sprintf("code %d", e.Code)
		}
		if e.Text != "" {
			text += ": " + e.Text
		}
		all = append(all, text)
	}
	return " (it says: " + strings.Join(all, "; ") + ")"
}

// aside adds to the failure of one nameserver what was learned beside it.
func (j *judge) aside(server int, o *observation) string {
	text := ""
	if tcp := j.lookup.aside.tcp; tcp != nil && tcp[server] != nil && o.Answer == nil && o.Network == "udp" {
		switch e := tcp[server]; {
		case e.Answer != nil:
			text += " Over TCP it answers, so something on the way drops UDP."
		case e.Cause == classify.DNSResolverPortClosed && o.Cause != e.Cause:
			text += " Its TCP port is closed, so that the host is there."
		}
	}
	if !o.settled || o.kind == kindAddresses || !j.lookup.settings.Nameservers[server].Addr().Unmap().IsLoopback() {
		return text
	}
	var said []string
	for i, b := range j.report.Behind {
		what := ""
		switch found := append(b.A.addresses(), b.AAAA.addresses()...); {
		case len(found) > 0:
			what = "answers " + joined(found)
		case b.A.Answer != nil:
			what = "answers " + b.A.Answer.RCode
		default:
			what = "gives no answer"
		}
		link := onLink(b.Link)
		if j.lookup.settings.Behind[i].ownsSuffix(j.report.Name) {
			link += ", to which this domain belongs,"
		}
		said = append(said, fmt.Sprintf("%s%s %s", b.Server.Addr(), link, what))
	}
	if len(said) == 0 && o.silent && o.Answer == nil {
		text += " It listens on this node, so that what it forwards to is probably dead or cut off."
	}
	if len(said) > 0 {
		text += " Behind this stub, " + strings.Join(said, "; ") + "."
	}
	return text
}

// platform says what Azure's own resolver makes of the name from this node.
func (j *judge) platform() string {
	p := j.report.Platform
	if p == nil {
		return ""
	}
	found := slices.Concat(p.A.addresses(), p.AAAA.addresses())
	switch {
	case slices.ContainsFunc(found, netip.Addr.IsPrivate):
		return fmt.Sprintf(" Azure's platform resolver %s answers %s from this node: the private zone is linked, and the node's own nameservers do not forward to it.", p.Server.Addr(), joined(found))
	case len(found) > 0:
		return fmt.Sprintf(" Azure's platform resolver %s answers %s from this node, too: the private zone is not linked to this network.", p.Server.Addr(), joined(found))
	case p.A.Answer != nil && p.A.Answer.RCode == rcodeNXDomain:
		return fmt.Sprintf(" Azure's platform resolver %s denies the name from this node, too.", p.Server.Addr())
	}
	return "" // silent: not in Azure, or not allowed; that says nothing
}

// servedStale tells of an answer that the nameserver itself calls stale: it could
// not ask anew and takes an expired one out of its cache (RFC 8767, RFC 8914).
func (j *judge) servedStale(d decision) []classify.Finding {
	round := j.lookup.rounds[d.round]
	for f, o := range d.outcomes {
		seen := &round.seen[o.server][f]
		if !o.decided || seen.Answer == nil || !slices.ContainsFunc(seen.Answer.Extended, func(e ExtendedError) bool { return e.Code == 3 || e.Code == 19 }) {
			continue
		}
		server := j.lookup.settings.Nameservers[o.server].String()
		what := "its denial"
		facts := []classify.Fact{{Key: classify.FactResolver, Value: server}}
		if a := seen.Answer.Addresses; len(a) > 0 {
			what = joined(a)
			facts = append(facts, classify.Fact{Key: classify.FactAddress, Value: what})
		}
		finding := j.finding(classify.DNSStaleRecord, false,
			fmt.Sprintf("Nameserver %s says itself that %s for %s is stale: it could not ask the servers behind it anew.", server, what, unrooted(round.name)), facts...)
		finding.Certainty = classify.CertaintyLikely
		return []classify.Finding{finding}
	}
	return nil
}
