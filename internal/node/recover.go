package node

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// The seams through which code of the caller is called.
const (
	seamFS       = "file tree"
	seamRouter   = "router"
	seamDialer   = "dialer"
	seamDNS      = "DNS exchanger"
	seamClock    = "clock"
	seamProxy    = "proxy function"
	seamAllow    = "address check"
	seamKeychain = "keychain"
)

// guard stands between the probes and the caller's own code. Probes run in many
// goroutines, where a panic would end the whole process, and one diagnosis of
// many must not do that: it becomes an error of that call and a finding. What
// returned values do later (a connection, an entry of a directory) is not guarded.
type guard struct {
	mu   sync.Mutex
	seen []panicked // the first of each seam
}

// panicked is the error in the place of a panic.
type panicked struct{ seam, value string }

func (p panicked) Error() string { return "the caller's " + p.seam + " panicked: " + p.value }

// caught is deferred around a call of the caller's code.
func (g *guard) caught(seam string, err *error) {
	if v := recover(); v != nil {
		*err = g.keep(seam, v)
	}
}

func (g *guard) keep(seam string, value any) error {
	p := panicked{seam, cmp.Or(classify.Redact(fmt.Sprint(value), 200), "without a word")}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.ContainsFunc(g.seen, func(have panicked) bool { return have.seam == seam }) {
		g.seen = append(g.seen, p)
	}
	return p
}

// Panicked is the panic of the caller's code that a step depends on; "" = there was
// none.
func (v *View) Panicked(id pull.StepID) string {
	g, seam := v.guard, ""
	switch id {
	case pull.StepDNS:
		seam = seamDNS
	case pull.StepRoute:
		seam = seamRouter
	case pull.StepConnect, pull.StepTunnel, pull.StepTLS:
		seam = seamDialer
	}
	if g == nil || seam == "" {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.seen {
		if p.seam == seam {
			return p.Error()
		}
	}
	return ""
}

// Panics are findings about the caller's code that panicked, in words and sorted; nil =
// none did.
func (v *View) Panics() []classify.Finding {
	if v.guard == nil {
		return nil
	}
	v.guard.mu.Lock()
	seen := slices.Clone(v.guard.seen)
	v.guard.mu.Unlock()
	slices.SortFunc(seen, func(a, b panicked) int { return cmp.Compare(a.seam, b.seam) })
	var findings []classify.Finding
	for _, p := range seen {
		f := classify.New(classify.NodeViewFailed, p.Error())
		f.Severity = classify.SeverityWarn
		findings = append(findings, f)
	}
	return findings
}

// node guards every seam that the caller filled in.
func (g *guard) node(n Node) Node {
	if n.FS != nil {
		n.FS = guardedFS{n.FS, g}
	}
	if n.Router != nil {
		inner := n.Router
		n.Router = reach.RouterFunc(func(ctx context.Context, dst netip.Addr) (r reach.Route, err error) {
			defer g.caught(seamRouter, &err)
			return inner.RouteTo(ctx, dst)
		})
	}
	if n.DNS != nil {
		inner := n.DNS
		n.DNS = dnscheck.ExchangerFunc(func(ctx context.Context, server netip.AddrPort, network string, q dnscheck.Question) (a dnscheck.Answer, err error) {
			defer g.caught(seamDNS, &err)
			return inner.Exchange(ctx, server, network, q)
		})
	}
	if n.Now != nil {
		inner := n.Now
		n.Now = func() (t time.Time) {
			var err error
			defer func() {
				if err != nil {
					t = time.Now()
				}
			}()
			defer g.caught(seamClock, &err)
			return inner()
		}
	}
	if n.Proxy != nil {
		inner := n.Proxy
		n.Proxy = func(u *url.URL) (p *url.URL, err error) {
			defer g.caught(seamProxy, &err)
			return inner(u)
		}
	}
	n.Dialer = g.dialer(n.Dialer)
	return n
}

// dialer leaves the system's own sockets as they are: reach looks into them.
func (g *guard) dialer(d reach.Dialer) reach.Dialer {
	switch d := d.(type) {
	case nil, reach.System, *reach.System, *net.Dialer:
		return d
	case segmentDialer:
		return guardedSegments{guardedDialer{d.(reach.Dialer), g}, d}
	}
	return guardedDialer{d, g}
}

type guardedDialer struct {
	inner reach.Dialer
	g     *guard
}

func (d guardedDialer) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	defer d.g.caught(seamDialer, &err)
	return d.inner.DialContext(ctx, network, address)
}

type guardedSegments struct {
	guardedDialer
	segments segmentDialer
}

func (d guardedSegments) DialSegment(ctx context.Context, network, address string, mss int) (conn net.Conn, err error) {
	defer d.g.caught(seamDialer, &err)
	return d.segments.DialSegment(ctx, network, address, mss)
}

// Allow contains the caller's address check.
func (v *View) Allow(inner func(netip.AddrPort) error) func(netip.AddrPort) error {
	return func(ap netip.AddrPort) (err error) {
		defer v.guard.caught(seamAllow, &err)
		return inner(ap)
	}
}

// Keychain contains the caller's keychain. It leaves those of this module as they are: more is asked of them.
func (v *View) Keychain(k authn.Keychain) authn.Keychain {
	if _, plans := k.(Planner); k == nil || plans {
		return k
	}
	if _, own := k.(*tlsauth.Keychain); own {
		return k
	}
	guarded := guardedKeychain{k, v.guard}
	if lister, ok := k.(tlsauth.CredentialLister); ok {
		return guardedLister{guarded, lister}
	}
	return guarded
}

type guardedKeychain struct {
	inner authn.Keychain
	g     *guard
}

func (k guardedKeychain) Resolve(r authn.Resource) (a authn.Authenticator, err error) {
	defer k.g.caught(seamKeychain, &err)
	return k.inner.Resolve(r)
}

// ResolveContext hands the context on to a keychain that takes one.
func (k guardedKeychain) ResolveContext(ctx context.Context, r authn.Resource) (a authn.Authenticator, err error) {
	defer k.g.caught(seamKeychain, &err)
	return authn.Resolve(ctx, k.inner, r)
}

type guardedLister struct {
	guardedKeychain
	lister tlsauth.CredentialLister
}

func (k guardedLister) Credentials(ctx context.Context, image string) (list []tlsauth.Credential, err error) {
	defer k.g.caught(seamKeychain, &err)
	return k.lister.Credentials(ctx, image)
}

// Planner is a keychain that knows why it offers what it offers, as [tlsauth.Kubelet]
// does.
type Planner interface {
	Plan(ctx context.Context, image string) (*tlsauth.CredentialPlan, error)
}

// segmentDialer is a dialer that can clamp segments, as [reach.System] does.
type segmentDialer interface {
	DialSegment(ctx context.Context, network, address string, mss int) (net.Conn, error)
}
