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

// judge turns what was seen into findings.
type judge struct {
	report  *Report
	lookup  *lookup // nil for an IP literal
	expect  []netip.Prefix
	routes6 []byte // the node's IPv6 routes; nil = not known
}

// findings returns failures first; among them the one that the runtime shows.
func (j *judge) findings() []classify.Finding {
	d := j.lookup.decide(false)
	all := slices.Concat(
		j.noNameserver(), j.filesOnly(), j.clusterOnly(), j.nameservers(d),
		j.hostsOverride(d), j.firstServerDead(d), j.disagreement(d), j.halfDenied(d), j.servedStale(d),
		j.addressFindings(), j.publicAnswer(d), j.searchCapture(d), j.onlyIPv6(), j.podResolver(), j.ignored(),
	)
	if j.report.Inconclusive != "" {
		// What was not seen to its end is no failure.
		for i := range all {
			if all[i].Severity == classify.SeverityFail {
				all[i].Severity = classify.SeverityWarn
			}
		}
	}
	slices.SortStableFunc(all, func(a, b classify.Finding) int { return rank(a.Severity) - rank(b.Severity) })
	return all
}

func rank(s classify.Severity) int {
	switch s {
	case classify.SeverityFail:
		return 0
	case classify.SeverityWarn:
		return 1
	}
	return 2
}

// finding builds one about the name looked up; fail false makes it a warning.
func (j *judge) finding(cause classify.Cause, fail bool, summary string, facts ...classify.Fact) classify.Finding {
	f := classify.New(cause, summary, facts...)
	f.Endpoint = j.report.Name
	if !fail {
		f.Severity = classify.SeverityWarn
	}
	return f
}

// gotNothing says that the runtime is left without any address.
func (j *judge) gotNothing() bool { return j.report.From == "" }

func (j *judge) noNameserver() []classify.Finding {
	s := &j.report.Settings
	if !s.DefaultNameservers || !slices.Contains(s.Order, sourceDNS) {
		return nil
	}
	why := "names no usable nameserver"
	if slices.Contains(s.Problems, s.File+": does not exist") {
		why = "does not exist"
	}
	return []classify.Finding{j.finding(classify.DNSNoNameserver, j.gotNothing(),
		fmt.Sprintf("%s %s, so the runtime asks 127.0.0.1 and ::1.", s.File, why),
		classify.Fact{Key: classify.FactFile, Value: s.File})}
}

// filesOnly is for a node whose nsswitch.conf leaves DNS out.
func (j *judge) filesOnly() []classify.Finding {
	if !j.gotNothing() || slices.Contains(j.report.Settings.Order, sourceDNS) {
		return nil
	}
	return []classify.Finding{j.finding(classify.DNSNoNameserver, true,
		fmt.Sprintf("%s lets the runtime look into %s only, and %s is not in it; no nameserver is asked.", nsswitchFile, hostsFile, j.report.Name),
		classify.Fact{Key: classify.FactFile, Value: nsswitchFile})}
}

// nameservers tells what each nameserver failed at. It is a failure only where
// no nameserver settled the question for the runtime; a denial is one when the
// runtime is left with it.
func (j *judge) nameservers(d decision) []classify.Finding {
	nothing := j.gotNothing() && slices.Contains(j.report.Settings.Order, sourceDNS)
	type group struct {
		server   int
		cause    classify.Cause
		families []family
		fail     bool
		shown    bool
	}
	var groups []group
	shownServer, shownFamily := d.shown()
	seen := j.lookup.rounds[d.round].seen
	for s := range seen {
		for f := range families {
			o, out := &seen[s][f], d.outcomes[f]
			if !o.settled || o.kind == kindAddresses {
				continue
			}
			fail := nothing && (!out.decided || out.kind == kindMoveOn)
			if o.kind != kindMoveOn {
				// A denial counts where it is final; elsewhere it is a disagreement.
				if fail = nothing && out.decided && out.kind == o.kind && out.server == s; !fail {
					continue
				}
			}
			shown := s == shownServer && f == shownFamily
			at := slices.IndexFunc(groups, func(g group) bool { return g.server == s && g.cause == o.Cause })
			if at < 0 {
				groups = append(groups, group{s, o.Cause, []family{f}, fail, shown})
				continue
			}
			groups[at].families = append(groups[at].families, f)
			groups[at].fail = groups[at].fail || fail
			groups[at].shown = groups[at].shown || shown
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int {
		switch {
		case a.shown == b.shown:
			return 0
		case a.shown:
			return -1
		default:
			return 1
		}
	})
	var all []classify.Finding
	for _, g := range groups {
		all = append(all, j.nameserver(d, g.server, g.families, g.fail))
	}
	return all
}

// shown is whose failure the runtime prints when it got nothing: that of the
// family which took longer, since its error comes last.
func (d decision) shown() (server int, f family) {
	if d.outcomes[famAAAA].waitMS > d.outcomes[famA].waitMS {
		return d.outcomes[famAAAA].server, famAAAA
	}
	return d.outcomes[famA].server, famA
}

func (j *judge) nameserver(d decision, server int, fams []family, fail bool) classify.Finding {
	round := j.lookup.rounds[d.round]
	o := &round.seen[server][fams[0]]
	address := j.lookup.settings.Nameservers[server].String()
	types := fams[0].String()
	if len(fams) > 1 {
		types = "A and AAAA"
	}
	facts := []classify.Fact{{Key: classify.FactResolver, Value: address}}
	if o.Answer != nil {
		facts = append(facts, classify.Fact{Key: classify.FactRCode, Value: o.Answer.RCode})
	}
	if o.limit > 0 {
		facts = append(facts, classify.Fact{Key: classify.FactLimit, Value: o.limit.String()})
	} else {
		facts = append(facts, classify.Fact{Key: classify.FactElapsed, Value: ms(o.ElapsedMS).String()})
	}
	summary := fmt.Sprintf("Nameserver %s, asked for %s of %s, %s.", address, types, unrooted(round.name), j.what(o, types))
	final := o.kind == kindNXDomain || o.kind == kindNoData
	if final {
		summary += keptFor(o.Answer) + j.otherNames()
	} else if wait := d.outcomes[fams[0]].waitMS; !fail && o.silent && len(fams) == 1 && d.outcomes[fams[0]].decided {
		summary += fmt.Sprintf(" A lookup waits %v for this record.", ms(wait))
	}
	summary += j.aside(server, o)
	if o.kind != kindAddresses && o.settled && !o.silent {
		summary += j.platform()
	}
	f := j.finding(o.Cause, fail, summary, facts...)
	if o.Cause == classify.DNSDNSSECFailed || o.Cause == classify.DNSClusterOnlyName {
		f.Certainty = classify.CertaintyLikely
	}
	if final && (len(j.report.Unasked) > 0 || j.lookup.settings.hostsUnread) {
		f.Certainty = classify.CertaintyLikely
	}
	if o.err != nil {
		for _, fact := range classify.Error(o.err).Facts { // errno and the like
			// The address there is the nameserver's, which would read as an answer.
			if fact.Key != classify.FactAddress && f.Fact(fact.Key) == "" {
				f.Facts = append(f.Facts, fact)
			}
		}
		f = f.WithError(o.err)
	}
	return f
}

// what is the predicate of the sentence about one nameserver.
func (j *judge) what(o *observation, types string) string {
	alias := ""
	if o.Answer != nil && len(o.Answer.CNAMEs) > 0 {
		alias = ", an alias that ends at " + o.Answer.CNAMEs[len(o.Answer.CNAMEs)-1]
	}
	zone := ""
	if o.Answer != nil && o.Answer.SOA != "" {
		zone = ", in the words of the zone " + o.Answer.SOA
	}
	switch {
	case o.Cause == classify.DNSCNAMELoop:
		chain := j.report.Chain
		if loopOf(j.report.Name, chain) == "" && o.Answer != nil {
			chain = o.Answer.CNAMEs
		}
		return "fails on an alias that leads back to itself: " + strings.Join(append([]string{unrooted(j.report.Name)}, chain...), " -> ")
	case o.Cause == classify.DNSDNSSECFailed:
		return "answered SERVFAIL because its DNSSEC check failed" + reasons(o.Answer)
	case o.Cause == classify.DNSPrivateZoneEmpty:
		rcode := "no data"
		if o.kind == kindNXDomain {
			rcode = "NXDOMAIN"
		}
		return fmt.Sprintf("looked into the private zone of %s and found no record there (%s%s%s), and the public one is hidden by it",
			privateLinkOf(j.report.Name, o.Answer), rcode, alias, zone)
	case o.kind == kindNXDomain:
		return "says that the name does not exist (NXDOMAIN" + alias + zone + ")" + reasons(o.Answer)
	case o.kind == kindNoData:
		return "knows the name but holds no such record (no data" + alias + zone + ")" + reasons(o.Answer)
	case o.Unmatched != nil:
		return "sent " + o.Unmatched.text() + "; the runtime ignores that and is left without an answer"
	case o.Cause == classify.DNSTruncatedNoTCP:
		return "sent a truncated answer over UDP and failed over TCP: " + o.Error
	case o.limit > 0:
		return fmt.Sprintf("gave no answer within %v", o.limit)
	case o.Answer != nil && o.silent:
		return o.Error
	case o.Answer != nil && o.Answer.Lame:
		return "only pointed elsewhere and does not look names up for this node (lame referral)"
	case o.Answer != nil:
		return "answered " + o.Answer.RCode + reasons(o.Answer)
	case o.Cause == classify.DNSResolverPortClosed:
		return "could not be asked, because nothing listens there: " + o.Error
	case o.Cause == classify.DNSResolverUnreachable:
		return "could not be asked, because this node has no way to it: " + o.Error
	case errors.Is(o.err, ErrMalformed):
		return "sent an answer that cannot be read: " + o.Error
	default:
		return "could not be asked: " + o.Error
	}
}

// otherNames adds to a denial what became of the search list.
func (j *judge) otherNames() string {
	var names []string
	for _, n := range j.report.Also {
		names = append(names, unrooted(n.Name))
	}
	text := ""
	if len(names) > 0 {
		text = " The search list gave nothing either: " + strings.Join(names[:min(len(names), 6)], ", ") + "."
	}
	if n := len(j.report.Unasked); n > 0 {
		text += fmt.Sprintf(" There was no time to ask for %d more of the search list.", n)
	}
	return text
}

// hostsOverride tells of an answer out of the hosts file, and whether DNS says
// the same.
func (j *judge) hostsOverride(d decision) []classify.Finding {
	r := j.report
	if r.From != FromHosts || isLocalhost(r.Name) { // every system ships that line
		return nil
	}
	fromDNS := j.lookup.addresses(d)
	var dns string
	switch {
	case len(fromDNS) > 0 && sameAddresses(fromDNS, r.Addresses):
		dns = "DNS gives the same"
	case len(fromDNS) > 0:
		dns = "DNS disagrees and gives " + joined(fromDNS)
	case !d.decided:
		dns = "what DNS says was not seen"
	case d.denied():
		dns = "DNS does not know the name"
	default:
		dns = "DNS could not be asked"
	}
	facts := []classify.Fact{}
	var places []string
	for _, e := range r.Hosts {
		place := fmt.Sprintf("%s:%d", e.File, e.Line)
		places = append(places, place)
		if len(facts) < 8 {
			facts = append(facts, classify.Fact{Key: classify.FactFile, Value: place})
		}
	}
	facts = append(facts, classify.Fact{Key: classify.FactAddress, Value: joined(r.Addresses)})
	since := ""
	if changed := r.Hosts[0].Changed; !changed.IsZero() && changed.Unix() > 0 {
		since = " (file last written " + changed.Format(time.DateOnly) + ")"
	}
	return []classify.Finding{j.finding(classify.DNSHostsOverride, false,
		fmt.Sprintf("The runtime takes %s for %s from %s, a line on this node alone%s; %s.",
			joined(r.Addresses), r.Name, strings.Join(places[:min(len(places), 4)], ", "), since, dns),
		facts...)}
}

// denied says that DNS answered, and that there is no address.
func (d decision) denied() bool {
	for _, o := range d.outcomes {
		if !o.decided || o.kind != kindNXDomain && o.kind != kindNoData {
			return false
		}
	}
	return true
}

// firstServerDead tells what every lookup of the node pays for dead nameservers
// in front of the one that answers.
func (j *judge) firstServerDead(d decision) []classify.Finding {
	settler := -1
	for _, o := range d.outcomes {
		if o.decided && o.kind != kindMoveOn && (settler < 0 || o.server < settler) {
			settler = o.server
		}
	}
	seen := j.lookup.rounds[d.round].seen
	dead := 0
	for dead < settler && isDead(&seen[dead][famA]) && isDead(&seen[dead][famAAAA]) {
		dead++
	}
	if dead == 0 {
		return nil
	}
	servers := j.lookup.settings.Nameservers
	who, them := "the first nameserver, "+servers[0].String()+", is dead", "it"
	if dead > 1 {
		them = "them"
		who = "the first nameservers, " + servers[0].String() + " and " + servers[1].String() + ", are dead"
	}
	wait := ""
	if d.decided {
		wait = fmt.Sprintf(" and takes about %v", ms(d.waitMS))
	}
	denial := ""
	if d.outcomes[famA].kind != kindAddresses && d.outcomes[famAAAA].kind != kindAddresses {
		denial = " What is dead may know the name."
	}
	facts := []classify.Fact{{Key: classify.FactResolver, Value: servers[0].String()}}
	if d.decided {
		facts = append(facts, classify.Fact{Key: classify.FactElapsed, Value: ms(d.waitMS).String()})
	}
	return []classify.Finding{j.finding(classify.DNSFirstServerDead, false,
		fmt.Sprintf("%s answers for %s, but %s, and each lookup of the runtime tries %s first%s.%s",
			servers[settler], j.report.Name, who, them, wait, denial), facts...)}
}

// isDead says that nothing at all came back.
func isDead(o *observation) bool {
	return o.settled && o.Answer == nil && o.Unmatched == nil && o.kind == kindMoveOn && !errors.Is(o.err, ErrMalformed)
}

func (j *judge) ignored() []classify.Finding {
	s := &j.report.Settings
	if len(s.Ignored) == 0 {
		return nil
	}
	return []classify.Finding{j.finding(classify.DNSIgnoredNameserver, false,
		fmt.Sprintf("%s also names %s, which the runtime never asks: only the first %d lines with an IP address count.",
			s.File, strings.Join(s.Ignored, ", "), maxNameservers),
		classify.Fact{Key: classify.FactFile, Value: s.File})}
}

func isLocalhost(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// joined lists at most eight addresses.
func joined(addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs[:min(len(addrs), 8)] {
		texts = append(texts, a.String())
	}
	if n := len(addrs) - len(texts); n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts, ", "), n)
	}
	return strings.Join(texts, ", ")
}
