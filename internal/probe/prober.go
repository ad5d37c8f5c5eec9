// Package probe looks at the way to a host: the name, the route to every address,
// the connections, TLS; behind a proxy the tunnel. Each way is probed once, whoever needs
// it, and what ends is recorded at every host of every pull that has joined.
package probe

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/node"
	"github.com/pullwalk/pullwalk/internal/notify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// Limits bound single steps.
type Limits struct{ DNS, Connect, TLS, Header, Idle time.Duration }

// Config says how to look. View, Limits and AllowAddr are needed.
type Config struct {
	View      *node.View
	Limits    Limits
	Hurried   bool // they are below what the runtimes would wait
	AllowAddr func(netip.AddrPort) error
	UserAgent string
	Expect    []netip.Prefix
	Rounds    int  // lookups and connects in all; 0 = one
	Complete  bool // whether a root is the node's alone is asked, for a proof
	Notify    *notify.Notifier
	Stalls    *Stalls
}

// Prober probes.
type Prober struct {
	Config
	dns   *dnscheck.Checker
	reach *reach.Checker

	mu     sync.Mutex
	probes map[key]*Probe // that others may join
	begun  []*Probe       // every one
}

// New returns a prober that has probed nothing.
func New(c Config) *Prober {
	v := c.View
	return &Prober{
		Config: c, probes: map[key]*Probe{},
		dns:   &dnscheck.Checker{FS: v.FS, Sources: v.ResolverFiles, Exchanger: v.DNS, Expect: c.Expect, Limit: c.Limits.DNS},
		reach: &reach.Checker{Router: v.Router, Dialer: v.Dialer, Limit: c.Limits.Connect, Pressure: v.FS},
	}
}

// TLS are the settings of a registry's own host entry: token server and blob hosts get
// the same, as in the runtimes.
type TLS struct {
	CA         []byte               // PEM that is trusted beside the node's roots
	Pairs      []tlsauth.ClientPair // client certificates
	SkipVerify bool
	By         string // what says so
	Key        string // equal for equal settings
}

// key is all that the steps up to tls depend on. Whoever needs the same has the same
// probe, whichever image or role leads there. It may hold a proxy's password and is never
// printed.
type key struct {
	scheme, host string
	port         uint16
	tls          string // TLS.Key
	own          bool   // where the node's settings say that credentials come from, see [pull.Run.Find]
	via          *Probe // the proxy's
	proxy        string
	unknown      string
}

// Join puts h on its probe, and begins that if nobody did. seen is what TLS checks learn
// from each other.
func (by *Prober) Join(ctx context.Context, h *pull.Host, r Route, tls *TLS, seen *tlsauth.Seen) *Probe {
	return by.join(ctx, h, r, tls, seen, (*Probe).run)
}

func (by *Prober) join(ctx context.Context, h *pull.Host, r Route, tls *TLS, seen *tlsauth.Seen, run func(*Probe, context.Context)) *Probe {
	t := h.Target
	k := key{scheme: t.Scheme, host: t.Host, port: t.Port, tls: tls.Key, own: t.Role == registry.RoleCredential, via: r.Via, unknown: r.Unknown}
	if r.Proxy != nil {
		k.proxy = r.Proxy.String()
	}
	by.mu.Lock()
	defer by.mu.Unlock()
	p := by.probes[k]
	begin := p == nil
	if begin {
		p = by.newProbe(t, r, tls, seen)
		p.key = k
		ctx, p.giveUp = context.WithCancel(ctx)
		by.probes[k] = p
		by.begun = append(by.begun, p)
	}
	if p.Via != nil {
		h.Through(p.Via.HostPort(), p.forwarded())
	}
	p.join(h)
	if begin {
		go func() {
			defer p.giveUp()
			run(p, ctx)
		}()
	}
	return p
}

func (by *Prober) newProbe(t pull.Target, r Route, tls *TLS, seen *tlsauth.Seen) *Probe {
	p := &Probe{by: by, Target: t, tls: tls, seen: seen, Route: r, ready: make(chan struct{}), done: make(chan struct{})}
	p.pool = registry.Pool{Dial: p.dial, Header: by.Limits.Header, Idle: by.Limits.Idle}
	if p.forwarded() {
		p.pool.Proxy = p.Proxy
	}
	return p
}

// join gives h the steps that have been taken, and every later one.
func (p *Probe) join(h *pull.Host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined = append(p.joined, h)
	for _, st := range p.taken {
		h.Keep(st)
	}
}

// Part gives h no more steps. A probe that nobody else is on goes no further, and who
// needs it later begins anew. It reports false if the probe has come to its end.
func (p *Probe) Part(h *pull.Host) bool {
	p.by.mu.Lock()
	defer p.by.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return false
	default:
	}
	p.joined = slices.DeleteFunc(p.joined, func(o *pull.Host) bool { return o == h })
	if len(p.joined) == 0 {
		delete(p.by.probes, p.key)
		p.giveUp()
	}
	return true
}

// Close drops the connections that wait for a next request, when no pull runs any more;
// a probe may that all have left.
func (by *Prober) Close() {
	for _, p := range by.begun {
		<-p.done
		p.pool.Close()
	}
}

// Observe says what may have disturbed a step, and what it depends on.
func (by *Prober) Observe(s pull.Step) pull.Step {
	s.Hurried, s.Panicked = by.Hurried, by.View.Panicked(s.ID)
	var longest time.Duration
	for _, f := range s.Findings {
		longest = max(longest, pull.Waited(f))
	}
	if longest > 0 { // a step is recorded some time after its end, when others have ended too
		s.Stalled = by.Stalls.longest(time.Now().Add(-time.Duration(s.ElapsedMS)*time.Millisecond - 2*longest))
	}
	return s
}
