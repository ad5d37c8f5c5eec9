package pullwalk

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/wire"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// diagnosis is one call of Diagnose.
type diagnosis struct {
	opts      Options
	view      *view
	ref       endpoints.Reference
	platform  endpoints.Platform
	limits    Limits
	budget    time.Duration
	hurried   bool // the budget cuts limits below what the runtimes would wait
	userAgent string
	allow     func(netip.AddrPort) error
	dns       *dnscheck.Checker
	reach     *reach.Checker
	settings  dnscheck.Settings
	notify    *notifier
	slots     chan struct{} // parallel blob requests
	climbing  sync.WaitGroup

	mu        sync.Mutex
	manifests int // manifest requests sent
	identity  string
}

func newDiagnosis(image string, opts *Options) (*diagnosis, error) {
	d := &diagnosis{}
	if opts != nil {
		d.opts = *opts
	}
	o := &d.opts
	if err := o.validate(); err != nil {
		return nil, err
	}
	ref, err := endpoints.ParseReference(image)
	if err != nil {
		return nil, fmt.Errorf("pullwalk: %w", err)
	}
	d.ref = ref
	if _, err := targetOf(&url.URL{Scheme: ref.Scheme, Host: ref.Host}, endpoints.RoleManifest, ""); err != nil {
		return nil, fmt.Errorf("pullwalk: image %q: %w", classify.Redact(image, 256), err)
	}
	if d.platform, err = endpoints.ParsePlatform(o.Platform); err != nil {
		return nil, fmt.Errorf("pullwalk: %w", err)
	}
	if d.view, err = o.Node.resolve(); err != nil {
		return nil, err
	}
	o.fillIn()
	d.hurried = o.Budget/budgetShare < defaultTLS
	d.budget, d.limits, d.userAgent, d.allow = o.Budget, o.Limits, o.UserAgent, o.AllowAddr
	d.dns = &dnscheck.Checker{FS: d.view.FS, Exchanger: d.view.DNS, Expect: o.Expect, Limit: d.limits.DNS}
	d.reach = &reach.Checker{Router: d.view.Router, Dialer: d.view.Dialer, Limit: d.limits.Connect}
	d.slots = make(chan struct{}, o.Concurrency)
	d.identity = "anonymous"
	return d, nil
}

// fillIn replaces zero options by their defaults, and keeps every limit within
// its share of the budget.
func (o *Options) fillIn() {
	if o.Pull == "" {
		o.Pull = Touch
	}
	if o.Budget == 0 {
		o.Budget = defaultBudget
		if o.Pull == Complete {
			o.Budget = defaultBudgetComplete
		}
	}
	if o.Concurrency == 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.UserAgent == "" {
		o.UserAgent = "pullwalk"
	}
	if o.AllowAddr == nil {
		o.AllowAddr = DenyPlatformAddrs
	}
	limit := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
		*d = min(*d, o.Budget/budgetShare)
	}
	limit(&o.Limits.DNS, defaultDNS)
	limit(&o.Limits.Connect, defaultConnect)
	limit(&o.Limits.TLS, defaultTLS)
	limit(&o.Limits.Header, wire.DefaultHeader)
	limit(&o.Limits.Idle, wire.DefaultIdle)
}

// source is one registry that the runtime would ask, under diagnosis.
type source struct {
	d   *diagnosis
	cfg endpoints.Source
	tls tlsSettings

	mu        sync.Mutex
	endpoints []*endpoint
	overflow  bool // more hosts than are followed
	finished  bool // the walk came to its end
	skipped   string
	digest    string
	proof     *Proof
}

// endpoint returns the endpoint of t, and starts its climb when it is new. nil
// means that the pull names more hosts than are followed.
func (s *source) endpoint(ctx context.Context, t target) *endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.endpoints {
		if e.scheme == t.scheme && e.host == t.host && e.port == t.port {
			if !slices.Contains(e.roles, t.role) {
				e.roles = append(e.roles, t.role)
			}
			e.mu.Lock()
			e.onlyHint = e.onlyHint && t.hint
			e.mu.Unlock()
			return e
		}
	}
	if len(s.endpoints) >= maxEndpoints {
		s.overflow = true
		return nil
	}
	e := s.newEndpoint(t)
	s.endpoints = append(s.endpoints, e)
	if t.role != endpoints.RoleProxy && t.scheme != schemeDNS {
		e.proxy, e.via = s.proxyFor(ctx, t)
	}
	s.d.climbing.Go(func() { e.climb(ctx) })
	return e
}

func (s *source) newEndpoint(t target) *endpoint {
	e := &endpoint{d: s.d, src: s, target: t, onlyHint: t.hint, roles: []endpoints.Role{t.role}, ready: make(chan struct{}), done: make(chan struct{})}
	e.pool = wire.Pool{Dial: e.open, Header: s.d.limits.Header, Idle: s.d.limits.Idle}
	return e
}

// proxyFor returns the proxy that the runtime would use for t. The caller holds
// s.mu.
func (s *source) proxyFor(ctx context.Context, t target) (*url.URL, *endpoint) {
	u, err := s.d.view.Proxy(&url.URL{Scheme: t.scheme, Host: t.hostPort()})
	if err != nil || u == nil {
		return nil, nil
	}
	pt, err := targetOf(u, endpoints.RoleProxy, s.d.view.proxySource)
	if err != nil {
		return nil, nil
	}
	for _, e := range s.endpoints {
		if e.scheme == pt.scheme && e.host == pt.host && e.port == pt.port {
			return u, e
		}
	}
	e := s.newEndpoint(pt)
	s.endpoints = append(s.endpoints, e)
	s.d.climbing.Go(func() { e.climb(ctx) })
	return u, e
}

// run walks the sources in the runtime's order and gathers the result.
func (d *diagnosis) run(parent context.Context) *Result {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(parent, d.budget, errBudget)
	defer cancel()
	d.notify = newNotifier(&d.opts)
	d.settings = dnscheck.ReadSettings(d.view.FS)

	configured, findings, err := endpoints.Sources(d.view.FS, d.view.runtime.ConfigFile, d.ref)
	err = errors.Join(err, endpoints.Unmodelled(d.view.FS, d.view.runtime.Name, d.ref))
	var sources []*source
	for _, c := range configured {
		sources = append(sources, d.newSource(c))
	}
	usable := sources[0].settings(ctx, findings, err)
	sources[0].resolvers(ctx)
	sources[len(sources)-1].also(ctx)
	for i, s := range sources {
		if !usable {
			s.block()
			if i > 0 {
				s.skipped = "the runtime's configuration stops the pull before it is asked"
			}
			continue
		}
		s.walk(ctx)
		if s.serves() {
			break
		}
	}
	d.climbing.Wait()
	for _, s := range sources {
		for _, e := range s.endpoints {
			e.pool.Close()
		}
	}
	res := d.result(ctx, sources)
	res.Started, res.ElapsedMS = started.UTC(), time.Since(started).Milliseconds()
	d.notify.finish(ctx)
	return res
}

func (d *diagnosis) newSource(c endpoints.Source) *source {
	s := &source{d: d, cfg: c, tls: tlsSettings{skipVerify: c.SkipVerify, by: c.File}}
	if len(c.CA) > 0 {
		s.tls.ca = bytes.Join(c.CA, []byte("\n"))
	}
	if s.tls.by == "" {
		s.tls.by = "the runtime does not verify a registry on loopback"
	}
	switch {
	case !c.Can(endpoints.CapabilityPull):
		s.skipped = c.File + " does not let the runtime pull from it"
	case !c.Can(endpoints.CapabilityResolve) && d.ref.Digest == "":
		s.skipped = c.File + " does not let the runtime resolve a tag there"
	}
	return s
}

// settings records what the runtime's configuration for this registry amounts
// to. It reports false if the runtime would not send a packet.
func (s *source) settings(ctx context.Context, findings []classify.Finding, err error) bool {
	if len(findings) == 0 && err == nil && s.cfg.File == "" {
		return true
	}
	reason := ""
	if err != nil {
		reason = "the configuration could not be read from here: " + classify.Redact(err.Error(), 300)
	}
	st := settle(Step{ID: StepSettings}, true, reason, findings)
	t, terr := targetOf(s.cfg.Base, s.role(), s.cfg.File)
	if terr != nil {
		return false
	}
	if st.Status != StatusFailed && s.skipped == "" {
		s.endpoint(ctx, t).record(st, 0)
		return true
	}
	e := s.newEndpoint(t)
	if st.Status != StatusFailed {
		close(e.ready)
		close(e.done)
		s.endpoints = append(s.endpoints, e)
		e.record(st, 0)
		return true
	}
	e.blockedBy = stepName(StepSettings, e.hostPort(), netip.Addr{})
	close(e.ready)
	close(e.done)
	s.endpoints = append(s.endpoints, e)
	e.record(st, 0)
	return false
}

// block says that nothing of a source was tried because the settings stop it.
func (s *source) block() {
	for _, e := range s.snapshot() {
		if e.blockedBy != "" {
			e.blockRest(StepDNS, StepRoute, StepConnect, StepTLS, StepResolve, StepManifest, StepConfig, StepLayer)
		}
	}
}

// resolvers asks for the route to each nameserver: that there is no way to the
// resolver is a matter of the route, not of DNS.
func (s *source) resolvers(ctx context.Context) {
	for _, ns := range s.d.settings.Nameservers {
		e := s.newEndpoint(target{scheme: schemeDNS, host: ns.Addr().String(), port: ns.Port(), role: endpoints.RoleResolver, foundBy: s.d.settings.File, hint: true})
		s.endpoints = append(s.endpoints, e)
		s.d.climbing.Go(func() {
			defer close(e.done)
			close(e.ready)
			l := &lane{e: e, addr: ns.Addr().WithZone("")}
			out := e.timed(ctx, Step{ID: StepRoute, Addr: l.addr}, func(ctx context.Context, _ *watch) outcome { return outcome{Step: l.lookup(ctx)} })
			out.Addr = l.addr
			e.record(out.Step, 0)
		})
	}
}

// also climbs to the hosts that the caller expects in the pull.
func (s *source) also(ctx context.Context) {
	for _, hp := range s.d.opts.Also {
		host, port, err := splitHostPort(hp)
		if err != nil {
			continue // refused by validate
		}
		s.endpoint(ctx, target{scheme: "https", host: host, port: port, role: endpoints.RoleAlso, foundBy: "the caller", hint: true})
	}
}

// walk is the pull, told in order: the registry, the challenge, a token for each
// credential until one may read, the index, the manifest of the platform, and
// every blob wherever it is redirected to.
func (s *source) walk(ctx context.Context) {
	if s.skipped != "" {
		return
	}
	base := s.base(ctx)
	t, err := targetOf(base, s.role(), cmp.Or(s.cfg.File, "the image reference"))
	if err != nil {
		return
	}
	reg := s.endpoint(ctx, t)
	w := &endpoints.Walk{Reference: s.d.ref, Base: base, Namespace: s.cfg.Namespace, UserAgent: s.d.userAgent}

	top := s.authorize(ctx, reg, w)
	if top == nil {
		if !reg.has(StepResolve) {
			reg.blockRest(StepResolve)
		}
		reg.blockRest(StepManifest, StepConfig, StepLayer)
		return
	}
	if s.d.opts.Pull == Connect {
		s.finished = true
		return
	}
	manifest := s.manifests(ctx, reg, w, top)
	if manifest == nil {
		reg.blockRest(StepConfig, StepLayer)
		return
	}
	s.blobs(ctx, reg, w, manifest)
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
	t.hint = true
	e := s.endpoint(ctx, t)
	select {
	case <-e.done:
	case <-ctx.Done():
		return base
	}
	plain := func(f classify.Finding) bool {
		return f.Cause == classify.TLSHTTPResponseToHTTPSClient || f.Cause == classify.TLSNotTLS
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	isPlain := false
	for i := range e.steps { // the address's own step, and the one that sums up
		if slices.ContainsFunc(e.steps[i].Findings, plain) {
			isPlain = true
			e.steps[i].Status, e.steps[i].Reason, e.steps[i].Findings = StatusSkipped, "plain http is spoken here", nil
		}
	}
	if isPlain {
		return base
	}
	e.onlyHint = false
	return &tls
}

func (s *source) role() endpoints.Role {
	if s.cfg.Kind == endpoints.KindMirror {
		return endpoints.RoleMirror
	}
	return endpoints.RoleManifest
}

// blockRest says which steps never came to be tried, and because of what.
func (e *endpoint) blockRest(ids ...StepID) {
	by := ""
	select {
	case <-e.ready:
		if e.through == nil {
			by = e.blockedBy
		}
	default: // its ladder still runs: the end of ctx came first
	}
	if by == "" {
		by = e.src.firstFailure()
	}
	for _, id := range ids {
		e.record(Step{ID: id, Status: StatusBlocked, BlockedBy: by}, 0)
	}
}

func (e *endpoint) has(id StepID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.steps, func(s step) bool { return s.ID == id })
}

// firstFailure names the first request, or else ladder, that stopped the walk.
func (s *source) firstFailure() string {
	name := ""
	for _, e := range s.snapshot() {
		e.mu.Lock()
		for _, st := range e.steps {
			if st.Addr.IsValid() || e.onlyHint || (st.Status != StatusFailed && st.Status != StatusInconclusive) {
				continue
			}
			if n := stepName(st.ID, e.hostPort(), st.Addr); name == "" {
				name = n
			}
		}
		e.mu.Unlock()
	}
	return name
}

func (s *source) snapshot() []*endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.endpoints)
}

// authorize resolves the reference: without identity first, as the runtimes do,
// then with each credential in the keychain's order until one may read. It
// returns the report of the request that held, nil if none did.
func (s *source) authorize(ctx context.Context, reg *endpoint, w *endpoints.Walk) *endpoints.RequestReport {
	st := s.resolve(ctx, reg, w, 0)
	if st.ID != StepChallenge {
		if st.Status.passes() {
			return st.Request
		}
		return nil
	}
	first := st.Request
	if s.d.opts.Pull == Connect {
		s.tokenHost(ctx, first)
		return first
	}
	creds, step := s.d.credentials(ctx)
	if step != nil {
		reg.record(*step, 0)
		return nil
	}
	for i, c := range creds {
		if !s.identify(ctx, reg, w, first, c, i) {
			continue
		}
		if st := s.resolve(ctx, reg, w, i+1); st.Status.passes() && st.Request != nil {
			s.supersede(reg, i)
			s.d.setIdentity(c.Info)
			return st.Request
		}
	}
	if len(creds) > 0 {
		s.d.setIdentity(creds[0].Info)
	}
	return nil
}

// resolve asks for the tag or digest by HEAD, and by GET where the registry has
// no HEAD, as containerd does.
func (s *source) resolve(ctx context.Context, reg *endpoint, w *endpoints.Walk, index int) Step {
	subject := s.d.ref.Digest
	if subject == "" {
		subject = s.d.ref.Tag
	}
	ask := func(method string) Step {
		st := Step{ID: StepResolve, Subject: subject}
		return reg.request(ctx, st, func(ctx context.Context, rt http.RoundTripper, _ *watch) Step {
			s.d.countManifest()
			r := w.Resolve(ctx, rt, method)
			if r.NeedsToken() && w.Authorization == "" {
				return Step{ID: StepChallenge, Status: StatusOK, Request: r}
			}
			return basicRefused(w, requestStatus(st, r))
		})
	}
	st := ask(http.MethodHead)
	if st.Request != nil && st.Request.NeedsGet() {
		head := st
		st = ask(http.MethodGet)
		if head.Status == StatusFailed && st.Status.passes() {
			st = s.headBlocked(reg, head, st)
		}
	}
	st = reg.record(st, index)
	st, _ = s.followManifest(ctx, w, st, index)
	return st
}

// basicRefused reads a 401 to a request that carried user and password itself: no
// token stands between, so it is the credential that was refused.
func basicRefused(w *endpoints.Walk, st Step) Step {
	if !strings.HasPrefix(w.Authorization, "Basic ") {
		return st
	}
	for i, f := range st.Findings {
		if f.Cause == classify.IdentityUnauthorized {
			g := classify.New(classify.IdentityBadCredentials, f.Summary, f.Facts...)
			g.Operation, g.Alternatives = f.Operation, []classify.Cause{classify.IdentityUnauthorized}
			st.Findings[i] = g
		}
	}
	return st
}

// headBlocked judges a registry that answers GET and refuses HEAD with something
// else than 405: containerd stops at the refusal, others ask again by GET.
func (s *source) headBlocked(reg *endpoint, head, get Step) Step {
	f := classify.New(classify.EndpointMethodBlocked,
		fmt.Sprintf("HEAD of the manifest is refused with %d where GET is answered; containerd resolves a tag by HEAD.", head.Request.Status),
		classify.Fact{Key: classify.FactMethod, Value: http.MethodHead}, classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(head.Request.Status)})
	f.Operation = classify.OperationResolveManifest
	if s.d.view.runtime.Name == "containerd" || strings.HasPrefix(s.d.view.runtime.Name, "k3s") || s.d.view.runtime.Name == "rke2" {
		head.Findings, head.Status = []classify.Finding{f}, StatusFailed
		return head
	}
	f.Severity = classify.SeverityWarn
	get.Findings = append(get.Findings, f)
	get.Status = StatusDegraded
	return get
}

// followManifest takes the further hops of a manifest request that was
// redirected, and returns the last.
func (s *source) followManifest(ctx context.Context, w *endpoints.Walk, st Step, index int) (Step, *endpoints.Manifest) {
	var m *endpoints.Manifest
	for st.Request != nil && st.Status.passes() && st.Request.Redirect() != nil {
		prev := st.Request
		t, err := targetOf(prev.Redirect(), endpoints.RoleManifest, "a redirect of "+prev.Host)
		if err != nil {
			return st, nil
		}
		e := s.endpoint(ctx, t)
		if e == nil {
			return Step{}, nil
		}
		ask := Step{ID: st.ID, Subject: st.Subject}
		st = e.record(e.request(ctx, ask, func(ctx context.Context, rt http.RoundTripper, _ *watch) Step {
			r, got := w.FollowManifest(ctx, rt, prev)
			m = got
			return requestStatus(ask, r)
		}), index)
	}
	return st, m
}

// requestStatus settles the step of a request.
func requestStatus(s Step, r *endpoints.RequestReport) Step {
	s.Request = r
	return settle(s, r.Held(), r.Inconclusive, r.Findings())
}

// credentials asks the keychain what the kubelet would try. The step is non-nil
// when the keychain did not answer.
func (d *diagnosis) credentials(ctx context.Context) ([]tlsauth.Offer, *Step) {
	ctx, cancel := context.WithTimeout(ctx, maxKeychain)
	defer cancel()
	offers, err := tlsauth.Offers(ctx, d.opts.Keychain, d.ref.String())
	if err != nil {
		return nil, &Step{ID: StepToken, Status: StatusInconclusive, Reason: classify.Redact(err.Error(), 300)}
	}
	return offers, nil
}

func (d *diagnosis) setIdentity(info tlsauth.CredentialInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.identity = info.Source
	if info.Username != "" {
		d.identity += " (user " + info.Username + ")"
	}
}

func (d *diagnosis) countManifest() {
	d.mu.Lock()
	d.manifests++
	d.mu.Unlock()
}

// tokenHost starts the ladder of the token server that a challenge names.
func (s *source) tokenHost(ctx context.Context, r *endpoints.RequestReport) (*endpoint, wire.Challenge, error) {
	for _, c := range r.Challenge() {
		if c.Scheme != "bearer" {
			continue
		}
		realm, err := wire.RealmURL(c)
		if err != nil {
			return nil, c, err
		}
		t, err := targetOf(realm, endpoints.RoleToken, "the challenge of "+r.Host)
		if err != nil {
			return nil, c, &wire.BadRealmError{Realm: wire.RedactURL(realm), Reason: err.Error()}
		}
		e := s.endpoint(ctx, t)
		if e == nil {
			return nil, c, errors.New("more hosts than are followed")
		}
		return e, c, nil
	}
	return nil, wire.Challenge{}, nil
}

// identify makes the walk carry one credential, in the way that the registry's
// challenge asks for. It reports whether a request with it can be tried.
func (s *source) identify(ctx context.Context, reg *endpoint, w *endpoints.Walk, first *endpoints.RequestReport, c tlsauth.Offer, index int) bool {
	w.Authorization = ""
	if c.Secret.RegistryToken != "" && reg.scheme == "https" {
		w.Authorization = wire.NewToken(c.Secret.RegistryToken).Authorization()
		reg.record(Step{ID: StepToken, Status: StatusSkipped, Reason: "the credential is a registry token"}, index)
		return true
	}
	e, ch, err := s.tokenHost(ctx, first)
	if e == nil && err == nil {
		return s.basic(reg, w, first, c, index)
	}
	if e == nil {
		// No server can be asked: the judgement belongs to the registry, whose
		// challenge it is.
		res := wire.TokenResult{Err: err}
		reg.record(s.judge(ch, c, res), index)
		return false
	}
	var token wire.Token
	st := e.request(ctx, Step{ID: StepToken}, func(ctx context.Context, rt http.RoundTripper, _ *watch) Step {
		res := wire.FetchToken(ctx, rt, wire.TokenRequest{Challenge: ch, Repository: s.d.ref.Repository, Credential: c.Secret, UserAgent: s.d.userAgent})
		token = res.Token
		if res.Err != nil && ctx.Err() != nil {
			return Step{ID: StepToken, Status: StatusInconclusive, Reason: reasonOf(ctx)}
		}
		return s.judge(ch, c, res)
	})
	st = e.record(st, index)
	if st.Access == nil || !st.Access.TokenIssued {
		return false
	}
	// A token that claims too little is still tried: the claim is not verified,
	// the registry decides.
	w.Authorization = token.Authorization()
	return true
}

func (s *source) judge(ch wire.Challenge, c tlsauth.Offer, res wire.TokenResult) Step {
	rep := tlsauth.JudgeToken(ch, c.Info, res, s.d.ref.Repository)
	return settle(Step{ID: StepToken, Access: rep}, rep.TokenIssued, rep.Inconclusive, rep.Findings())
}

// basic answers a challenge that asks for user and password themselves.
func (s *source) basic(reg *endpoint, w *endpoints.Walk, first *endpoints.RequestReport, c tlsauth.Offer, index int) bool {
	for _, ch := range first.Challenge() {
		if ch.Scheme != "basic" {
			continue
		}
		if c.Secret.Username == "" || c.Secret.Password == "" {
			reg.record(s.judge(ch, c, wire.TokenResult{}), index)
			return false
		}
		if reg.scheme != "https" {
			f := classify.New(classify.IdentityPlaintextRefused, "The registry asks for a password over plain http; it was not sent.")
			f.Severity = classify.SeverityWarn
			reg.record(settle(Step{ID: StepToken}, false, "credential withheld: plain http", []classify.Finding{f}), index)
			return false
		}
		w.Authorization = c.Secret.Basic()
		reg.record(Step{ID: StepToken, Status: StatusSkipped, Reason: "the registry asks for Basic: no token is fetched"}, index)
		return true
	}
	var ch wire.Challenge
	if all := first.Challenge(); len(all) > 0 {
		ch = all[0]
	}
	reg.record(s.judge(ch, c, wire.TokenResult{}), index)
	return false
}

// supersede turns what was said of earlier credentials, and of a token that
// claimed too little, into warnings: a later request was allowed to read.
func (s *source) supersede(reg *endpoint, index int) {
	for _, e := range s.snapshot() {
		e.mu.Lock()
		for i := range e.steps {
			st := &e.steps[i]
			old := st.ID == StepToken && st.index <= index || e == reg && st.ID == StepResolve && st.index <= index
			if old && (st.Status == StatusFailed || st.Status == StatusInconclusive) {
				st.Status, st.Findings = StatusDegraded, warned(st.Findings)
			}
		}
		e.mu.Unlock()
	}
}

// manifests fetches what the reference leads to, and from an index the manifest
// of the platform.
func (s *source) manifests(ctx context.Context, reg *endpoint, w *endpoints.Walk, top *endpoints.RequestReport) *endpoints.Manifest {
	s.digest = top.Digest
	m := s.manifest(ctx, reg, w, top.Digest, top.MediaType, 1)
	if m == nil || !m.Index {
		if m != nil {
			s.digest = m.Digest
		}
		return m
	}
	s.digest = m.Digest
	d, err := m.Select(s.d.platform)
	if err != nil {
		var f classify.Finding
		if !errors.As(err, &f) {
			f = classify.Error(err)
		}
		reg.record(settle(Step{ID: StepManifest, Subject: s.d.platform.String()}, false, "", []classify.Finding{f}), 2)
		return nil
	}
	m = s.manifest(ctx, reg, w, d.Digest, d.MediaType, 2)
	if m != nil && m.Index {
		f := classify.New(classify.ImageManifestInvalid, "The index names another index for this platform; runtimes do not look further.")
		f.Operation = classify.OperationResolveManifest
		reg.record(settle(Step{ID: StepManifest, Subject: d.Digest}, false, "", []classify.Finding{f}), 3)
		return nil
	}
	return m
}

// manifest fetches one manifest by digest, following redirects by hand.
func (s *source) manifest(ctx context.Context, reg *endpoint, w *endpoints.Walk, digest, mediaType string, index int) *endpoints.Manifest {
	var m *endpoints.Manifest
	st := reg.request(ctx, Step{ID: StepManifest, Subject: digest}, func(ctx context.Context, rt http.RoundTripper, _ *watch) Step {
		s.d.countManifest()
		r, got := w.Manifest(ctx, rt, digest, mediaType)
		m = got
		return requestStatus(Step{ID: StepManifest, Subject: digest}, r)
	})
	st = reg.record(st, index)
	if st.Request != nil && st.Request.Redirect() != nil {
		st, m = s.followManifest(ctx, w, st, index)
	}
	if !st.Status.passes() {
		return nil
	}
	return m
}

// blobs asks for the configuration and every layer, a few at a time as the
// runtimes do.
func (s *source) blobs(ctx context.Context, reg *endpoint, w *endpoints.Walk, m *endpoints.Manifest) {
	mode := endpoints.First64K
	if s.d.opts.Pull == Complete {
		mode = endpoints.Whole
	}
	list := m.Blobs()
	reports := make([]*endpoints.RequestReport, len(list))
	var wg sync.WaitGroup
	for i, blob := range list {
		id := StepLayer
		if i == 0 {
			id = StepConfig
		}
		select { // here and not in the goroutine, so that they begin in their order
		case s.d.slots <- struct{}{}:
		case <-ctx.Done():
			reg.record(Step{ID: id, Subject: blob.Digest, Status: StatusInconclusive, Reason: reasonOf(ctx)}, i)
			continue
		}
		wg.Go(func() {
			defer func() { <-s.d.slots }()
			reports[i] = s.blob(ctx, reg, w, id, blob, mode, i)
		})
	}
	wg.Wait()
	s.finished = true
	if mode == endpoints.Whole {
		s.proof = proofOf(s.digest, reports)
	}
}

// proofOf is nil unless every report says that all bytes came and their digest
// was right.
func proofOf(digest string, reports []*endpoints.RequestReport) *Proof {
	p := &Proof{Digest: digest, Layers: len(reports) - 1}
	for _, r := range reports {
		if r == nil || !r.Complete {
			return nil
		}
		p.Bytes += r.Bytes
	}
	return p
}

// blob follows one blob from the registry to where its bytes are. It returns the
// last report, nil if a hop could not be asked.
func (s *source) blob(ctx context.Context, reg *endpoint, w *endpoints.Walk, id StepID, blob endpoints.Descriptor, mode endpoints.Mode, index int) *endpoints.RequestReport {
	e, r := reg, (*endpoints.RequestReport)(nil)
	for {
		prev := r
		st := e.request(ctx, Step{ID: id, Subject: blob.Digest}, func(ctx context.Context, rt http.RoundTripper, wt *watch) Step {
			own := *w
			own.OnBytes = wt.heard
			var r *endpoints.RequestReport
			if prev == nil {
				r = own.Blob(ctx, rt, blob, mode)
			} else {
				r = own.Follow(ctx, rt, prev, blob, mode)
			}
			return requestStatus(Step{ID: id, Subject: blob.Digest}, r)
		})
		st = e.record(st, index)
		r = st.Request
		if r == nil || !st.Status.passes() || r.Redirect() == nil {
			return r
		}
		t, err := targetOf(r.Redirect(), endpoints.RoleBlob, "a redirect of "+r.Host)
		if err == nil {
			e = s.endpoint(ctx, t)
		}
		if err != nil || e == nil {
			return nil // the report already says what is wrong with the Location, or the overflow is told
		}
	}
}
