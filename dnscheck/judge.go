package dnscheck

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// judge turns what was seen into findings. It asks nothing and changes nothing.
type judge struct {
	report  *Report
	seen    *replay // nil for an IP literal
	decided decision
	expect  []netip.Prefix
	routes6 []byte // the node's IPv6 routes; nil = not known

	all []classify.Finding
}

// fail appends a failure about the name looked up. The pointer is good until the next.
func (j *judge) fail(cause classify.Cause, facts []classify.Fact, format string, args ...any) *classify.Finding {
	f := classify.New(cause, fmt.Sprintf(format, args...), facts...)
	f.Endpoint = j.report.Name
	j.all = append(j.all, f)
	return &j.all[len(j.all)-1]
}

// warn is fail with the severity of a warning.
func (j *judge) warn(cause classify.Cause, facts []classify.Fact, format string, args ...any) *classify.Finding {
	f := j.fail(cause, facts, format, args...)
	f.Severity = classify.SeverityWarn
	return f
}

// failIf is fail if is, else warn.
func (j *judge) failIf(is bool, cause classify.Cause, facts []classify.Fact, format string, args ...any) *classify.Finding {
	if is {
		return j.fail(cause, facts, format, args...)
	}
	return j.warn(cause, facts, format, args...)
}

func fact(key, value string) []classify.Fact {
	return []classify.Fact{{Key: key, Value: value}}
}

func (j *judge) addressFacts(addrs []netip.Addr) []classify.Fact {
	facts := fact(classify.FactAddress, joined(addrs))
	if j.report.Answered.IsValid() {
		facts = append(facts, fact(classify.FactResolver, j.report.Answered.String())...)
	}
	return facts
}

// gotNothing reports whether the runtime is left without any address.
func (j *judge) gotNothing() bool { return j.report.From == "" }

// round is the full name that decided.
func (j *judge) round() *round { return j.seen.rounds[j.decided.round] }

// server is a nameserver as it is printed.
func (j *judge) server(i int) string { return j.report.Settings.Nameservers[i].String() }

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

// keptFor says how long a denial outlives the repair of the record.
func keptFor(a *Answer) string {
	if a == nil || a.NegativeTTLSeconds == 0 {
		return ""
	}
	return fmt.Sprintf(" Caches may keep this denial for %v after a repair.", time.Duration(a.NegativeTTLSeconds)*time.Second)
}

// platform is what Azure's own resolver says of the name from this node.
func (j *judge) platform() string {
	p := j.report.Platform
	if p == nil {
		return ""
	}
	found := p.addresses()
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

func onLink(link string) string {
	if link == "" {
		return ""
	}
	return " on link " + link
}
