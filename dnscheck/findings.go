package dnscheck

import (
	"errors"
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

// findings returns failures first; among them the one that the runtime shows.
func (j *judge) findings() []classify.Finding {
	for _, rule := range []func(){
		j.noNameserver, j.filesOnly, j.clusterOnly, j.nameservers,
		j.hostsOverride, j.firstServerDead, j.disagreement, j.halfDenied, j.servedStale,
		j.unusableAddresses, j.publicAnswer, j.searchCapture, j.onlyIPv6, j.podResolver, j.ignored,
	} {
		rule()
	}
	if j.report.Inconclusive != "" {
		// What was not seen to its end is no failure.
		for i := range j.all {
			if j.all[i].Severity == classify.SeverityFail {
				j.all[i].Severity = classify.SeverityWarn
			}
		}
	}
	rank := func(f classify.Finding) int {
		i := slices.Index([]classify.Severity{classify.SeverityWarn, classify.SeverityFail}, f.Severity)
		return -i
	}
	slices.SortStableFunc(j.all, func(a, b classify.Finding) int { return rank(a) - rank(b) })
	return j.all
}

func (j *judge) noNameserver() {
	s := &j.report.Settings
	if !s.DefaultNameservers || !s.usesDNS() {
		return
	}
	why := "names no usable nameserver"
	if slices.Contains(s.Problems, s.File+": does not exist") {
		why = "does not exist"
	}
	j.failIf(j.gotNothing(), classify.DNSNoNameserver, fact(classify.FactFile, s.File),
		"%s %s, so the runtime asks 127.0.0.1 and ::1.", s.File, why)
}

// filesOnly is for a node whose nsswitch.conf leaves DNS out.
func (j *judge) filesOnly() {
	if j.gotNothing() && !j.report.Settings.usesDNS() {
		j.fail(classify.DNSNoNameserver, fact(classify.FactFile, nsswitchFile),
			"%s lets the runtime look into %s only, and %s is not in it; no nameserver is asked.", nsswitchFile, hostsFile, j.report.Name)
	}
}

// clusterOnly tells of a name that only the cluster's DNS can know.
func (j *judge) clusterOnly() {
	why := clusterName(j.report.Name)
	answered := slices.ContainsFunc(j.seen.rounds, (*round).anyAnswer) // a timeout says nothing of a name
	if why == "" || !answered || j.report.Inconclusive != "" || !j.gotNothing() || isLocalhost(j.report.Name) || !j.report.Settings.usesDNS() {
		return
	}
	j.fail(classify.DNSClusterOnlyName, nil,
		"%s %s, which the cluster's DNS serves to pods; the runtime asks the node's resolver, and that gives no address for it.", j.report.Name, why).
		Certainty = classify.CertaintyLikely
}

// podResolver tells that another resolver than the node's was looked at.
func (j *judge) podResolver() {
	if s := &j.report.Settings; s.Cluster {
		j.warn(classify.DNSPodResolver, fact(classify.FactFile, s.File),
			"%s searches %s, as a kubelet writes it for a pod; what it leads to is no evidence about the node, whose runtime pulls.",
			s.File, strings.Join(s.Search[:min(len(s.Search), 4)], ", "))
	}
}

func (j *judge) ignored() {
	if s := &j.report.Settings; len(s.Ignored) > 0 {
		j.warn(classify.DNSIgnoredNameserver, fact(classify.FactFile, s.File),
			"%s also names %s, which the runtime never asks: only the first %d lines with an IP address count.",
			s.File, strings.Join(s.Ignored, ", "), maxNameservers)
	}
}

// firstServerDead tells what every lookup of the node pays for dead nameservers in front of the one
// that answers.
func (j *judge) firstServerDead() {
	d, settler := j.decided, -1
	for _, o := range d.outcomes {
		if o.decided && o.kind != kindMoveOn && (settler < 0 || o.server < settler) {
			settler = o.server
		}
	}
	seen, dead := j.round().seen, 0
	for dead < settler && isDead(&seen[dead][famA]) && isDead(&seen[dead][famAAAA]) {
		dead++
	}
	if dead == 0 {
		return
	}
	who, them := "the first nameserver, "+j.server(0)+", is dead", "it"
	if dead > 1 {
		who, them = "the first nameservers, "+j.server(0)+" and "+j.server(1)+", are dead", "them"
	}
	facts := fact(classify.FactResolver, j.server(0))
	wait, denial := "", ""
	if d.decided {
		wait = fmt.Sprintf(" and takes about %v", ms(d.waitMS))
		facts = append(facts, fact(classify.FactElapsed, ms(d.waitMS).String())...)
	}
	if d.kind() != kindAddresses {
		denial = " What is dead may know the name."
	}
	j.warn(classify.DNSFirstServerDead, facts, "%s answers for %s, but %s, and each lookup of the runtime tries %s first%s.%s",
		j.report.Settings.Nameservers[settler], j.report.Name, who, them, wait, denial)
}

// isDead reports whether nothing at all came back.
func isDead(o *observation) bool {
	return o.settled && o.Answer == nil && o.Unmatched == nil && o.kind == kindMoveOn && !errors.Is(o.err, ErrMalformed)
}

// view is what one nameserver says of the name, both families together.
type view struct {
	server    string
	kind      kind
	addresses []netip.Addr
}

// disagreement compares the nameservers that gave a final answer. They disagree when one denies
// what another answers, or when they have no address in common and at least one of these is
// private. Different public addresses are no disagreement: large services answer each resolver with
// others.
func (j *judge) disagreement() {
	var views []view
	for s, seen := range j.round().seen {
		v := view{server: j.server(s), kind: seen[famA].kind}
		for f := range families {
			if seen[f].kind == kindAddresses {
				v.kind = kindAddresses
				v.addresses = append(v.addresses, seen[f].addresses()...)
			}
		}
		if v.kind != kindMoveOn {
			views = append(views, v)
		}
	}
	if !slices.ContainsFunc(views, func(v view) bool { return disagree(views[0], v) }) {
		return
	}
	var texts []string
	var facts []classify.Fact
	for _, v := range views {
		said := joined(v.addresses)
		switch v.kind {
		case kindNXDomain:
			said = "that it does not exist"
		case kindNoData:
			said = "that it has no address"
		}
		texts = append(texts, v.server+" says "+said)
		facts = append(facts, fact(classify.FactResolver, v.server)...)
	}
	j.warn(classify.DNSServersDisagree, facts, "The nameservers disagree about %s: %s; which one the runtime hears depends on which is up.",
		trimDot(j.round().name), strings.Join(texts, ", "))
}

func disagree(a, b view) bool {
	if a.kind != b.kind || a.kind != kindAddresses || overlap(a.addresses, b.addresses) {
		return a.kind != b.kind
	}
	return slices.ContainsFunc(slices.Concat(a.addresses, b.addresses), func(x netip.Addr) bool {
		return x.IsPrivate() || x.IsLoopback() || unusable(x) != ""
	})
}

// halfDenied tells of a nameserver that has addresses of one family and denies the whole name for
// the other: RFC 4074 section 4.2. A cache that takes it by its word forgets the addresses, too.
func (j *judge) halfDenied() {
	for s, seen := range j.round().seen {
		for f := range families {
			if seen[f].kind != kindNXDomain || seen[1-f].kind != kindAddresses {
				continue
			}
			facts := append(fact(classify.FactResolver, j.server(s)), fact(classify.FactRCode, rcodeNXDomain)...)
			j.warn(classify.DNSNXDOMAIN, facts,
				"Nameserver %s has %s records of %s and answers NXDOMAIN to %s, which denies the name as a whole; a cache in between may then forget the addresses.",
				j.server(s), 1-f, trimDot(j.round().name), f).
				Severity = classify.SeverityInfo // this runtime gets what it needs
			return
		}
	}
}

// servedStale tells of an answer that the nameserver itself calls stale: it could not ask anew and
// takes an expired one out of its cache (RFC 8767, RFC 8914).
func (j *judge) servedStale() {
	for f, o := range j.decided.outcomes {
		a := j.round().seen[o.server][f].Answer
		if !o.decided || a == nil || !slices.ContainsFunc(a.Extended, func(e ExtendedError) bool { return e.Code == 3 || e.Code == 19 }) {
			continue
		}
		what, facts := "its denial", fact(classify.FactResolver, j.server(o.server))
		if len(a.Addresses) > 0 {
			what = joined(a.Addresses)
			facts = append(facts, fact(classify.FactAddress, what)...)
		}
		j.warn(classify.DNSStaleRecord, facts, "Nameserver %s says itself that %s for %s is stale: it could not ask the servers behind it anew.",
			j.server(o.server), what, trimDot(j.round().name)).
			Certainty = classify.CertaintyLikely
		return
	}
}
