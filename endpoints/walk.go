package endpoints

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// walk is the pull of one image from one source.
type walk struct {
	c     *Checker
	m     *Map
	src   noderuntime.Source
	files noderuntime.Files
	run   pull.Run

	mu    sync.Mutex
	pools []*registry.Pool
	https *registry.Pool          // with the connection by which the scheme was found out; nil = there is none
	addrs map[string][]netip.Addr // where connections went, by scheme and host:port
	taken []taken
	sizes map[string]int64 // of the blobs, by digest

	telling  sync.Mutex // OnBytes and OnProgress are called one at a time
	progress map[string]*Progress
	begun    map[string]time.Time
}

// taken is a step where it was taken.
type taken struct {
	at   pull.Endpoint
	step pull.Step
}

func (c *Checker) walk(m *Map, src noderuntime.Source, files noderuntime.Files, ref registry.Reference, platform registry.Platform) *walk {
	w := &walk{c: c, m: m, src: src, files: files, addrs: map[string][]netip.Addr{}, progress: map[string]*Progress{}, begun: map[string]time.Time{}}
	w.run = pull.Run{
		Requests: *src.Walk(ref, files.Client), Opener: w, Platform: platform, Depth: pull.Touch, OwnTLS: src.File != "",
		MaxHosts: cmp.Or(max(c.MaxHosts, 0), defaultMaxHosts), Parallel: cmp.Or(max(c.Concurrency, 0), files.Parallel), TokenFields: src.TokenFields,
		StopsAtHead: c.Runtime != "" && files.HeadOnly, Credentials: w.credentials, Fetching: w.fetching, Once: w.once, Timed: w.timed, Recorded: w.recorded,
	}
	w.run.Requests.UserAgent = cmp.Or(c.UserAgent, registry.DefaultAgent)
	if c.Complete {
		w.run.Depth = pull.Complete
	}
	return w
}

// pull walks the source and writes what was seen into the map.
func (w *walk) pull(ctx context.Context) {
	defer w.close()
	if w.src.HTTPSFirst && !w.chooseScheme(ctx) {
		return
	}
	target, err := pull.TargetOf(w.run.Requests.Base, w.role(), w.foundBy())
	if err != nil {
		w.m.unknown("the source cannot be asked: " + err.Error())
		return
	}
	w.run.Walk(ctx, w.run.Base(ctx, target))
	w.run.Wait()
	w.report()
}

func (w *walk) role() registry.Role {
	if w.src.Kind == noderuntime.KindMirror {
		return RoleMirror
	}
	return RoleManifest
}

// foundBy is how the source came to be asked.
func (w *walk) foundBy() string {
	if w.src.Kind == noderuntime.KindMirror {
		return w.src.File
	}
	return "the image name"
}

// Open dials a host when it is asked for the first time.
func (w *walk) Open(_ context.Context, h *pull.Host) pull.Way {
	u := &url.URL{Scheme: h.Scheme, Host: h.HostPort()}
	src := w.settings(h.OwnRoots)
	p := &registry.Pool{Dial: w.dial(u, src), Header: w.c.Header, Idle: w.c.Idle}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.https != nil && len(w.pools) == 0 {
		p = w.https
	}
	w.pools = append(w.pools, p)
	if proxy, err := w.proxy(u); err == nil && proxy != nil {
		forwarded := registry.Forward(proxy, u.Scheme)
		if forwarded {
			p.Proxy = proxy
		}
		h.Through(registry.HostPort(proxy), forwarded)
	}
	return pull.Opened(p)
}

// Met makes walk a [pull.Opener].
func (w *walk) Met(context.Context, *pull.Host, pull.Target) {}

// settings are those of the source, none where a layer names a place of its own and the
// runtime asks there without them.
func (w *walk) settings(ownRoots bool) noderuntime.Source {
	if ownRoots {
		return noderuntime.Source{}
	}
	return w.src
}

func (w *walk) close() {
	for _, p := range w.pools {
		p.Close()
	}
}

// resource is how a keychain is asked for an image. Docker Hub has another name there.
type resource struct{ registry, repository string }

func (r resource) String() string      { return r.registry + "/" + r.repository }
func (r resource) RegistryStr() string { return r.registry }

// credentials asks the keychain. Anonymous is no error.
func (w *walk) credentials(ctx context.Context, _ *pull.Host) ([]pull.Credential, *pull.Step) {
	anonymous := func(unmatched bool) []pull.Credential {
		info := registry.CredentialInfo{Source: "anonymous", Unmatched: unmatched}
		return []pull.Credential{{Info: info, Accepted: info}}
	}
	if w.c.Keychain == nil || w.src.Credential == noderuntime.CredentialNone {
		return anonymous(false), nil
	}
	target := resource{w.m.Reference.Registry, w.m.Reference.Repository}
	if target.registry == registry.DockerHub {
		target.registry = name.DefaultRegistry
	}
	a, err := authn.Resolve(ctx, w.c.Keychain, target)
	var conf *authn.AuthConfig
	if err == nil {
		conf, err = authn.Authorization(ctx, a)
	}
	if err != nil {
		return nil, &pull.Step{ID: pull.StepSecrets, Status: pull.StatusInconclusive, Reason: "the keychain gave nothing: " + classify.Redact(err.Error(), 200)}
	}
	secret := registry.Credential{Username: conf.Username, Password: conf.Password, IdentityToken: conf.IdentityToken, RegistryToken: conf.RegistryToken}
	if secret.IsZero() {
		return anonymous(true), nil
	}
	info := secret.Info("keychain")
	return []pull.Credential{{Secret: secret, Info: info, Accepted: info}}, nil
}

// fetching notes what the node has already, and the sizes of the blobs.
func (w *walk) fetching(_ *pull.Host, m *registry.Manifest) {
	blobs := m.Blobs()
	w.m.Layers, w.sizes = len(blobs)-1, map[string]int64{}
	for _, d := range blobs {
		w.sizes[d.Digest] = d.Size
	}
	store, err := w.files.Store()
	if store == nil || err != nil {
		return // told with the sources
	}
	held, findings := store.Present(m)
	for _, d := range held {
		w.m.Present = append(w.m.Present, d.Digest)
	}
	w.m.findings = append(w.m.findings, findings...)
}

// once leaves out what this runtime does not ask.
func (w *walk) once(_, own context.Context, _ *pull.Host, _ string, ask func(context.Context) pull.Step) (pull.Step, bool) {
	if !w.files.Client.Pings {
		return pull.Step{ID: pull.StepPing, Status: pull.StatusSkipped, Reason: "the runtime does not ask"}, true
	}
	return ask(own), true
}

// timed tells the caller about the bytes that a request brings.
func (w *walk) timed(ctx context.Context, _ *pull.Host, s pull.Step, ask func(context.Context, func(int64)) pull.Outcome) pull.Outcome {
	w.telling.Lock()
	if w.begun[s.Subject].IsZero() {
		w.begun[s.Subject] = time.Now()
	}
	w.telling.Unlock()
	return ask(ctx, func(n int64) { w.arrived(s.Subject, n) })
}

func (w *walk) arrived(digest string, n int64) {
	w.telling.Lock()
	defer w.telling.Unlock()
	if w.c.OnBytes != nil {
		w.c.OnBytes(n)
	}
	p := w.progress[digest]
	if p == nil {
		p = &Progress{Digest: digest, Source: cmp.Or(w.run.Requests.Origin().Host, w.src.Host), Size: w.sizes[digest]}
		w.progress[digest] = p
	}
	before := p.Bytes / progressStep
	p.Bytes += n
	if w.c.OnProgress == nil || p.Bytes/progressStep == before && p.Bytes < p.Size {
		return
	}
	if elapsed := time.Since(w.begun[digest]); elapsed > 0 {
		p.BytesPerSecond = int64(float64(p.Bytes) / elapsed.Seconds())
	}
	w.c.OnProgress(*p)
}

func (w *walk) recorded(at pull.Endpoint, s pull.Step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken = append(w.taken, taken{at, s})
}

// report writes what was seen into the map: blobs in the order of the image, and what
// comes before them in the order in which it was asked.
func (w *walk) report() {
	slices.SortStableFunc(w.taken, func(a, b taken) int {
		return cmp.Or(cmp.Compare(phase(a.step), phase(b.step)), cmp.Compare(blobIndex(a.step), blobIndex(b.step)))
	})
	for _, h := range w.run.Hosts() {
		e := h.Log()
		if slices.ContainsFunc(e.Steps, func(s pull.Step) bool { return phase(s) == 2 && s.Request != nil }) && !slices.Contains(e.Roles, RoleBlob) {
			e.Roles = append(e.Roles, RoleBlob)
		}
		w.use(e, h.OwnRoots)
	}
	stopped := false // at the ping: what comes after it is nothing of the runtime's
	for _, t := range w.taken {
		stopped = stopped || t.step.ID == pull.StepPing && t.step.Status == pull.StatusFailed
		if stopped && t.step.ID != pull.StepPing {
			t.step.Findings, t.step.Reason = nil, ""
		}
		w.add(t)
	}
	log := w.run.Log()
	if log.Overflow > 0 {
		f := classify.New(classify.EndpointTooManyHosts, "the pull leads to more hosts than are followed")
		f.Severity, f.Endpoint = classify.SeverityWarn, w.run.Requests.Origin().Host
		w.m.findings = append(w.m.findings, f)
		w.m.unknown(f.Summary)
	}
	w.m.Digest = cmp.Or(log.Digest, w.m.Digest)
	held, complete := w.run.Finished && !stopped, true
	for _, r := range w.run.Blobs {
		held = held && r != nil && r.Outcome == OutcomeHeld
		complete = complete && r != nil && r.Complete
	}
	w.m.Held = held && log.Overflow == 0 && w.m.Inconclusive == ""
	w.m.Complete = complete && w.m.Held
}

func phase(s pull.Step) int {
	switch s.ID {
	case pull.StepPing:
		return 0
	case pull.StepConfig, pull.StepLayer:
		return 2
	}
	return 1
}

func blobIndex(s pull.Step) int {
	if phase(s) == 2 {
		return s.Index
	}
	return 0
}

// use adds a host to the map, and the proxy before it.
func (w *walk) use(e pull.Endpoint, ownRoots bool) {
	u := &url.URL{Scheme: e.Scheme, Host: e.HostPort()}
	use := HostUse{
		Scheme: e.Scheme, Host: e.Host, Port: u.Port(), Roles: e.Roles, Proxy: e.Via, Settings: w.settings(ownRoots).File,
		FoundBy: strings.TrimPrefix(strings.TrimPrefix(e.FoundBy, "the challenge of "), "a redirect of "),
	}
	if proxy, err := w.proxy(u); err == nil && proxy != nil {
		p := &url.URL{Host: registry.HostPort(proxy)}
		w.m.touch(HostUse{Scheme: proxy.Scheme, Host: p.Hostname(), Port: p.Port(), Roles: []Role{RoleProxy}, FoundBy: "the runtime's environment"}, w.addrs)
	}
	w.m.touch(use, w.addrs)
}

// add adds a step to the map.
func (w *walk) add(t taken) {
	s := t.step
	if r := s.Request; r != nil {
		w.m.Requests = append(w.m.Requests, (*RequestReport)(&r.Request))
		if r.Role == RoleBlob {
			w.m.Bytes += r.Bytes - r.Offset
		}
	}
	if a := s.Access; a != nil {
		for i, attempt := range a.Attempts {
			w.m.Requests = append(w.m.Requests, tokenRequest(attempt, a.TokenIssued && i == len(a.Attempts)-1, t.at))
		}
	}
	if s.Status == pull.StatusInconclusive && s.Reason != "" {
		w.m.unknown(s.Reason)
	}
	trusts, found := w.trusts(s.Request), slices.Clone(s.Findings)
	if s.ID == pull.StepChallenge { // a token server that looks wrong
		found = s.Request.Found
	}
	slices.SortStableFunc(found, func(a, b classify.Finding) int { // what a layer's own place means for the pull says more
		return cmp.Compare(foreign(b), foreign(a))
	})
	for _, f := range found {
		if f.Endpoint == t.at.HostPort() {
			f.Endpoint = shown(t.at)
		}
		if f.Layer == classify.LayerTLS && trusts {
			f.Severity = classify.SeverityWarn
			s.Request.Unknown(errNotVerified)
			w.m.unknown(errNotVerified)
		}
		w.m.found = append(w.m.found, f)
	}
}

func foreign(f classify.Finding) int {
	if f.Cause == classify.EndpointForeignLayerURL && f.Severity == classify.SeverityFail {
		return 1
	}
	return 0
}

// trusts reports whether a request failed at a certificate that the runtime would not look
// at: it would go on, and nothing of ours is sent over such a connection.
func (w *walk) trusts(r *registry.Report) bool {
	return r != nil && r.Outcome == OutcomeFailed && r.Status == 0 && w.settings(r.Foreign() && !w.files.Client.ForeignSettings).SkipVerify
}

const errNotVerified = "the runtime does not verify the certificate here, and nothing is sent over a connection that was not verified"

// shown is host[:port] of an endpoint as a URL has it, without the port of its scheme.
func shown(e pull.Endpoint) string {
	if e.Scheme == "https" && e.Port == 443 || e.Scheme == "http" && e.Port == 80 {
		host, _, _ := strings.Cut(e.HostPort()+" ", fmt.Sprintf(":%d ", e.Port))
		return host
	}
	return e.HostPort()
}

// tokenRequest is a request of a token exchange.
func tokenRequest(a registry.TokenAttempt, held bool, at pull.Endpoint) *RequestReport {
	r := &RequestReport{
		Operation: classify.OperationFetchToken, Role: RoleToken, Method: a.Method, URL: a.URL, Host: at.HostPort(), Hop: 1,
		Status: a.Status, Credentialed: a.Credentialed, ElapsedMS: a.ElapsedMS, Outcome: OutcomeFailed,
	}
	if u, err := url.Parse(a.URL); err == nil && u.Host != "" {
		r.Host = registry.HostPort(u) // or where it was redirected to
	}
	if held {
		r.Outcome = OutcomeHeld
	}
	return r
}
