package engine

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/probe"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// way is a host of one image on the probe that leads there.
type way struct {
	probe  *probe.Probe
	host   *pull.Host
	source *source
	left   bool                 // the probe, before its end; read when nothing else of the pull runs
	checks map[pull.StepID]bool // the caller's, that were begun here; see source.checks
}

// wayOf is the way to a host; nil = there is none, since nothing is asked there.
func wayOf(h *pull.Host) *way {
	w, _ := h.Way().(*way)
	return w
}

// Open begins the probe of a host, or joins it.
func (s *source) Open(ctx context.Context, h *pull.Host) pull.Way {
	return &way{host: h, source: s, probe: s.image.prober.Join(ctx, h, s.route(ctx, h), s.settings(h.Target), &s.image.group.seen)}
}

// Met begins the caller's checks of a host in a new role.
func (s *source) Met(ctx context.Context, h *pull.Host, t pull.Target) {
	s.startChecks(ctx, wayOf(h), t)
}

// Ready is closed when an address holds all the way, or none will.
func (w *way) Ready() <-chan struct{} { return w.probe.Ready() }

// Open is called when Ready is closed.
func (w *way) Open() (http.RoundTripper, string) {
	if ok, blockedBy := w.probe.Open(); !ok {
		return nil, blockedBy
	}
	return dated{w}, ""
}

// Silent reports whether a step of the probe was given up because nothing came.
func (w *way) Silent() bool { return w.probe.Silent() }

// dated are a host's connections, which tell the TLS checks of the others what time it
// is over there: a certificate that is out of its dates is judged again by a clock that a
// verified host vouches for.
type dated struct{ w *way }

// RoundTrip makes dated an [http.RoundTripper].
func (d dated) RoundTrip(req *http.Request) (*http.Response, error) {
	p, img := d.w.probe, d.w.source.image
	resp, err := p.RoundTrip(req)
	if err == nil && p.Scheme == "https" && !p.TLS().SkipVerify {
		img.group.seen.Date(p.Host, resp.Header, img.view.Now())
	}
	return resp, err
}

// timedRequest makes one request of a pull within its limits.
func timedRequest(ctx context.Context, h *pull.Host, s pull.Step, ask func(context.Context, func(int64)) pull.Outcome) pull.Outcome {
	return wayOf(h).probe.Timed(ctx, s, ask)
}

// route returns the proxy that the runtime would use for a host, or why it is not known
// what lies behind.
func (s *source) route(ctx context.Context, h *pull.Host) probe.Route {
	if h.Role == registry.RoleProxy || h.Role == registry.RoleResolver {
		return probe.Route{}
	}
	v := s.image.view
	u, err := v.Proxy(&url.URL{Scheme: h.Scheme, Host: h.HostPort()})
	if err != nil {
		return probe.Route{Unknown: "the proxy setting cannot be used: " + classify.Redact(err.Error(), 200)}
	}
	if u == nil {
		return probe.Route{}
	}
	t, err := pull.TargetOf(u, registry.RoleProxy, v.ProxySource)
	switch {
	case err != nil:
		return probe.Route{Unknown: "the proxy setting cannot be used: " + err.Error()}
	case u.Scheme != "http" && u.Scheme != "https" && !registry.IsSOCKS(u):
		return probe.Route{Unknown: "the proxy " + u.Host + " has the scheme " + classify.Redact(u.Scheme, 32) + ", which no runtime speaks to a proxy"}
	}
	s.proxies.Lock()
	defer s.proxies.Unlock()
	proxy := s.run.Find(t)
	if proxy == nil {
		proxy = s.run.Add(ctx, t)
	}
	return probe.Route{Proxy: u, Via: wayOf(proxy).probe}
}

// resolvers asks for the route to each nameserver: that there is no way to the resolver
// is a matter of the route, not of DNS.
func (s *source) resolvers(ctx context.Context) {
	for _, ns := range s.image.settings.Nameservers {
		s.run.Add(ctx, pull.Target{Scheme: pull.SchemeDNS, Host: ns.Addr().String(), Port: ns.Port(), Role: registry.RoleResolver, FoundBy: s.image.settings.File, Expected: true})
	}
}

// expectedGrace is how long the probes of hosts that are only expected are waited for
// when the pull has come to its end without them.
const expectedGrace = time.Second

const notTouched = "the pull came to its end without this host"

// leave takes w off its probe if that still runs a while after the pull has come to its
// end without the host. Another image may need it: what it shows then is not waited for,
// and not said of w.
func (w *way) leave() {
	timer := time.NewTimer(expectedGrace)
	defer timer.Stop()
	select {
	case <-w.probe.Done():
		return
	case <-timer.C:
	}
	if w.host.Known && w.host.IsExpected() && w.probe.Part(w.host) {
		w.left = true
		w.cutShort()
	}
}

// cutShort records the steps on the way that have not been taken.
func (w *way) cutShort() {
	taken := w.host.Log().Steps
	has := func(id pull.StepID, addr netip.Addr) bool {
		return slices.ContainsFunc(taken, func(st pull.Step) bool { return st.ID == id && st.Addr == addr })
	}
	cut := func(addr netip.Addr, index int, ids ...pull.StepID) {
		by := ""
		for _, id := range ids {
			if has(id, addr) {
				continue
			}
			st := pull.Step{ID: id, Addr: addr, Status: pull.StatusBlocked, BlockedBy: by}
			if by == "" {
				st.Status, st.Reason = pull.StatusInconclusive, notTouched
				by = pull.StepName(id, w.host.HostPort(), addr)
			}
			w.host.Record(st, index)
		}
	}
	ids := w.probe.Stages()
	var addresses []pull.Step // one step of each
	for _, st := range taken {
		if st.Addr.IsValid() && !slices.ContainsFunc(addresses, func(a pull.Step) bool { return a.Addr == st.Addr }) {
			addresses = append(addresses, st)
		}
	}
	if len(addresses) == 0 {
		cut(netip.Addr{}, 0, slices.Insert(ids, 0, pull.StepDNS)...)
		return
	}
	cut(netip.Addr{}, 0, pull.StepDNS)
	for _, a := range addresses {
		cut(a.Addr, a.Index, ids...)
	}
	for _, id := range ids {
		if !has(id, netip.Addr{}) {
			w.host.Record(pull.Step{ID: id, Sum: true}, 0)
		}
	}
}
