package endpoints

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/wire"
)

// trip is one walk of a Checker at one source.
type trip struct {
	c   *Checker
	w   *Walk
	m   *Map
	src Source
	way Way

	mu    sync.Mutex // guards what several blobs share
	pools map[string]*host
	addrs map[string][]netip.Addr // where connections went, by pool
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
		f.Severity, f.Endpoint = classify.SeverityWarn, t.w.base().Host
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
	key := u.Scheme + "://" + hostPort(u)
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
		p = &host{Pool: wire.Pool{Dial: t.dial(u), Header: t.c.Header, Idle: t.c.Idle}, slots: make(chan struct{}, t.parallel())}
		t.pools[key] = p
	}
	t.mu.Unlock()
	name, port, _ := net.SplitHostPort(hostPort(u))
	use := HostUse{Scheme: u.Scheme, Host: name, Port: port, Roles: []Role{role}, FoundBy: foundBy, Settings: t.src.File}
	if proxy, err := t.proxy(u); err == nil && proxy != nil {
		use.Proxy = hostPort(proxy)
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
			use.Provider, _ = Known(use.Host)
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
		if r.asked.kind == askBlob {
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
	if !t.src.SkipVerify || r.Outcome != OutcomeFailed {
		return
	}
	for i, f := range r.findings {
		if f.Layer == classify.LayerTLS && r.Status == 0 {
			r.findings[i].Severity = classify.SeverityWarn
			r.unknown("the runtime does not verify the certificate here, and nothing is sent over a connection that was not verified")
		}
	}
}

// origin is how a source came to be asked.
func (t *trip) origin() (Role, string) {
	if t.src.Kind == KindMirror {
		return RoleMirror, t.src.File
	}
	return RoleManifest, "the image name"
}

// run orders the steps. Each needs the one before.
func (t *trip) run(ctx context.Context) {
	l := &ledger{}
	if t.way.Pings() {
		r := t.ping(ctx, l)
		t.merge(l)
		if r == nil || !r.Held() && !r.NeedsToken() {
			return
		}
	}
	r := t.resolve(ctx, l, t.way.Method())
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
	if t.c.FS == nil || t.way != "" && t.way != WayContainerd {
		return
	}
	store, err := OpenContentStore(t.c.FS, t.c.ConfigFile)
	if err != nil {
		return // told with the sources
	}
	held, findings := store.Present(m)
	for _, d := range held {
		t.m.Present = append(t.m.Present, d.Digest)
	}
	t.m.findings = append(t.m.findings, findings...)
}

// blobs walks every blob, a few at once and begun in their order, and returns the
// last report of each. A runtime reads the config before it asks for a layer; here
// nothing depends on it, so the layers do not wait. When only the first bytes are read, as many more are on
// their way: while bytes come from one host, the registry is asked for the next
// blob. No host is asked more at once than the runtime would. Whole downloads do
// not begin ahead, because a signed address may expire while it waits.
func (t *trip) blobs(ctx context.Context, blobs []Descriptor, modes []Mode) []*RequestReport {
	logs := make([]ledger, len(blobs))
	last := make([]*RequestReport, len(blobs))
	ahead := t.parallel()
	if t.c.Mode != Whole {
		ahead *= 2
	}
	slots := make(chan struct{}, ahead)
	var running sync.WaitGroup
	for i, d := range blobs {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			mode := t.c.Mode
			if mode == First64K {
				mode = modes[i]
			}
			last[i] = t.blob(ctx, &logs[i], d, mode)
		})
	}
	running.Wait()
	for i := range logs {
		t.merge(&logs[i])
	}
	return last
}

func (t *trip) parallel() int {
	if t.c.Concurrency > 0 {
		return t.c.Concurrency
	}
	return t.way.Parallel()
}

// host is one host of a trip: its connections, and how many requests may use them
// at once.
type host struct {
	wire.Pool
	slots chan struct{}
}

// ask makes one request step at a host, when it is its turn there.
func (h *host) ask(ctx context.Context, step func(http.RoundTripper) *RequestReport) *RequestReport {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done(): // the step says so
	}
	return step(h)
}

func (t *trip) ping(ctx context.Context, l *ledger) *RequestReport {
	role, by := t.origin()
	rt, err := t.pool(l, t.w.base(), role, by)
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
	rt, err := t.pool(l, t.w.base(), role, by)
	if err != nil {
		return nil
	}
	r := l.note(t.w.Resolve(ctx, rt, method))
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
				f.Endpoint = t.w.base().Host
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
	rt, err := t.pool(l, t.w.base(), role, by)
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

// blob walks one blob: its foreign places first, then the source, then the rest of
// a download that broke off.
func (t *trip) blob(ctx context.Context, l *ledger, d Descriptor, mode Mode) *RequestReport {
	w := *t.w
	w.OnBytes = t.progress(&w, d)
	for _, u := range d.ForeignURLs() {
		rt, err := t.pool(l, u, RoleBlob, "the manifest")
		if err != nil {
			return nil
		}
		r := rt.ask(ctx, func(rt http.RoundTripper) *RequestReport { return w.Foreign(ctx, rt, u, d, mode) })
		r = t.follow(ctx, l, &w, r, d, mode)
		if r == nil || r.Outcome != OutcomeNotNeeded {
			return r
		}
	}
	_, by := t.origin()
	ask := func(step func(http.RoundTripper) *RequestReport) *RequestReport {
		h, err := t.pool(l, t.w.base(), RoleBlob, by)
		if err != nil {
			return nil
		}
		return t.follow(ctx, l, &w, h.ask(ctx, step), d, mode)
	}
	r := ask(func(rt http.RoundTripper) *RequestReport { return w.Blob(ctx, rt, d, mode) })
	for r != nil && r.Resumable() {
		broken := r
		if r = ask(func(rt http.RoundTripper) *RequestReport { return w.Resume(ctx, rt, broken, d) }); r != nil {
			broken.mended(r)
		}
	}
	if r != nil && mode == Ranged64K && r.Outcome == OutcomeFailed {
		ranged := r
		mode = First64K
		r = ask(func(rt http.RoundTripper) *RequestReport { return w.Blob(ctx, rt, d, mode) })
		if findings := CompareRange(ranged, r); findings != nil {
			ranged.Outcome, ranged.findings = OutcomeNotNeeded, findings
		}
	}
	return r
}

// follow takes the redirects of one blob request.
func (t *trip) follow(ctx context.Context, l *ledger, w *Walk, r *RequestReport, d Descriptor, mode Mode) *RequestReport {
	l.note(r)
	for r.Redirect() != nil {
		h, err := t.pool(l, r.Redirect(), RoleBlob, r.Host)
		if err != nil {
			return nil
		}
		prev := r
		r = l.note(h.ask(ctx, func(rt http.RoundTripper) *RequestReport { return w.Follow(ctx, rt, prev, d, mode) }))
	}
	return r
}

// progress returns what tells the caller about the bytes of one blob.
func (t *trip) progress(w *Walk, d Descriptor) func(int64) {
	if t.c.OnBytes == nil && t.c.OnProgress == nil {
		return nil
	}
	start := time.Now()
	var bytes, told int64
	return func(n int64) {
		t.telling.Lock()
		defer t.telling.Unlock()
		if t.c.OnBytes != nil {
			t.c.OnBytes(n)
		}
		bytes += n
		if t.c.OnProgress == nil || bytes-told < progressStep && bytes < d.Size {
			return
		}
		told = bytes
		p := Progress{Digest: d.Digest, Source: cmp.Or(w.base().Host, t.src.Host), Bytes: bytes, Size: d.Size}
		if elapsed := time.Since(start); elapsed > 0 {
			p.BytesPerSecond = int64(float64(bytes) / elapsed.Seconds())
		}
		t.c.OnProgress(p)
	}
}

// Progress is how the download of one blob stands.
type Progress struct {
	Digest         string
	Source         string // host[:port] that was asked for it; its bytes may come from elsewhere
	Bytes, Size    int64  // arrived, of how many; Size 0 = not known
	BytesPerSecond int64  // since the blob was asked for
}

const progressStep = 256 << 10
