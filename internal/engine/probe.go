package engine

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// probeKey is all that the steps up to tls depend on. Whoever needs the same has the
// same probe, whichever image or role leads there. It may hold a proxy's password and is
// never printed.
type probeKey struct {
	scheme, host string
	port         uint16
	tls          string // tlsSettings.key
	own          bool   // where the node's settings say that credentials come from, see [pull.Run.Find]
	via          *probe // the proxy's
	proxy        string
	unknown      string
}

// probe looks at one scheme, host and port, up to tls. It runs once in a call; the steps
// that need it wait on ready.
type probe struct {
	call *call
	pull.Target
	tls  *tlsSettings
	seen *tlsauth.Seen
	route

	ready chan struct{} // closed when an address is through, or when none will be
	done  chan struct{} // closed when every attempt has ended, and what is judged beside

	// The following are written before ready or done is closed, and read after.
	through   *attempt // the first that held all the way
	blockedBy string   // the first failure, when none is through

	pool   registry.Pool
	beside sync.WaitGroup
	key    probeKey
	giveUp context.CancelFunc // ends the probe

	mu     sync.Mutex
	taken  []pull.Step // the steps that have ended
	joined []*way      // whose steps they are
	asked  map[common]*question
}

func (s *source) newProbe(t pull.Target, r route) *probe {
	c := s.image.call
	p := &probe{call: c, Target: t, tls: s.settings(t), seen: &s.image.group.seen, route: r, ready: make(chan struct{}), done: make(chan struct{})}
	p.pool = registry.Pool{Dial: p.dial, Header: c.opts.Limits.Header, Idle: c.opts.Limits.Idle}
	if p.forwarded() {
		p.pool.Proxy = p.proxy
	}
	return p
}

// join puts w on its probe, and begins that with run if nobody did.
func (s *source) join(ctx context.Context, w *way, r route, run func(*probe, context.Context)) {
	t := w.host.Target
	key := probeKey{scheme: t.Scheme, host: t.Host, port: t.Port, tls: s.settings(t).key, own: t.Role == registry.RoleCredential, via: r.via, unknown: r.unknown}
	if r.proxy != nil {
		key.proxy = r.proxy.String()
	}
	c := s.image.call
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.probes[key]
	begin := p == nil
	if begin {
		p = s.newProbe(t, r)
		p.key = key
		ctx, p.giveUp = context.WithCancel(ctx)
		c.probes[key] = p
		c.begun = append(c.begun, p)
	}
	w.probe = p
	if p.via != nil {
		w.host.Through(p.via.HostPort(), p.forwarded())
	}
	p.join(w)
	if begin {
		go func() {
			defer p.giveUp()
			run(p, ctx)
		}()
	}
}

// join gives w the steps that have been taken, and every later one.
func (p *probe) join(w *way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined = append(p.joined, w)
	for _, st := range p.taken {
		w.host.Keep(st)
	}
}

// part gives w no more steps. A probe that nobody else is on goes no further, and who
// needs it later begins anew. It reports false if the probe has come to its end.
func (p *probe) part(w *way) bool {
	p.call.mu.Lock()
	defer p.call.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return false
	default:
	}
	p.joined = slices.DeleteFunc(p.joined, func(o *way) bool { return o == w })
	if len(p.joined) == 0 {
		delete(p.call.probes, p.key)
		p.giveUp()
	}
	return true
}

// record keeps a finished step for everyone on the probe.
func (p *probe) record(s pull.Step, index int) pull.Step {
	at := p.place()
	s = p.call.observe(at.Complete(s, index))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = append(p.taken, s)
	for _, w := range p.joined {
		w.host.Keep(s)
	}
	return judge.Step(at, s)
}

func (p *probe) place() pull.Endpoint {
	at := pull.Endpoint{Scheme: p.Scheme, Host: p.Host, Port: p.Port, Forwarded: p.forwarded()}
	if p.via != nil {
		at.Via = p.via.HostPort()
	}
	return at
}

// silent reports whether a step was given up because nothing came.
func (p *probe) silent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.taken, func(s pull.Step) bool {
		waited := time.Duration(s.ElapsedMS) * time.Millisecond
		return !pull.Passes(s.Status) && (pull.GaveUp(s) || s.ID == pull.StepDNS && waited >= p.call.opts.Limits.DNS)
	})
}

// stages are the steps that each address takes.
func (p *probe) stages() []pull.StepID {
	ids := []pull.StepID{pull.StepRoute, pull.StepConnect}
	if p.proxy != nil {
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
func (p *probe) run(ctx context.Context) {
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
		for _, id := range p.stages() {
			p.record(pull.Step{ID: id, Status: pull.StatusBlocked, BlockedBy: found.blocked}, 0)
		}
		p.blockedBy = found.blocked
		close(p.ready)
		return
	}
	for _, id := range p.stages() {
		if p.proxy == nil { // a tunnel is of no address
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
func (p *probe) routeToNameserver(ctx context.Context) {
	addr, err := netip.ParseAddr(p.Host)
	if err != nil {
		return
	}
	a := &attempt{probe: p, addr: addr.WithZone("")}
	out := p.timed(ctx, pull.Step{ID: pull.StepRoute, Addr: a.addr}, func(ctx context.Context, _ *watch) outcome { return outcomeOf(a.lookup(ctx)) })
	out.Addr = a.addr
	p.record(out.Step, 0)
}

// attempts are the work on the addresses of one probe.
type attempts struct {
	probe *probe
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
func (p *probe) addresses(ctx context.Context, early chan<- []netip.Addr) lookup {
	if p.unknown != "" {
		p.record(pull.Step{ID: pull.StepTunnel, Status: pull.StatusInconclusive, Reason: p.unknown}, 0)
		return lookup{blocked: pull.StepName(pull.StepTunnel, p.HostPort(), netip.Addr{})}
	}
	if p.proxy != nil {
		return p.proxied(ctx)
	}
	if addr, err := netip.ParseAddr(p.Host); err == nil {
		p.record(pull.Step{ID: pull.StepDNS, Status: pull.StatusSkipped, Reason: "the host is an address"}, 0)
		return lookup{addrs: []netip.Addr{addr}}
	}
	lookUp := func(ctx context.Context, decided func(*dnscheck.Report)) outcome {
		check := *p.call.dns
		check.OnDecided = decided
		rep, err := check.Check(ctx, p.Host)
		if err != nil {
			return outcomeOf(questionFailed(pull.Step{ID: pull.StepDNS}, err))
		}
		return outcomeOf(pull.StatusOf(pull.Step{ID: pull.StepDNS, Report: rep}, rep.Held(), rep.Inconclusive, rep.Findings()))
	}
	more := p.again(ctx, func(ctx context.Context) outcome { return lookUp(ctx, nil) })
	out := p.timed(ctx, pull.Step{ID: pull.StepDNS}, func(ctx context.Context, _ *watch) outcome {
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
func (p *probe) proxied(ctx context.Context) lookup {
	for _, id := range []pull.StepID{pull.StepDNS, pull.StepRoute, pull.StepConnect} {
		p.record(pull.Step{ID: id, Status: pull.StatusSkipped, Reason: "through proxy " + p.via.HostPort()}, 0)
	}
	p.beside.Go(func() { p.judgeNoProxy(ctx) })
	select {
	case <-p.via.ready:
	case <-ctx.Done():
		return lookup{blocked: pull.StepName(pull.StepConnect, p.via.HostPort(), netip.Addr{})}
	}
	if p.via.blockedBy != "" {
		return lookup{blocked: p.via.blockedBy}
	}
	return lookup{addrs: []netip.Addr{{}}}
}

// firstBlock names the first failure of the attempts: one that was seen to fail before
// one that is only unknown.
func firstBlock(list []*attempt) string {
	for _, want := range []pull.Status{pull.StatusFailed, pull.StatusInconclusive} {
		for _, a := range list {
			for _, id := range a.probe.stages() {
				if a.steps[id].Status == want {
					return pull.StepName(id, a.probe.HostPort(), a.addr)
				}
			}
		}
	}
	return list[0].blockedBy
}
