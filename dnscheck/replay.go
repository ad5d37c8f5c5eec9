package dnscheck

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// decidedPatience is how long a nameserver may be silent before the answer of another is handed on.
// Most recursive lookups take less; the report waits for the rest.
const decidedPatience = 500 * time.Millisecond

// family is an index: A or AAAA.
type family int

const (
	famA family = iota
	famAAAA
	families
)

func (f family) String() string { return [...]string{"A", "AAAA"}[f] }

// kind is how an answer steers the runtime.
type kind int

const (
	kindMoveOn    kind = iota // the next nameserver is asked
	kindAddresses             // final
	kindNXDomain              // final
	kindNoData                // final
)

func (k kind) denies() bool { return k == kindNXDomain || k == kindNoData }

// observation is an [Exchange] with what the runtime's rules need besides.
type observation struct {
	Exchange
	settled bool
	kind    kind
	silent  bool          // the runtime waits its whole timeout
	waitMS  int64         // how long the runtime waits when it is not silent
	limit   time.Duration // our own limit, if that ended it
	err     error
}

// round is everything about one full name.
type round struct {
	name    string
	started time.Time
	seen    [][families]observation // per nameserver
}

func (r *round) anyAnswer() bool {
	return slices.ContainsFunc(r.seen, func(o [families]observation) bool {
		return o[famA].Answer != nil || o[famAAAA].Answer != nil
	})
}

// replay applies the rules of Go's resolver to what was seen.
type replay struct {
	name     string
	settings *Settings
	rounds   []*round // one a full name that was asked for, in the order of the runtime

	searched string      // suffix of the search list that gave the answer; "" = none did
	absolute *NameReport // the name as it stands, when only a side check asked for it
}

// outcome is what the runtime gets for one full name and one family.
type outcome struct {
	decided bool // false = not enough was seen
	kind    kind // kindMoveOn = every nameserver failed
	server  int  // the one that decided, or the last one tried, whose failure Go shows
	waitMS  int64
}

// outcome is Go's tryOneName: the nameservers in order, the first final answer counts, and without
// one the list is gone through again, which comes to the same here. impatient takes an open
// exchange for a silent one.
func (p *replay) outcome(r *round, f family, impatient bool) outcome {
	var wait int64
	for s := range r.seen {
		o := &r.seen[s][f]
		switch {
		case !o.settled && !impatient:
			return outcome{}
		case !o.settled, o.silent:
			wait += p.settings.TimeoutMS
		default:
			wait += o.waitMS
		}
		if o.settled && o.kind != kindMoveOn {
			return outcome{decided: true, kind: o.kind, server: s, waitMS: wait}
		}
	}
	return outcome{decided: true, server: len(r.seen) - 1, waitMS: wait * int64(p.settings.Attempts)}
}

// outcomes are those of both families.
func (p *replay) outcomes(r *round, impatient bool) [families]outcome {
	return [families]outcome{p.outcome(r, famA, impatient), p.outcome(r, famAAAA, impatient)}
}

// decision is what the whole list of names comes to.
type decision struct {
	round    int // whose outcomes these are; see [Report.Asked]
	outcomes [families]outcome
	decided  bool
	waitMS   int64 // sum over the names up to the one that decided
}

// kind is what the runtime gets: addresses if either family has some, else that of the server that
// decided for A.
func (d decision) kind() kind {
	if d.outcomes[famAAAA].kind == kindAddresses {
		return kindAddresses
	}
	return d.outcomes[famA].kind
}

// server is the one that decided, for the IPv4 addresses where there are any.
func (d decision) server() int {
	if d.outcomes[famA].kind != kindAddresses && d.outcomes[famAAAA].kind == kindAddresses {
		return d.outcomes[famAAAA].server
	}
	return d.outcomes[famA].server
}

// denied reports whether DNS answered, and that there is no address.
func (d decision) denied() bool {
	return !slices.ContainsFunc(d.outcomes[:], func(o outcome) bool { return !o.decided || !o.kind.denies() })
}

// shown is the exchange whose failure the runtime prints when it got nothing: that of the family
// which took longer, since its error comes last.
func (d decision) shown() (server int, f family) {
	if d.outcomes[famAAAA].waitMS > d.outcomes[famA].waitMS {
		f = famAAAA
	}
	return d.outcomes[f].server, f
}

// decide goes through the names as Go does: the first with an address ends it. If none has any, Go
// shows the error of the name as it stands. impatient takes nameservers that have said nothing for
// decidedPatience for silent ones.
func (p *replay) decide(impatient bool) decision {
	d := decision{decided: true}
	var wait int64
	asIs := 0
	for i, r := range p.rounds {
		if r.name == fqdn(p.name) {
			asIs = i
		}
		o := p.outcomes(r, impatient && time.Since(r.started) >= decidedPatience)
		found := o[famA].kind == kindAddresses || o[famAAAA].kind == kindAddresses
		if !o[famA].decided || !o[famAAAA].decided {
			// Addresses of one family are an answer already, if perhaps not the whole; without any,
			// the later names mean nothing yet.
			d.decided = false
			if !found {
				d.round, d.outcomes = i, o
				return d
			}
		}
		if p.settings.SingleRequest {
			wait += o[famA].waitMS + o[famAAAA].waitMS
		} else {
			wait += max(o[famA].waitMS, o[famAAAA].waitMS)
		}
		if found {
			d.round, d.outcomes, d.waitMS = i, o, wait
			return d
		}
	}
	d.round, d.waitMS, d.outcomes = asIs, wait, p.outcomes(p.rounds[asIs], false)
	return d
}

// best is what is decided, or would be if nobody silent answered any more.
func (p *replay) best() decision {
	d := p.decide(false)
	if !d.decided {
		d = p.decide(true)
	}
	return d
}

// answered is the nameserver that decided: for the addresses if there are any, IPv4 before IPv6,
// otherwise for the denial.
func (p *replay) answered(d decision) netip.AddrPort {
	for _, final := range []func(kind) bool{func(k kind) bool { return k == kindAddresses }, kind.denies} {
		for _, o := range d.outcomes {
			if o.decided && final(o.kind) {
				return p.settings.Nameservers[o.server]
			}
		}
	}
	return netip.AddrPort{}
}

// addresses are those that DNS gives the runtime, IPv4 first.
func (p *replay) addresses(d decision) []netip.Addr {
	var all []netip.Addr
	for f, o := range d.outcomes {
		if o.decided && o.kind == kindAddresses {
			all = append(all, p.rounds[d.round].seen[o.server][f].Answer.Addresses...)
		}
	}
	return ipv4First(all)
}

// fullName is the round of the name as it stands; nil = not asked.
func (p *replay) fullName() *round {
	if i := slices.IndexFunc(p.rounds, func(r *round) bool { return r.name == fqdn(p.name) }); i >= 0 {
		return p.rounds[i]
	}
	return nil
}

// judgeAnswer says how a complete answer steers Go's resolver (checkHeader and skipToAnswer in
// net's dnsclient_unix.go), and its cause.
func judgeAnswer(a *Answer) (kind, classify.Cause) {
	switch {
	case a.RCode == rcodeNXDomain:
		return kindNXDomain, classify.DNSNXDOMAIN
	case a.RCode == rcodeRefused:
		return kindMoveOn, classify.DNSRefused
	case a.RCode != rcodeOK:
		// FORMERR, NOTIMP and the rest are shown like SERVFAIL: "server misbehaving".
		return kindMoveOn, classify.DNSServFail
	case len(a.Addresses) > 0:
		return kindAddresses, ""
	case a.Lame:
		return kindMoveOn, classify.DNSServFail
	}
	return kindNoData, classify.DNSNoData
}

// cLibrary applies the C library's rules to what was seen. nil = the outcome is the same, or not
// all was seen.
func (p *replay) cLibrary(r *Report, d decision) *CLibrary {
	if !d.decided || !p.settings.usesDNS() {
		return nil
	}
	c := &CLibrary{PredictedMS: r.PredictedMS, Addresses: r.Addresses}
	if r.From == fromDNS && mdnsOnly(p.name, p.settings.nss) {
		c.Addresses, c.PredictedMS = nil, 0
		c.Differs = append(c.Differs, fmt.Sprintf("mdns4_minimal [NOTFOUND=return] in %s: a name of two labels under .local is never asked for in DNS", nsswitchFile))
		return c
	}
	if r.From == fromHosts { // hosts first, or nothing in DNS: the same for both
		return nil
	}

	var wait int64
	for i, round := range p.rounds[:d.round+1] {
		w, failed := p.cWait(round)
		wait += w
		if failed && round.name != fqdn(p.name) && i < d.round {
			c.Addresses = nil
			c.Differs = append(c.Differs, fmt.Sprintf("no nameserver answered for %s, and the C library then asks for no further name", trimDot(round.name)))
			break
		}
	}
	if p.settings.DefaultNameservers {
		c.Differs = append(c.Differs, "without a nameserver in the file the C library asks 127.0.0.1 only, not ::1")
		if o := &p.rounds[d.round].seen[0]; o[famA].kind != kindAddresses && o[famAAAA].kind != kindAddresses {
			c.Addresses = nil
		}
	}
	if d.kind() != kindAddresses {
		// All names are gone through; the sum above stops at the one that is shown.
		wait = 0
		for _, round := range p.rounds {
			w, _ := p.cWait(round)
			wait += w
		}
	}
	c.PredictedMS = wait
	if wait != r.PredictedMS {
		c.Differs = append(c.Differs, fmt.Sprintf("the C library waits %v, Go %v: its timeout doubles from server to server and is divided by their number", ms(wait), ms(r.PredictedMS)))
	}
	if len(c.Differs) == 0 {
		return nil
	}
	return c
}

// cWait is how long the C library waits for one name, and whether nobody answered. A and AAAA are
// sent together, so that the slower one counts.
func (p *replay) cWait(r *round) (wait int64, failed bool) {
	for f := range families {
		var w int64
		final := false
		for range p.settings.Attempts {
			for s := range r.seen {
				o := &r.seen[s][f]
				if o.silent || !o.settled {
					w += cTimeout(p.settings.TimeoutMS, int64(s), int64(len(r.seen)))
				} else {
					w += o.waitMS
				}
				if final = o.settled && o.kind != kindMoveOn; final {
					break
				}
			}
			if final {
				break
			}
		}
		wait = max(wait, w)
		failed = failed || !final && !slices.ContainsFunc(r.seen, func(o [families]observation) bool { return o[f].Answer != nil })
	}
	return wait, failed
}

// cTimeout is the patience with the server at index of n: the timeout, doubled for each server
// before it, and divided by their number from the second on.
func cTimeout(timeoutMS, index, n int64) int64 {
	if index == 0 {
		return timeoutMS
	}
	return max(timeoutMS/1000<<index/n, 1) * 1000
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
