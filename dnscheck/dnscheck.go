package dnscheck

import (
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// defaultLimit is the time that Go's resolver gives a single exchange, so that a nameserver found
// silent here is silent for the runtime too.
const defaultLimit = 5 * time.Second

// Checker looks names up as this node's runtime would. The zero value looks at this machine and
// asks over the network. It may be used by several goroutines.
type Checker struct {
	// FS is the node's file tree, its root the node's. nil = this machine, first in the mount
	// namespace of its runtime, see [SourcesAt]; where resolver settings are not kept in files
	// (Windows) the report is then inconclusive.
	FS fs.FS
	// Sources are the trees to look into, the nearest to the runtime first; the first that can be
	// read counts. Empty = FS alone.
	Sources []Source
	// Exchanger asks the nameservers. nil = [Network].
	Exchanger Exchanger
	// Limit bounds the whole check. 0 or less = 5 s, which is the time that Go's resolver gives a
	// single exchange.
	Limit time.Duration
	// Expect are the networks in which the addresses are expected, such as those of the private
	// endpoints. An address elsewhere is dns.public-answer, a warning. A loopback address inside
	// is not remarked as the mark of a filtering resolver. Empty = no expectation.
	Expect []netip.Prefix
	// OnDecided is called at most once per check, from its goroutine, when it is known what the
	// runtime gets while other nameservers are still being listened to: when the rules have
	// decided, or when a nameserver has answered with addresses and those before it have been
	// silent for half a second. The report is what was seen until then, without findings, and says
	// so in Inconclusive. It must return soon. The report that Check returns is the final one; in
	// rare cases (a very slow first nameserver that says something else) it differs. nil = not
	// called.
	OnDecided func(early *Report)
}

// Check looks name up. The name is a host name without port; an IP address is reported as it is and
// nothing is asked.
//
// The error is for a name that cannot be asked for. Failures of nameservers and files are in the
// report. When ctx ends first, the report is inconclusive and holds what was seen.
func (c *Checker) Check(ctx context.Context, name string) (*Report, error) {
	start := time.Now()
	r := &Report{Name: name}
	if addr, err := netip.ParseAddr(name); err == nil {
		r.Literal, r.From, r.Addresses = true, fromLiteral, []netip.Addr{addr}
		j := judge{report: r}
		j.unusableAddresses()
		r.findings = j.all
		return r, nil
	}
	if err := checkName(name); err != nil {
		return nil, err
	}

	limit := c.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	if routes6, ok := c.readFiles(limited, r); ok {
		l := c.lookup(r, limit)
		if c.OnDecided != nil {
			l.decided = func() { c.OnDecided(l.early(r, start)) }
		}
		l.run(limited)
		l.refine()
		d := l.decide(false)
		l.report(r, d)
		l.side.report(r, &l.replay)
		r.CLibrary = l.cLibrary(r, d)
		r.Hints = hintsFor(r.Settings.Nameservers, r.Name, r.Addresses)
		r.findings = (&judge{report: r, seen: &l.replay, decided: d, expect: c.Expect, routes6: routes6}).findings()
	}
	r.ElapsedMS = time.Since(start).Milliseconds()
	return r, nil
}

// readFiles fills in what the node's files say and reports whether there is a nameserver to ask. A
// file system may hang (a dead network mount), so that the reading is waited for only as long as
// ctx lives.
func (c *Checker) readFiles(ctx context.Context, r *Report) (routes6 []byte, ok bool) {
	done := make(chan Settings, 1)
	go func() {
		sources := c.Sources
		switch {
		case len(sources) > 0:
		case c.FS != nil:
			sources = []Source{{FS: c.FS}}
		default:
			sources = SourcesAt("")
		}
		done <- readSettings(sources, maxHostsMatches, named(r.Name))
	}()
	select {
	case r.Settings = <-done:
	case <-ctx.Done():
		r.Inconclusive = "the node's resolver files were not read in time: " + classify.Redact(context.Cause(ctx).Error(), maxErrorText)
		return nil, false
	}
	r.Hosts, routes6 = r.Settings.Hosts, r.Settings.routes6
	r.Settings.Hosts, r.Settings.routes6 = nil, nil
	if r.Settings.unknown != "" {
		r.Inconclusive = "the runtime's nameservers are not known: " + r.Settings.unknown
		return nil, false
	}
	return routes6, true
}

func (c *Checker) lookup(r *Report, limit time.Duration) *lookup {
	// A copy: an Exchanger that does not heed its context may still read it when the report already
	// belongs to the caller.
	settings := r.Settings
	l := &lookup{
		replay:    replay{name: r.Name, settings: &settings},
		asker:     asker{host: r.Name, exchanger: c.Exchanger, timeout: ms(settings.TimeoutMS), limit: limit},
		names:     searchNames(r.Name, &settings),
		fromHosts: settings.HostsFirst && len(r.Hosts) > 0,
	}
	if l.exchanger == nil {
		l.exchanger = Network{}
	}
	return l
}

// early is what can be said before all is answered.
func (l *lookup) early(r *Report, start time.Time) *Report {
	early := &Report{Name: r.Name, Settings: r.Settings, Hosts: slices.Clone(r.Hosts)}
	l.report(early, l.best())
	early.Inconclusive = fmt.Sprintf("what the runtime gets is decided; %d more answers are waited for", l.open)
	early.ElapsedMS = time.Since(start).Milliseconds()
	return early
}

// report puts what was seen, and what the runtime makes of it by d, into r.
func (l *lookup) report(r *Report, d decision) {
	for i, round := range l.rounds {
		n := NameReport{Name: round.name}
		for s, server := range l.settings.Nameservers {
			n.Servers = append(n.Servers, ServerReport{Server: server, A: round.seen[s][famA].Exchange, AAAA: round.seen[s][famAAAA].Exchange})
		}
		if i == d.round {
			r.Asked, r.Servers = n.Name, n.Servers
		} else {
			r.Also = append(r.Also, n)
		}
	}
	found := l.addresses(d)
	if len(found) == 0 && len(l.rounds) < len(l.names) {
		r.Unasked = slices.Clone(l.names[len(l.rounds):])
	}
	switch {
	case l.ended != nil:
		r.Inconclusive = "ended by the caller before every nameserver had answered: " + classify.Redact(l.ended.Error(), maxErrorText)
	case l.limitShort && !d.decided:
		r.Inconclusive = "the time of this check ended before " + trimDot(l.rounds[d.round].name) + " was answered"
	}

	var hosts []netip.Addr
	for _, e := range r.Hosts {
		if a := e.Address.Unmap(); !slices.Contains(hosts, a) {
			hosts = append(hosts, a)
		}
	}
	ipv4First(hosts)
	usesDNS := r.Settings.usesDNS()
	usesHosts := slices.Contains(r.Settings.Order, sourceFiles) && len(hosts) > 0
	switch {
	case usesHosts && r.Settings.HostsFirst:
		r.From, r.Addresses = fromHosts, hosts
	case usesDNS && len(found) > 0:
		r.From, r.Addresses = fromDNS, found
	case usesHosts && (d.decided || !usesDNS):
		r.From, r.Addresses = fromHosts, hosts
	}
	if usesDNS && d.decided && !(r.From == fromHosts && r.Settings.HostsFirst) {
		r.PredictedMS = d.waitMS
	}
	if usesDNS && r.From != fromHosts {
		r.Answered = l.answered(d)
	}
}
