package dnscheck

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// serverFault is one cause that a nameserver showed for one or both families.
type serverFault struct {
	server   int
	cause    classify.Cause
	families []family
	fail     bool
	shown    bool // the runtime prints it
}

// nameservers tells the faults of each nameserver. They are failures only where no nameserver
// settled the question for the runtime; a denial is one when the runtime is left with it.
func (j *judge) nameservers() {
	nothing := j.gotNothing() && j.report.Settings.usesDNS()
	shownServer, shownFamily := j.decided.shown()
	var faults []serverFault
	for s, seen := range j.round().seen {
		for f := range families {
			o, out := &seen[f], j.decided.outcomes[f]
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
			at := slices.IndexFunc(faults, func(g serverFault) bool { return g.server == s && g.cause == o.Cause })
			if at < 0 {
				at = len(faults)
				faults = append(faults, serverFault{server: s, cause: o.Cause})
			}
			g := &faults[at]
			g.families = append(g.families, f)
			g.fail = g.fail || fail
			g.shown = g.shown || s == shownServer && f == shownFamily
		}
	}
	for _, shown := range []bool{true, false} {
		for _, g := range faults {
			if g.shown == shown {
				j.nameserver(g)
			}
		}
	}
}

func (j *judge) nameserver(g serverFault) {
	o, first := &j.round().seen[g.server][g.families[0]], j.decided.outcomes[g.families[0]]
	types := g.families[0].String()
	if len(g.families) > 1 {
		types = "A and AAAA"
	}
	facts := fact(classify.FactResolver, j.server(g.server))
	if o.Answer != nil {
		facts = append(facts, fact(classify.FactRCode, o.Answer.RCode)...)
	}
	if o.limit > 0 {
		facts = append(facts, fact(classify.FactLimit, o.limit.String())...)
	} else {
		facts = append(facts, fact(classify.FactElapsed, ms(o.ElapsedMS).String())...)
	}
	more := ""
	if o.kind.denies() {
		more = keptFor(o.Answer) + j.otherNames()
	} else if !g.fail && o.silent && len(g.families) == 1 && first.decided {
		more = fmt.Sprintf(" A lookup waits %v for this record.", ms(first.waitMS))
	}
	more += j.overTCP(g.server, o)
	if j.report.Settings.Nameservers[g.server].Addr().Unmap().IsLoopback() {
		more += j.upstreams(o)
	}
	if !o.silent {
		more += j.platform()
	}
	f := j.failIf(g.fail, o.Cause, facts, "Nameserver %s, asked for %s of %s, %s.%s",
		j.server(g.server), types, trimDot(j.round().name), j.what(o), more)
	if o.Cause == classify.DNSDNSSECFailed || o.kind.denies() && (len(j.report.Unasked) > 0 || j.report.Settings.hostsUnread) {
		f.Certainty = classify.CertaintyLikely
	}
	if o.err != nil {
		for _, fact := range classify.Error(o.err).Facts { // errno and the like
			// The address there is the nameserver's, which would read as an answer.
			if fact.Key != classify.FactAddress && f.Fact(fact.Key) == "" {
				f.Facts = append(f.Facts, fact)
			}
		}
		*f = f.WithError(o.err)
	}
}

// what is the predicate of the sentence about one nameserver.
func (j *judge) what(o *observation) string {
	detail := ""
	if o.Answer != nil && len(o.Answer.CNAMEs) > 0 {
		detail = ", an alias that ends at " + o.Answer.CNAMEs[len(o.Answer.CNAMEs)-1]
	}
	if o.Answer != nil && o.Answer.SOA != "" {
		detail += ", in the words of the zone " + o.Answer.SOA
	}
	switch {
	case o.Cause == classify.DNSCNAMELoop:
		chain := j.report.Chain
		if loopOf(j.report.Name, chain) == "" && o.Answer != nil {
			chain = o.Answer.CNAMEs
		}
		return "fails on an alias that leads back to itself: " + strings.Join(append([]string{trimDot(j.report.Name)}, chain...), " -> ")
	case o.Cause == classify.DNSDNSSECFailed:
		return "answered SERVFAIL because its DNSSEC check failed" + reasons(o.Answer)
	case o.Cause == classify.DNSPrivateZoneEmpty:
		rcode := "no data"
		if o.kind == kindNXDomain {
			rcode = rcodeNXDomain
		}
		return fmt.Sprintf("looked into the private zone of %s and found no record there (%s%s), and the public one is hidden by it",
			privateLinkOf(j.report.Name, o.Answer), rcode, detail)
	case o.kind == kindNXDomain:
		return "says that the name does not exist (NXDOMAIN" + detail + ")" + reasons(o.Answer)
	case o.kind == kindNoData:
		return "knows the name but holds no such record (no data" + detail + ")" + reasons(o.Answer)
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
	}
	return "could not be asked: " + o.Error
}

// otherNames adds to a denial what became of the search list.
func (j *judge) otherNames() string {
	var names []string
	for _, n := range j.report.Also {
		names = append(names, trimDot(n.Name))
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

// overTCP adds to a timeout over UDP what became of the question over TCP.
func (j *judge) overTCP(server int, o *observation) string {
	switch tcp := j.report.Servers[server].TCP; {
	case tcp == nil || o.Answer != nil || o.Network != "udp":
		return ""
	case tcp.Answer != nil:
		return " Over TCP it answers, so something on the way drops UDP."
	case tcp.Cause == classify.DNSResolverPortClosed && o.Cause != tcp.Cause:
		return " Its TCP port is closed, so that the host is there."
	}
	return ""
}

// upstreams adds to the failure of a stub what the servers behind it say.
func (j *judge) upstreams(o *observation) string {
	var said []string
	for i, b := range j.report.Behind {
		what := "gives no answer"
		if found := b.addresses(); len(found) > 0 {
			what = "answers " + joined(found)
		} else if b.A.Answer != nil {
			what = "answers " + b.A.Answer.RCode
		}
		link := onLink(b.Link)
		if j.report.Settings.Behind[i].ownsSuffix(j.report.Name) {
			link += ", to which this domain belongs,"
		}
		said = append(said, fmt.Sprintf("%s%s %s", b.Server.Addr(), link, what))
	}
	switch {
	case len(said) > 0:
		return " Behind this stub, " + strings.Join(said, "; ") + "."
	case o.silent && o.Answer == nil:
		return " It listens on this node, so that what it forwards to is probably dead or cut off."
	}
	return ""
}
