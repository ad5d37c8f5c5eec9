package endpoints

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// trip is one walk of a Checker at one source.
type trip struct {
	c     *Checker
	w     *Walk
	m     *Map
	src   noderuntime.Source
	files noderuntime.Files

	mu    sync.Mutex // guards what several blobs share
	pools map[string]*host
	addrs map[string][]netip.Addr // where connections went, by pool
	// pinged is the answer to the ping, nil if there was none.
	pinged *RequestReport
	// full says that more hosts were met than are followed.
	full bool

	telling sync.Mutex // OnBytes and OnProgress are called one at a time
}

// walk is the whole walk at the source.
func (t *trip) walk(ctx context.Context) {
	defer t.close()
	if t.src.HTTPSFirst {
		if err := t.chooseScheme(ctx); err != nil {
			return
		}
	}
	t.run(ctx)
}

func (t *trip) close() {
	for _, p := range t.pools {
		p.Close()
	}
	for i := range t.m.Touched {
		h := &t.m.Touched[i]
		h.note(t.addrs[h.key()])
	}
	if t.full {
		f := classify.New(classify.EndpointTooManyHosts, "the pull leads to more hosts than are followed")
		f.Severity, f.Endpoint = classify.SeverityWarn, t.w.Origin().Host
		t.m.findings = append(t.m.findings, f)
		t.m.unknown(errTooManyHosts.Error())
	}
}

var errTooManyHosts = errors.New("the pull leads to more hosts than are followed")

// ledger is what one chain of requests adds to the map. Blobs are walked at once and
// each keeps its own, so that the map has them in the image's order.
type ledger struct {
	touched  []HostUse
	requests []*RequestReport
}

func (l *ledger) note(r *RequestReport) *RequestReport {
	l.requests = append(l.requests, r)
	return r
}

// pool returns the connections to the host of u and notes the host.
func (t *trip) pool(l *ledger, u *url.URL, role Role, foundBy string) (*host, error) {
	return t.poolWith(l, t.src, u, role, foundBy)
}

// foreign are the settings that hold at the places that a layer names itself: of
// the source's for CRI-O and docker, none for containerd.
func (t *trip) foreign() noderuntime.Source {
	if t.files.Client.ForeignSettings {
		return t.src
	}
	return noderuntime.Source{}
}

func (t *trip) poolWith(l *ledger, src noderuntime.Source, u *url.URL, role Role, foundBy string) (*host, error) {
	// Where the source's settings hold and where they do not, connections are trusted
	// otherwise.
	key := u.Scheme + "://" + registry.HostPort(u) + " " + src.File
	t.mu.Lock()
	p, ok := t.pools[key]
	if !ok {
		limit := t.c.MaxHosts
		if limit <= 0 {
			limit = defaultMaxHosts
		}
		if len(t.pools) >= limit {
			t.full = true
			t.mu.Unlock()
			return nil, errTooManyHosts
		}
		p = &host{Pool: registry.Pool{Dial: t.dial(u, src), Header: t.c.Header, Idle: t.c.Idle}, slots: make(chan struct{}, t.parallel())}
		if proxy, err := t.proxy(u); err == nil && proxy != nil && registry.Forward(proxy, u.Scheme) {
			p.Proxy = proxy
		}
		t.pools[key] = p
	}
	t.mu.Unlock()
	name, port, _ := net.SplitHostPort(registry.HostPort(u))
	use := HostUse{Scheme: u.Scheme, Host: name, Port: port, Roles: []Role{role}, FoundBy: foundBy, Settings: src.File}
	if proxy, err := t.proxy(u); err == nil && proxy != nil {
		use.Proxy = registry.HostPort(proxy)
		ph, pp, _ := net.SplitHostPort(use.Proxy)
		l.touched = append(l.touched, HostUse{Scheme: proxy.Scheme, Host: ph, Port: pp, Roles: []Role{RoleProxy}, FoundBy: "the runtime's environment"})
	}
	l.touched = append(l.touched, use)
	return p, nil
}

// merge adds a log to the map.
func (t *trip) merge(l *ledger) {
	for _, use := range l.touched {
		i := slices.IndexFunc(t.m.Touched, func(h HostUse) bool { return h.key() == use.key() })
		if i < 0 {
			use.Provider, _ = noderuntime.Known(use.Host)
			t.m.Touched = append(t.m.Touched, use)
			continue
		}
		if h := &t.m.Touched[i]; !slices.Contains(h.Roles, use.Roles[0]) {
			h.Roles = append(h.Roles, use.Roles[0])
		}
	}
	for _, r := range l.requests {
		t.notVerified(r)
		t.m.Requests = append(t.m.Requests, r)
		if r.Role == RoleBlob {
			t.m.Bytes += r.Bytes - r.Offset
		}
		if r.Inconclusive != "" {
			t.m.unknown(r.Inconclusive)
		}
	}
	*l = ledger{}
}

// notVerified turns a certificate that does not hold into something unknown where
// the runtime would not look at it: it would go on, and nothing of ours is sent
// over such a connection.
func (t *trip) notVerified(r *RequestReport) {
	src := t.src
	if r.Foreign() {
		src = t.foreign()
	}
	if !src.SkipVerify || r.Outcome != OutcomeFailed {
		return
	}
	for i, f := range r.Found {
		if f.Layer == classify.LayerTLS && r.Status == 0 {
			r.Found[i].Severity = classify.SeverityWarn
			r.Unknown("the runtime does not verify the certificate here, and nothing is sent over a connection that was not verified")
		}
	}
}

// origin is how a source came to be asked.
func (t *trip) origin() (Role, string) {
	if t.src.Kind == noderuntime.KindMirror {
		return RoleMirror, t.src.File
	}
	return RoleManifest, "the image name"
}

// run orders the steps. Each needs the one before.
func (t *trip) run(ctx context.Context) {
	l := &ledger{}
	if t.files.Client.Pings {
		r := t.ping(ctx, l)
		t.pinged = r
		t.merge(l)
		if r == nil || !r.Held() && !r.NeedsToken() {
			return
		}
	}
	r := t.resolve(ctx, l, t.files.Client.Method())
	if r != nil && r.NeedsGet() {
		r = t.resolve(ctx, l, "GET")
	}
	t.merge(l)
	if r == nil || !r.Held() {
		return
	}
	t.m.Digest = r.Digest
	m := t.image(ctx, r.Digest)
	if m == nil {
		return
	}
	t.present(m)
	blobs := m.Blobs()
	t.m.Layers = len(blobs) - 1
	last := t.blobs(ctx, blobs, m.TouchModes())
	held, complete := true, true
	for _, r := range last {
		held = held && r != nil && r.Outcome == OutcomeHeld
		complete = complete && r != nil && r.Complete
	}
	t.m.Held = held && !t.full && t.m.Inconclusive == ""
	t.m.Complete = complete && t.m.Held
}

// present says which blobs the node has already.
func (t *trip) present(m *Manifest) {
	store, err := t.files.Store()
	if store == nil || err != nil {
		return // told with the sources
	}
	held, findings := store.Present(m)
	for _, d := range held {
		t.m.Present = append(t.m.Present, d.Digest)
	}
	t.m.findings = append(t.m.findings, findings...)
}

func (t *trip) ping(ctx context.Context, l *ledger) *RequestReport {
	role, by := t.origin()
	rt, err := t.pool(l, t.w.Origin(), role, by)
	if err != nil {
		return nil
	}
	r := l.note(t.w.Ping(ctx, rt))
	for r.Redirect() != nil {
		if rt, err = t.pool(l, r.Redirect(), role, r.Host); err != nil {
			return nil
		}
		r, _ = t.w.FollowManifest(ctx, rt, r)
		l.note(r)
	}
	return r
}

// resolve asks what the reference means, with a token if one is demanded, and
// across redirects.
func (t *trip) resolve(ctx context.Context, l *ledger, method string) *RequestReport {
	role, by := t.origin()
	rt, err := t.pool(l, t.w.Origin(), role, by)
	if err != nil {
		return nil
	}
	r := l.note(t.w.Resolve(ctx, rt, method))
	if differ := t.w.ComparePing(t.pinged, r); differ != nil {
		t.m.findings = append(t.m.findings, differ...)
		if differ[0].Severity == classify.SeverityFail {
			return r // the runtime has no token to ask for
		}
	}
	if r.NeedsToken() && t.authorize(ctx, l, r) {
		r = l.note(t.w.Resolve(ctx, rt, method))
	}
	for r.Redirect() != nil {
		if rt, err = t.pool(l, r.Redirect(), RoleManifest, r.Host); err != nil {
			return nil
		}
		r, _ = t.w.FollowManifest(ctx, rt, r)
		l.note(r)
	}
	return r
}

// maxIndexDepth bounds indexes that list indexes, and so ends a circle of them.
const maxIndexDepth = 3

// image gets the manifest of the platform.
func (t *trip) image(ctx context.Context, digest string) *Manifest {
	l := &ledger{}
	defer func() { t.merge(l) }()
	var mediaType string
	for range maxIndexDepth {
		m := t.manifest(ctx, l, digest, mediaType)
		if m == nil || !m.Index {
			return m
		}
		d, err := m.Select(t.m.Platform)
		if err != nil {
			var f classify.Finding
			if errors.As(err, &f) {
				f.Endpoint = t.w.Origin().Host
				t.m.findings = append(t.m.findings, f)
			}
			return nil
		}
		digest, mediaType = d.Digest, d.MediaType
	}
	t.m.unknown("the index lists indexes more than three deep")
	return nil
}

func (t *trip) manifest(ctx context.Context, l *ledger, digest, mediaType string) *Manifest {
	role, by := t.origin()
	rt, err := t.pool(l, t.w.Origin(), role, by)
	if err != nil {
		return nil
	}
	r, m := t.w.Manifest(ctx, rt, digest, mediaType)
	l.note(r)
	for r.Redirect() != nil {
		if rt, err = t.pool(l, r.Redirect(), RoleManifest, r.Host); err != nil {
			return nil
		}
		r, m = t.w.FollowManifest(ctx, rt, r)
		l.note(r)
	}
	return m
}
