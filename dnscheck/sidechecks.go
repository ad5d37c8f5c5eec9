package dnscheck

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// maxSideChecks bounds the questions that only explain: those that no runtime asks.
const maxSideChecks = 64

const notAnswered = "not answered before this check ended"

// sideChecks are the questions that explain an outcome, and their answers. They never change what
// the runtime is said to get.
type sideChecks struct {
	open, asked int

	tcp       []*Exchange // per nameserver: over TCP, after a timeout over UDP
	unchecked []*Exchange // per nameserver: with CheckingDisabled, after SERVFAIL
	upstreams []ServerReport
	platform  *ServerReport
	following bool
	chain     []string           // CNAMEs found link by link after SERVFAIL
	wildcard  [families]Exchange // a label that nobody uses below the search domain
}

// askSide asks whatever would explain the outcome so far, each question once.
func (l *lookup) askSide(ctx context.Context) {
	if l.side.tcp == nil {
		l.side.tcp = make([]*Exchange, len(l.settings.Nameservers))
		l.side.unchecked = make([]*Exchange, len(l.settings.Nameservers))
		l.side.upstreams = make([]ServerReport, len(l.settings.Behind))
		for i, b := range l.settings.Behind {
			l.side.upstreams[i] = ServerReport{Server: b.Server, Link: b.Link}
			l.both(ctx, "udp", fqdn(l.name), &l.side.upstreams[i])
		}
	}
	for i, server := range l.settings.Nameservers {
		for _, r := range l.rounds {
			for f := range families {
				l.explain(ctx, i, server, r, f)
			}
		}
		if e := l.side.unchecked[i]; e != nil && !l.side.following && e.servFailed() && len(e.Answer.CNAMEs) == 0 {
			l.side.following = true
			l.followChain(ctx, server, fqdn(l.name))
		}
	}
	l.askSearched(ctx)
	l.askPlatform(ctx)
}

// explain asks a nameserver that failed once more in another way.
func (l *lookup) explain(ctx context.Context, i int, server netip.AddrPort, r *round, f family) {
	o := &r.seen[i][f]
	q := Question{Name: r.name, Type: f.String()}
	quiet := !o.settled && time.Since(r.started) >= searchPatience || o.settled && o.Answer == nil && o.kind == kindMoveOn
	if quiet && l.network() == "udp" && l.side.tcp[i] == nil {
		// A timeout over UDP alone is a filter, not a dead server.
		l.side.tcp[i] = l.into(ctx, server, "tcp", q)
	}
	if o.settled && o.servFailed() && l.side.unchecked[i] == nil {
		if a := &r.seen[i][famA]; !a.settled || a.servFailed() {
			q.Type = famA.String() // whichever failed first: an address says more
		}
		q.CheckingDisabled = true
		l.side.unchecked[i] = l.into(ctx, server, o.Network, q)
	}
}

// into asks and returns where the outcome will stand.
func (l *lookup) into(ctx context.Context, server netip.AddrPort, network string, q Question) *Exchange {
	e := &Exchange{Network: network, Error: notAnswered}
	l.askExtra(ctx, server, network, q, func(o observation) { *e = o.Exchange })
	return e
}

// both asks for the addresses of both families.
func (l *lookup) both(ctx context.Context, network, name string, s *ServerReport) {
	l.askExtra(ctx, s.Server, network, Question{Name: name, Type: "A"}, func(o observation) { s.A = o.Exchange })
	l.askExtra(ctx, s.Server, network, Question{Name: name, Type: "AAAA"}, func(o observation) { s.AAAA = o.Exchange })
}

func (l *lookup) askExtra(ctx context.Context, server netip.AddrPort, network string, q Question, keep func(observation)) {
	if l.side.asked == maxSideChecks {
		return
	}
	l.side.asked++
	l.side.open++
	go func() {
		o := l.ask(ctx, server, network, q)
		if !o.settled && o.Error == "" {
			o.Error = notAnswered
		}
		l.events <- event{observation: o, side: true, keep: keep}
	}()
}

// askPlatform asks Azure's platform resolver for a name of Azure's private link that does not come
// out private.
func (l *lookup) askPlatform(ctx context.Context) {
	d := l.decide(false)
	if !d.decided || l.side.platform != nil || slices.ContainsFunc(l.settings.Nameservers, func(n netip.AddrPort) bool { return n.Addr() == azurePlatform }) {
		return
	}
	azure := isAzureLink(l.name)
	for _, o := range l.rounds[d.round].seen[d.server()] {
		if slices.ContainsFunc(o.addresses(), isPrivate) {
			return
		}
		azure = azure || isAzureLink(privateLinkOf(l.name, o.Answer))
	}
	if azure {
		l.side.platform = &ServerReport{Server: netip.AddrPortFrom(azurePlatform, dnsPort)}
		l.both(ctx, "udp", fqdn(l.name), l.side.platform)
	}
}

// followChain follows the CNAMEs of name link by link: a resolver that runs into a loop or a dead
// end answers SERVFAIL for the whole.
func (l *lookup) followChain(ctx context.Context, server netip.AddrPort, name string) {
	l.askExtra(ctx, server, l.network(), Question{Name: name, Type: "CNAME"}, func(o observation) {
		if o.Answer == nil || len(o.Answer.CNAMEs) == 0 {
			return
		}
		next := o.Answer.CNAMEs[0]
		l.side.chain = append(l.side.chain, next)
		if loopOf(l.name, l.side.chain) == "" && len(l.side.chain) < maxCNAMEs && checkDomain(next) == nil {
			l.followChain(ctx, server, fqdn(next))
		}
	})
}

// askSearched compares the answer of a search domain with that to the name itself, and with what
// the domain says to a name that nobody can have registered.
func (l *lookup) askSearched(ctx context.Context) {
	if l.searched != "" || !strings.Contains(strings.TrimSuffix(l.name, "."), ".") {
		return
	}
	d := l.best()
	suffix, ok := strings.CutPrefix(l.rounds[d.round].name, fqdn(l.name))
	if d.kind() != kindAddresses || !ok || suffix == "" {
		return
	}
	l.searched = suffix
	server := l.settings.Nameservers[d.server()]
	if l.fullName() == nil {
		l.absolute = &NameReport{Name: fqdn(l.name), Servers: []ServerReport{{Server: server}}}
		l.both(ctx, l.network(), fqdn(l.name), &l.absolute.Servers[0])
	}
	if label := fmt.Sprintf("pullwalk-%012x.%s", rand.Uint64()>>16, suffix); len(label) <= maxFQDN {
		for f := range families {
			l.askExtra(ctx, server, l.network(), Question{Name: label, Type: f.String()}, func(o observation) { l.side.wildcard[f] = o.Exchange })
		}
	}
}

// refine names the causes more exactly by the side checks.
func (l *lookup) refine() {
	for _, r := range l.rounds {
		for s := range r.seen {
			denied := 0
			for f := range families {
				o := &r.seen[s][f]
				if o.kind.denies() && privateLinkOf(r.name, o.Answer) != "" {
					denied++
				}
				if !o.settled || !o.servFailed() || o.Cause != classify.DNSServFail {
					continue
				}
				switch {
				case loopOf(l.name, l.side.chain) != "":
					o.Cause = classify.DNSCNAMELoop
				case l.dnssecFailed(s, o.Answer):
					o.Cause = classify.DNSDNSSECFailed
				}
			}
			if denied == int(families) {
				// An empty zone denies both; a missing AAAA beside an A is ordinary.
				r.seen[s][famA].Cause, r.seen[s][famAAAA].Cause = classify.DNSPrivateZoneEmpty, classify.DNSPrivateZoneEmpty
			}
		}
	}
}

// dnssecFailed reports whether SERVFAIL comes from DNSSEC: the server says so itself, or it answers
// once it is told not to check.
func (l *lookup) dnssecFailed(server int, a *Answer) bool {
	for _, e := range a.Extended {
		if 5 <= e.Code && e.Code <= 12 { // RFC 8914 sections 4.6 to 4.13
			return true
		}
	}
	if l.side.unchecked == nil {
		return false // everything came when the check had ended
	}
	e := l.side.unchecked[server]
	return e != nil && e.Answer != nil && !e.Answer.Lame && (e.Answer.RCode == rcodeOK || e.Answer.RCode == rcodeNXDomain)
}

// report adds the side checks to r. Not before run is through: until then they change.
func (s *sideChecks) report(r *Report, p *replay) {
	for i := range r.Servers {
		if s.tcp != nil {
			r.Servers[i].TCP, r.Servers[i].Unchecked = s.tcp[i], s.unchecked[i]
		}
	}
	if p.absolute != nil {
		r.Also = append(r.Also, *p.absolute)
	}
	r.Behind, r.Chain, r.Platform = s.upstreams, s.chain, s.platform
	var found []netip.Addr
	for f := range families {
		if a := s.wildcard[f].Answer; a != nil && a.RCode == rcodeOK {
			found = append(found, a.Addresses...)
		}
	}
	if len(found) > 0 {
		r.Wildcard = &Wildcard{Domain: trimDot(p.searched), Addresses: found}
	}
}
