package pullwalk

import (
	"cmp"
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// source is one registry that the runtime would ask, under diagnosis.
type source struct {
	d   *imageRun
	cfg noderuntime.Source
	ref registry.Reference // with the digest, once another source has resolved the tag
	tls tlsSettings
	// known is what was learnt of the credential that is being tried; nil = none
	// is. Only authorize and what it calls touch it.
	known *registry.Access
	// ownLogin says that the credential comes from the runtime's own files. Only
	// authorize and what it calls touch it.
	ownLogin bool

	mu        sync.Mutex
	endpoints []*endpoint
	silence   givenUp // the first request that got no answer
	postponed []postponed
	overflow  bool       // more hosts than are followed
	finished  bool       // the walk came to its end
	accepted  int        // as of [pull.Source]
	pending   *pull.Step // the settings step, until there is an endpoint to record it with
	skipped   string
	pullOnly  bool // serves content by digest, and is not asked what a tag means
	digest    string
	inStore   int     // blobs that the node's store holds already
	auth      *bearer // what requests for blobs carry; nil = nothing
	proof     *Proof
}

func (d *imageRun) newSource(c noderuntime.Source) *source {
	s := &source{d: d, cfg: c, ref: d.ref, tls: tlsSettingsOf(c)}
	switch {
	case !c.Can(noderuntime.CapabilityPull):
		s.skipped = c.File + " does not let the runtime pull from it"
	case !c.Can(noderuntime.CapabilityResolve) && d.ref.Digest == "":
		s.pullOnly = true
		s.skipped = c.File + " does not let the runtime resolve a tag there, and no other source resolved it"
	}
	return s
}

// endpoint returns the endpoint of t, and starts its climb when it is new. nil
// means that the pull names more hosts than are followed.
func (s *source) endpoint(ctx context.Context, t target) *endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(t); e != nil {
		if !slices.Contains(e.roles, t.role) {
			e.roles = append(e.roles, t.role)
		}
		e.mu.Lock()
		e.onlyHint, e.onlyTold = e.onlyHint && t.hint, e.onlyTold && t.aside
		e.mu.Unlock()
		s.startChecks(ctx, e, t)
		return e
	}
	if len(s.endpoints) >= maxEndpoints {
		s.overflow = true
		return nil
	}
	e := s.newEndpoint(t)
	s.endpoints = append(s.endpoints, e)
	s.climb(ctx, e, s.approach(ctx, t), (*ladder).climb)
	s.startChecks(ctx, e, t)
	return e
}

// find returns the endpoint of t if there is one. Where the node's own settings
// say that credentials come from is kept apart: it may lie at an address to which
// a registry must not lead. So is a host that is asked with other TLS settings: what
// one set trusts says nothing of the other. The caller holds s.mu.
func (s *source) find(t target) *endpoint {
	own := t.role == endpoints.RoleCredential
	for _, e := range s.endpoints {
		if e.scheme == t.scheme && e.host == t.host && e.port == t.port && own == (e.role == endpoints.RoleCredential) && s.settings(e.target).key == s.settings(t).key {
			return e
		}
	}
	return nil
}

func (s *source) newEndpoint(t target) *endpoint {
	return &endpoint{src: s, target: t, onlyHint: t.hint, onlyTold: t.aside, roles: []endpoints.Role{t.role}, turns: make(chan struct{}, s.d.parallel), changed: make(chan struct{})}
}

// judgeSettings says what the runtime's configuration for this registry amounts
// to; the step is recorded with the registry's endpoint. It reports false if the
// runtime would not send a packet.
func (s *source) judgeSettings(findings []classify.Finding, err error) bool {
	reason := ""
	if err != nil {
		reason = "the configuration could not be read from here: " + classify.Redact(err.Error(), 300)
	}
	if unsent := s.cfg.Fields.Unsent(); len(unsent) > 0 && reason == "" {
		reason = cmp.Or(s.cfg.File, "the runtime's configuration") + " adds header fields (" + strings.Join(unsent, ", ") + "), which are not sent from here"
	}
	if len(findings) == 0 && reason == "" && s.cfg.File == "" {
		return true
	}
	st := pull.StatusOf(pull.Step{ID: StepSettings}, true, reason, findings)
	s.pending = &st
	return st.Status != StatusFailed
}

// recordSettings gives the settings step its place at the registry's endpoint, or
// at one that nothing was sent to.
func (s *source) recordSettings(reg *endpoint) {
	if s.pending == nil {
		return
	}
	if reg == nil {
		t, err := targetOf(s.cfg.Base, s.role(), s.cfg.File)
		if err != nil {
			return
		}
		reg = s.newEndpoint(t)
		reg.ladder = s.newLadder(t, approach{})
		close(reg.ready)
		close(reg.done)
		s.endpoints = append(s.endpoints, reg)
		if s.pending.Status == StatusFailed {
			reg.blockedBy = pull.StepName(StepSettings, reg.hostPort(), netip.Addr{})
		}
	}
	st := *s.pending
	s.pending = nil
	reg.record(st, 0)
}

// block says that nothing of a source was tried because the settings stop it.
func (s *source) block() {
	s.recordSettings(nil)
	for _, e := range s.snapshot() {
		if e.has(StepSettings) {
			e.blockRest(StepDNS, StepRoute, StepConnect, StepTLS, StepResolve, StepManifest, StepConfig, StepLayer)
		}
	}
}

// resolvers asks for the route to each nameserver: that there is no way to the
// resolver is a matter of the route, not of DNS.
func (s *source) resolvers(ctx context.Context) {
	for _, ns := range s.d.settings.Nameservers {
		e := s.newEndpoint(target{scheme: pull.SchemeDNS, host: ns.Addr().String(), port: ns.Port(), role: endpoints.RoleResolver, foundBy: s.d.settings.File, hint: true})
		s.endpoints = append(s.endpoints, e)
		s.climb(ctx, e, approach{}, (*ladder).wayToResolver)
		s.startChecks(ctx, e, e.target)
	}
}

// wayToResolver is all of a nameserver's ladder: whether it answers is seen when
// it is asked for a name.
func (e *ladder) wayToResolver(ctx context.Context) {
	defer close(e.done)
	close(e.ready)
	addr, err := netip.ParseAddr(e.host)
	if err != nil {
		return
	}
	l := &lane{e: e, addr: addr.WithZone("")}
	out := e.timed(ctx, pull.Step{ID: StepRoute, Addr: l.addr}, func(ctx context.Context, _ *watch) outcome { return outcome{Step: l.lookup(ctx)} })
	out.Addr = l.addr
	e.record(out.Step, 0)
}

// also climbs to the hosts that the caller expects in the pull.
func (s *source) also(ctx context.Context) {
	for _, hp := range s.d.opts.Also {
		host, port, err := splitHostPort(hp)
		if err != nil {
			continue // refused by validate
		}
		s.endpoint(ctx, target{scheme: "https", host: host, port: port, role: endpoints.RoleExpected, foundBy: "the caller", hint: true})
	}
}

// base is where the source is. Containerd tries https before http on a loopback
// registry, and http only where no TLS is spoken.
func (s *source) base(ctx context.Context) *url.URL {
	base := s.cfg.Base
	if !s.cfg.HTTPSFirst {
		return base
	}
	tls := *base
	tls.Scheme = "https"
	t, err := targetOf(&tls, s.role(), "tried before plain http")
	if err != nil {
		return base
	}
	t.hint, t.beforePlain = true, true
	e := s.endpoint(ctx, t)
	select {
	case <-e.done:
	case <-ctx.Done():
		return base
	}
	if judge.SpeaksPlainHTTP(e.soFar()) {
		return base
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onlyHint = false
	return &tls
}

func (s *source) role() endpoints.Role {
	switch {
	case s.cfg.Kind == noderuntime.KindMirror:
		return endpoints.RoleMirror
	case s.d.sandbox != nil:
		return endpoints.RoleSandbox
	}
	return endpoints.RoleManifest
}

// log is what was seen of the source so far.
func (s *source) log() pull.Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.d.plan
	out := pull.Source{
		Host: s.cfg.Host, Kind: s.cfg.Kind, Digest: s.digest, Doubt: s.d.view.rivals(), Skipped: s.skipped, Finished: s.finished, Partial: s.d.opts.Pull == Connect,
		Accepted: s.accepted, NotOffered: p != nil && len(p.Offered) == 0 && p.Inconclusive == "" && !s.ownLogin,
	}
	if s.overflow {
		out.Overflow = maxEndpoints
	}
	for _, e := range s.endpoints {
		at := e.soFar()
		at.Roles = slices.Clone(e.roles)
		out.Endpoints = append(out.Endpoints, at)
	}
	return out
}

func (s *source) snapshot() []*endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.endpoints)
}
