package dnscheck

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// outcome is what the runtime gets for one full name and one family.
type outcome struct {
	decided bool // false = not enough was seen
	kind    kind // kindMoveOn = every nameserver failed
	server  int  // who decided, or the last one tried, whose failure Go shows
	waitMS  int64
}

// outcome replays Go's tryOneName over what was seen: the nameservers in order,
// the first final answer counts, and if there is none the list is gone through
// again, which comes to the same here. impatient takes an open exchange for a
// silent one.
func (l *lookup) outcome(r *round, f family, impatient bool) outcome {
	var wait int64
	for s := range r.seen {
		o := &r.seen[s][f]
		switch {
		case !o.settled && !impatient:
			return outcome{}
		case !o.settled, o.silent:
			wait += l.settings.TimeoutMS
		default:
			wait += o.waitMS
		}
		if o.settled && o.kind != kindMoveOn {
			return outcome{decided: true, kind: o.kind, server: s, waitMS: wait}
		}
	}
	return outcome{decided: true, server: len(r.seen) - 1, waitMS: wait * int64(l.settings.Attempts)}
}

// decision is what the whole list of names comes to.
type decision struct {
	round    int // whose outcomes these are; see [Report.Asked]
	outcomes [families]outcome
	decided  bool
	waitMS   int64 // sum over the names up to the one that decided
}

// kind is what the runtime gets: addresses if either family has some, else that
// of the server that decided for A.
func (d decision) kind() kind {
	if d.outcomes[famAAAA].kind == kindAddresses {
		return kindAddresses
	}
	return d.outcomes[famA].kind
}

// server is who decided, for the IPv4 addresses where there are any.
func (d decision) server() int {
	if d.outcomes[famA].kind != kindAddresses && d.outcomes[famAAAA].kind == kindAddresses {
		return d.outcomes[famAAAA].server
	}
	return d.outcomes[famA].server
}

// decide goes through the names as Go does: the first with an address ends it.
// If none has any, the name as it stands is the one whose error Go shows.
// impatient takes nameservers that have said nothing for decidedPatience for
// silent ones.
func (l *lookup) decide(impatient bool) decision {
	d := decision{decided: true}
	var wait int64
	asIs := 0
	for i, r := range l.rounds {
		if r.name == rooted(l.name) {
			asIs = i
		}
		impatient := impatient && time.Since(r.started) >= decidedPatience
		o := [families]outcome{l.outcome(r, famA, impatient), l.outcome(r, famAAAA, impatient)}
		if !o[famA].decided || !o[famAAAA].decided {
			// One family with addresses is already an answer, only perhaps not all of
			// it; without, nothing is known of what the later names mean.
			d.decided = false
			if o[famA].kind != kindAddresses && o[famAAAA].kind != kindAddresses {
				d.round, d.outcomes = i, o
				return d
			}
		}
		if l.settings.SingleRequest {
			wait += o[famA].waitMS + o[famAAAA].waitMS
		} else {
			wait += max(o[famA].waitMS, o[famAAAA].waitMS)
		}
		if o[famA].kind == kindAddresses || o[famAAAA].kind == kindAddresses {
			d.round, d.outcomes, d.waitMS = i, o, wait
			return d
		}
	}
	r := l.rounds[asIs]
	d.round, d.waitMS = asIs, wait
	d.outcomes = [families]outcome{l.outcome(r, famA, false), l.outcome(r, famAAAA, false)}
	return d
}

func rooted(name string) string {
	if len(name) > 0 && name[len(name)-1] == '.' {
		return name
	}
	return name + "."
}

// report puts what was seen, and what the runtime makes of it by d, into r.
func (l *lookup) report(r *Report, d decision) {
	for i, round := range l.rounds {
		n := NameReport{Name: round.name}
		for s, server := range l.settings.Nameservers {
			n.Servers = append(n.Servers, ServerReport{
				Server: server, A: round.seen[s][famA].Exchange, AAAA: round.seen[s][famAAAA].Exchange,
			})
		}

		if i == d.round {
			r.Asked, r.Servers = n.Name, n.Servers
		} else {
			r.Also = append(r.Also, n)
		}
	}

	fromDNS := l.addresses(d)
	if len(fromDNS) == 0 && len(l.rounds) < len(l.names) {
		r.Unasked = slices.Clone(l.names[len(l.rounds):])
	}
	switch {
	case l.ended != nil:
		r.Inconclusive = "ended by the caller before every nameserver had answered: " + classify.Redact(l.ended.Error(), maxErrorText)
	case l.short && !d.decided:
		r.Inconclusive = "the time of this check ended before " + strings.TrimSuffix(l.rounds[d.round].name, ".") + " was answered"
	}

	fromHosts := hostsAddresses(r.Hosts)
	usesDNS, usesHosts := slices.Contains(r.Settings.Order, sourceDNS), slices.Contains(r.Settings.Order, sourceFiles)
	switch {
	case usesHosts && r.Settings.HostsFirst && len(fromHosts) > 0:
		r.From, r.Addresses = FromHosts, fromHosts
	case usesDNS && len(fromDNS) > 0:
		r.From, r.Addresses = FromDNS, fromDNS
	case usesHosts && len(fromHosts) > 0 && (d.decided || !usesDNS):
		r.From, r.Addresses = FromHosts, fromHosts
	}
	if usesDNS && !(r.From == FromHosts && r.Settings.HostsFirst) && d.decided {
		r.PredictedMS = d.waitMS
	}
	if usesDNS && r.From != FromHosts {
		r.Answered = l.answered(d)
	}
}

// reportAside adds what explains the outcome. Not before run is through: until
// then it still changes.
func (l *lookup) reportAside(r *Report) {
	for s := range r.Servers {
		if l.aside.tcp != nil {
			r.Servers[s].TCP, r.Servers[s].Unchecked = l.aside.tcp[s], l.aside.cd[s]
		}
	}
	if l.aside.absolute != nil {
		r.Also = append(r.Also, *l.aside.absolute)
	}
	r.Behind, r.Chain, r.Platform = l.aside.behind, l.aside.chain, l.aside.platform
	if w := l.wildcard(); len(w) > 0 {
		r.Wildcard = &Wildcard{Domain: unrooted(l.aside.searched), Addresses: w}
	}
}

// answered is the nameserver that decided: for the addresses if there are any,
// IPv4 before IPv6, otherwise for the denial.
func (l *lookup) answered(d decision) netip.AddrPort {
	for _, final := range [][]kind{{kindAddresses}, {kindNXDomain, kindNoData}} {
		for _, o := range d.outcomes {
			if o.decided && slices.Contains(final, o.kind) {
				return l.settings.Nameservers[o.server]
			}
		}
	}
	return netip.AddrPort{}
}

// addresses are those that DNS gives the runtime, IPv4 first.
func (l *lookup) addresses(d decision) []netip.Addr {
	var all []netip.Addr
	for f, o := range d.outcomes {
		if o.decided && o.kind == kindAddresses {
			all = append(all, l.rounds[d.round].seen[o.server][f].Answer.Addresses...)
		}
	}
	return ipv4First(all)
}

// wildcard is what a search domain gives to a name that nobody registered.
func (l *lookup) wildcard() []netip.Addr {
	var all []netip.Addr
	for f := range families {
		if a := l.aside.wildcard[f].Answer; a != nil && a.RCode == rcodeOK {
			all = append(all, a.Addresses...)
		}
	}
	return all
}

func hostsAddresses(entries []HostsEntry) []netip.Addr {
	var all []netip.Addr
	for _, e := range entries {
		if !slices.Contains(all, e.Address.Unmap()) {
			all = append(all, e.Address.Unmap())
		}
	}
	return ipv4First(all)
}

func ipv4First(addrs []netip.Addr) []netip.Addr {
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int {
		switch {
		case a.Is4() == b.Is4():
			return 0
		case a.Is4():
			return -1
		default:
			return 1
		}
	})
	return addrs
}
