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

// maxAside bounds the questions that only explain: what a runtime never asks.
const maxAside = 64

// aside are the questions that explain an outcome, and what came of them. They
// never change what the runtime is said to get.
type aside struct {
	open, asked int

	tcp     []*Exchange // per nameserver: the question over TCP, after silence over UDP
	cd      []*Exchange // per nameserver: with CheckingDisabled, after SERVFAIL
	behind  []ServerReport
	started bool // the questions to what is behind a stub are out

	platform *ServerReport
	chain    []string // aliases found one by one after SERVFAIL
	tracing  bool
	searched string // suffix of the search list that gave the answer
	absolute *NameReport
	wildcard [families]Exchange // what a label that nobody uses gets below searched
}

func (l *lookup) askAside(ctx context.Context, server netip.AddrPort, network string, q Question, keep func(observation)) {
	if l.aside.asked == maxAside {
		return
	}
	l.aside.asked++
	l.aside.open++
	go func() {
		o := l.ask(ctx, server, network, q)
		if !o.settled && o.Error == "" {
			o.Error = "not answered before this check ended"
		}
		l.events <- event{observation: o, keep: keep}
	}()
}

// drainAside waits for questions that were told to end.
func (l *lookup) drainAside() {
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	for l.aside.open > 0 {
		select {
		case ev := <-l.events:
			l.take(ev)
		case <-timer.C:
			return
		}
	}
}

// explain asks what would explain the outcome so far, each question once.
func (l *lookup) explain(ctx context.Context) {
	if l.aside.tcp == nil {
		l.aside.tcp = make([]*Exchange, len(l.settings.Nameservers))
		l.aside.cd = make([]*Exchange, len(l.settings.Nameservers))
	}
	l.askBehind(ctx)
	for i, server := range l.settings.Nameservers {
		for _, r := range l.rounds {
			for f := range families {
				o := &r.seen[i][f]
				q := Question{Name: r.name, Type: f.String()}
				quiet := !o.settled && time.Since(r.started) >= searchPatience ||
					o.settled && o.Answer == nil && o.kind == kindMoveOn
				if quiet && l.network() == "udp" && l.aside.tcp[i] == nil {
					// Silence over UDP alone is a filter, not a dead server.
					l.aside.tcp[i] = l.into(ctx, server, "tcp", q)
				}
				if servFailed(o) && l.aside.cd[i] == nil {
					if a := &r.seen[i][famA]; !a.settled || servFailed(a) {
						q.Type = famA.String() // whichever failed first: an address says more
					}
					q.CheckingDisabled = true
					l.aside.cd[i] = l.into(ctx, server, o.Network, q)
				}
			}
		}
		if cd := l.aside.cd[i]; cd != nil && !l.aside.tracing && cd.Answer != nil && cd.Answer.RCode == rcodeServFail && len(cd.Answer.CNAMEs) == 0 {
			l.aside.tracing = true
			l.trace(ctx, server, rooted(l.name))
		}
	}
	l.askSearched(ctx)
	l.askPlatform(ctx)
}

// askPlatform asks Azure's platform resolver of a name of Azure's private link
// that does not come out private.
func (l *lookup) askPlatform(ctx context.Context) {
	d := l.decide(false)
	if !d.decided || l.aside.platform != nil || slices.ContainsFunc(l.settings.Nameservers, func(n netip.AddrPort) bool { return n.Addr() == azurePlatform }) {
		return
	}
	azure := false
	for _, o := range l.rounds[d.round].seen[d.server()] {
		if slices.ContainsFunc(o.addresses(), isPrivate) {
			return
		}
		azure = azure || isAzureLink(privateLinkOf(l.name, o.Answer))
	}
	if !azure && !isAzureLink(l.name) {
		return
	}
	server := netip.AddrPortFrom(azurePlatform, dnsPort)
	p := &ServerReport{Server: server}
	l.aside.platform = p
	l.askAside(ctx, server, "udp", Question{Name: rooted(l.name), Type: "A"}, func(o observation) { p.A = o.Exchange })
	l.askAside(ctx, server, "udp", Question{Name: rooted(l.name), Type: "AAAA"}, func(o observation) { p.AAAA = o.Exchange })
}

// isAzureLink says that a name can have a private endpoint of Azure's: it lies in
// a private-link zone, or is a registry's.
func isAzureLink(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	for _, domain := range []string{"azurecr.io", "azurecr.cn", "azurecr.us"} {
		if _, ok := below(name, domain); ok {
			return true
		}
	}
	return strings.Contains(name, "."+privateLinkLabel+".") && (strings.HasSuffix(name, ".windows.net") || strings.HasSuffix(name, ".azure.com"))
}

// into asks aside and returns where the outcome will stand.
func (l *lookup) into(ctx context.Context, server netip.AddrPort, network string, q Question) *Exchange {
	e := &Exchange{Network: network, Error: "not answered before this check ended"}
	l.askAside(ctx, server, network, q, func(o observation) { *e = o.Exchange })
	return e
}

func servFailed(o *observation) bool {
	return o.settled && o.Answer != nil && o.Answer.RCode == rcodeServFail
}

// askBehind asks what a local stub forwards to.
func (l *lookup) askBehind(ctx context.Context) {
	if l.aside.started {
		return
	}
	l.aside.started = true
	l.aside.behind = make([]ServerReport, len(l.settings.Behind))
	for i, b := range l.settings.Behind {
		r := &l.aside.behind[i]
		r.Server, r.Link = b.Server, b.Link
		l.askAside(ctx, b.Server, "udp", Question{Name: rooted(l.name), Type: "A"}, func(o observation) { r.A = o.Exchange })
		l.askAside(ctx, b.Server, "udp", Question{Name: rooted(l.name), Type: "AAAA"}, func(o observation) { r.AAAA = o.Exchange })
	}
}

// trace follows the aliases of name one by one: a resolver that runs into a loop
// or a dead end answers SERVFAIL for the whole.
func (l *lookup) trace(ctx context.Context, server netip.AddrPort, name string) {
	l.askAside(ctx, server, l.network(), Question{Name: name, Type: "CNAME"}, func(o observation) {
		if o.Answer == nil || len(o.Answer.CNAMEs) == 0 {
			return
		}
		next := o.Answer.CNAMEs[0]
		l.aside.chain = append(l.aside.chain, next)
		if loopOf(l.name, l.aside.chain) == "" && len(l.aside.chain) < maxCNAMEs && checkDomain(next) == nil {
			l.trace(ctx, server, rooted(next))
		}
	})
}

// askSearched compares the answer of a search domain with what the name itself
// gets, and with what the domain says to a name that nobody can have registered.
func (l *lookup) askSearched(ctx context.Context) {
	if l.aside.searched != "" || !strings.Contains(strings.TrimSuffix(l.name, "."), ".") {
		return
	}
	d := l.decide(false)
	if !d.decided {
		d = l.decide(true)
	}
	asked := l.rounds[d.round].name
	suffix, ok := strings.CutPrefix(asked, rooted(l.name))
	if d.kind() != kindAddresses || !ok || suffix == "" {
		return
	}
	l.aside.searched = suffix
	server := l.settings.Nameservers[d.server()]
	if !l.wasAsked(rooted(l.name)) {
		n := &NameReport{Name: rooted(l.name), Servers: []ServerReport{{Server: server}}}
		l.aside.absolute = n
		l.askAside(ctx, server, l.network(), Question{Name: n.Name, Type: "A"}, func(o observation) { n.Servers[0].A = o.Exchange })
		l.askAside(ctx, server, l.network(), Question{Name: n.Name, Type: "AAAA"}, func(o observation) { n.Servers[0].AAAA = o.Exchange })
	}
	if label := fmt.Sprintf("pullwalk-%012x.%s", rand.Uint64()>>16, suffix); len(label) <= maxRooted {
		for f := range families {
			l.askAside(ctx, server, l.network(), Question{Name: label, Type: f.String()}, func(o observation) { l.aside.wildcard[f] = o.Exchange })
		}
	}
}

func (l *lookup) wasAsked(name string) bool {
	for _, r := range l.rounds {
		if r.name == name {
			return true
		}
	}
	return false
}

// refine names the causes more exactly by what was learned aside.
func (l *lookup) refine() {
	for _, r := range l.rounds {
		for s := range r.seen {
			denied := 0
			for f := range families {
				o := &r.seen[s][f]
				if (o.kind == kindNXDomain || o.kind == kindNoData) && privateLinkOf(r.name, o.Answer) != "" {
					denied++
				}
				if !servFailed(o) || o.Cause != classify.DNSServFail {
					continue
				}
				switch {
				case loopOf(l.name, l.aside.chain) != "":
					o.Cause = classify.DNSCNAMELoop
				case l.checkFailed(s, o.Answer):
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

// checkFailed says that it was DNSSEC: the server says so itself, or it answers
// once it is told not to check.
func (l *lookup) checkFailed(server int, a *Answer) bool {
	for _, e := range a.Extended {
		if 5 <= e.Code && e.Code <= 12 { // RFC 8914 sections 4.6 to 4.13
			return true
		}
	}
	cd := l.aside.cd[server]
	return cd != nil && cd.Answer != nil && !cd.Answer.Lame && (cd.Answer.RCode == rcodeOK || cd.Answer.RCode == rcodeNXDomain)
}

// loopOf returns the name to which a chain of aliases comes back; "" = to none.
func loopOf(name string, chain []string) string {
	seen := []string{strings.ToLower(unrooted(name))}
	for _, c := range chain {
		c = strings.ToLower(unrooted(c))
		for _, s := range seen {
			if s == c {
				return c
			}
		}
		seen = append(seen, c)
	}
	return ""
}
