package probe

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/notify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// Probe looks at one scheme, host and port, up to tls. It runs once for all who need the
// same; they wait until it is ready.
type Probe struct {
	by *Prober
	pull.Target
	tls  *TLS
	seen *tlsauth.Seen
	Route

	ready chan struct{} // closed when an address is through, or when none will be
	done  chan struct{} // closed when every attempt has ended, and what is judged beside

	// The following are written before ready or done is closed, and read after.
	through   *attempt // the first that held all the way
	blockedBy string   // the first failure, when none is through

	pool   registry.Pool
	beside sync.WaitGroup
	key    key
	giveUp context.CancelFunc // ends the probe

	mu     sync.Mutex
	taken  []pull.Step  // the steps that have ended
	joined []*pull.Host // whose steps they are
	asked  map[any]*question
}

// Ready is closed when it is known whether the host can be asked.
func (p *Probe) Ready() <-chan struct{} { return p.ready }

// Done is closed when no step comes any more.
func (p *Probe) Done() <-chan struct{} { return p.done }

// Open returns whether the host can be asked, or the step that stands in the way. It is
// called when Ready is closed.
func (p *Probe) Open() (ok bool, blockedBy string) { return p.through != nil, p.blockedBy }

// RoundTrip asks the host over the connections that were probed.
func (p *Probe) RoundTrip(req *http.Request) (*http.Response, error) { return p.pool.RoundTrip(req) }

// TLS are the settings that it was probed with.
func (p *Probe) TLS() *TLS { return p.tls }

// record keeps a finished step for everyone on the probe.
func (p *Probe) record(s pull.Step, index int) pull.Step {
	at := p.place()
	s = p.by.Observe(at.Complete(s, index))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = append(p.taken, s)
	for _, h := range p.joined {
		h.Keep(s)
	}
	return judge.Step(at, s)
}

func (p *Probe) place() pull.Endpoint {
	at := pull.Endpoint{Scheme: p.Scheme, Host: p.Host, Port: p.Port, Forwarded: p.forwarded()}
	if p.Via != nil {
		at.Via = p.Via.HostPort()
	}
	return at
}

// Silent reports whether a step was given up because nothing came.
func (p *Probe) Silent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.taken, func(s pull.Step) bool {
		waited := time.Duration(s.ElapsedMS) * time.Millisecond
		return !pull.Passes(s.Status) && (pull.GaveUp(s) || s.ID == pull.StepDNS && waited >= p.by.Limits.DNS)
	})
}

// Stages are the steps that each address takes.
func (p *Probe) Stages() []pull.StepID {
	ids := []pull.StepID{pull.StepRoute, pull.StepConnect}
	if p.Proxy != nil {
		ids = []pull.StepID{pull.StepTunnel}
	}
	if p.Scheme == "https" {
		ids = append(ids, pull.StepTLS)
	}
	return ids
}

// run takes the steps up to tls: dns once, then every address in an attempt of its own,
// all at once. The attempts start as soon as it is known what the runtime gets, although
// the dns step goes on listening to nameservers that are silent.
func (p *Probe) run(ctx context.Context) {
	defer close(p.done)
	defer p.beside.Wait()
	if p.Scheme == pull.SchemeDNS {
		close(p.ready)
		p.routeToNameserver(ctx)
		return
	}
	early := make(chan []netip.Addr, 1)
	looked := make(chan lookup, 1)
	go func() { looked <- p.addresses(ctx, early) }()

	a := &attempts{probe: p}
	var found lookup
	select {
	case addrs := <-early:
		a.start(ctx, addrs)
		found = <-looked
	case found = <-looked:
	}
	a.start(ctx, found.addrs)
	a.wait.Wait()
	if len(a.list) == 0 {
		for _, id := range p.Stages() {
			p.record(pull.Step{ID: id, Status: pull.StatusBlocked, BlockedBy: found.blocked}, 0)
		}
		p.blockedBy = found.blocked
		close(p.ready)
		return
	}
	for _, id := range p.Stages() {
		if p.Proxy == nil { // a tunnel is of no address
			p.record(pull.Step{ID: id, Sum: true}, 0)
		}
	}
	if p.through == nil {
		p.blockedBy = firstBlock(a.list)
		close(p.ready)
	}
}

// routeToNameserver is all that is probed of a nameserver: whether it answers is seen
// when it is asked for a name.
func (p *Probe) routeToNameserver(ctx context.Context) {
	addr, err := netip.ParseAddr(p.Host)
	if err != nil {
		return
	}
	a := &attempt{probe: p, addr: addr.WithZone("")}
	out := p.timed(ctx, pull.Step{ID: pull.StepRoute, Addr: a.addr}, func(ctx context.Context, _ *notify.Watch) outcome { return outcomeOf(a.lookup(ctx)) })
	out.Addr = a.addr
	p.record(out.Step, 0)
}

// attempts are the work on the addresses of one probe.
type attempts struct {
	probe *Probe
	list  []*attempt
	first sync.Once
	wait  sync.WaitGroup
}

// start takes the addresses that have no attempt yet. The first one that holds all the
// way lets the requests begin.
func (as *attempts) start(ctx context.Context, addrs []netip.Addr) {
	for _, addr := range addrs {
		if slices.ContainsFunc(as.list, func(a *attempt) bool { return a.addr == addr }) {
			continue
		}
		a := &attempt{probe: as.probe, addr: addr, index: len(as.list) + 1, steps: map[pull.StepID]pull.Step{}}
		as.list = append(as.list, a)
		as.wait.Go(func() {
			a.run(ctx)
			if a.blockedBy != "" {
				return
			}
			won := false
			as.first.Do(func() {
				won = true
				as.probe.through = a
				if a.spare != nil {
					as.probe.pool.Put(a.spare)
				}
				as.probe.pool.Put(a.conn) // asked for first
				close(as.probe.ready)
			})
			if !won {
				a.drop()
			}
		})
	}
}

// lookup is what the dns step leads to: addresses, or what stands in the way.
type lookup struct {
	addrs   []netip.Addr
	blocked string
}

// addresses is the dns step; early gets what the runtime gets as soon as that is known.
// Through a proxy the name is not ours to look up.
func (p *Probe) addresses(ctx context.Context, early chan<- []netip.Addr) lookup {
	if p.Unknown != "" {
		p.record(pull.Step{ID: pull.StepTunnel, Status: pull.StatusInconclusive, Reason: p.Unknown}, 0)
		return lookup{blocked: pull.StepName(pull.StepTunnel, p.HostPort(), netip.Addr{})}
	}
	if p.Proxy != nil {
		return p.proxied(ctx)
	}
	if addr, err := netip.ParseAddr(p.Host); err == nil {
		p.record(pull.Step{ID: pull.StepDNS, Status: pull.StatusSkipped, Reason: "the host is an address"}, 0)
		return lookup{addrs: []netip.Addr{addr}}
	}
	lookUp := func(ctx context.Context, decided func(*dnscheck.Report)) outcome {
		check := *p.by.dns
		check.OnDecided = decided
		rep, err := check.Check(ctx, p.Host)
		if err != nil {
			return outcomeOf(questionFailed(pull.Step{ID: pull.StepDNS}, err))
		}
		return outcomeOf(pull.StatusOf(pull.Step{ID: pull.StepDNS, Report: rep}, rep.Held(), rep.Inconclusive, rep.Findings()))
	}
	more := p.again(ctx, func(ctx context.Context) outcome { return lookUp(ctx, nil) })
	out := p.timed(ctx, pull.Step{ID: pull.StepDNS}, func(ctx context.Context, _ *notify.Watch) outcome {
		return lookUp(ctx, func(r *dnscheck.Report) { early <- r.Usable() })
	})
	out = p.lookups(out, more)
	s := p.record(out.Step, 0)
	if !pull.Passes(s.Status) {
		return lookup{blocked: pull.StepName(pull.StepDNS, p.HostPort(), netip.Addr{})}
	}
	return lookup{addrs: s.Report.(*dnscheck.Report).Usable()}
}

// proxied waits for the proxy instead.
func (p *Probe) proxied(ctx context.Context) lookup {
	for _, id := range []pull.StepID{pull.StepDNS, pull.StepRoute, pull.StepConnect} {
		p.record(pull.Step{ID: id, Status: pull.StatusSkipped, Reason: "through proxy " + p.Via.HostPort()}, 0)
	}
	p.beside.Go(func() { p.judgeNoProxy(ctx) })
	select {
	case <-p.Via.ready:
	case <-ctx.Done():
		return lookup{blocked: pull.StepName(pull.StepConnect, p.Via.HostPort(), netip.Addr{})}
	}
	if p.Via.blockedBy != "" {
		return lookup{blocked: p.Via.blockedBy}
	}
	return lookup{addrs: []netip.Addr{{}}}
}

// firstBlock names the first failure of the attempts: one that was seen to fail before
// one that is only unknown.
func firstBlock(list []*attempt) string {
	for _, want := range []pull.Status{pull.StatusFailed, pull.StatusInconclusive} {
		for _, a := range list {
			for _, id := range a.probe.Stages() {
				if a.steps[id].Status == want {
					return pull.StepName(id, a.probe.HostPort(), a.addr)
				}
			}
		}
	}
	return list[0].blockedBy
}
