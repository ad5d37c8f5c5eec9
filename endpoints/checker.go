package endpoints

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/wire"
)

// Dialer opens the connections of a [Checker]. [net.Dialer] is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// DialerFunc makes a function a [Dialer].
type DialerFunc func(ctx context.Context, network, address string) (net.Conn, error)

// DialContext calls f.
func (f DialerFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// Checker walks a whole pull by itself, step after step over one connection at a
// time. It does not look at the ladder below a request: why a name does not
// resolve or a connection is refused is for the other probes to say.
//
// The zero Checker asks anonymously, from this machine, with the system's roots.
// It goes straight to every host: no proxy and no mirror is used.
type Checker struct {
	Dialer    Dialer           // nil = this machine's
	Roots     *x509.CertPool   // nil = the system's
	Keychain  authn.Keychain   // nil = anonymous
	Platform  string           // "" = this machine's architecture on linux
	UserAgent string           // "" = "pullwalk"
	Mode      Mode             // how much of every layer is read; 0 = First64K
	Connect   time.Duration    // limit of name and connection; 0 = 5 s
	Handshake time.Duration    // limit of the TLS handshake; 0 = 10 s
	MaxHosts  int              // 0 = 32
	OnBytes   func(n int64)    // more bytes of a blob arrived; nil = nobody is told
	Now       func() time.Time // the time that certificates are judged by; nil = time.Now
	// AllowAddr refuses addresses that a server-given URL must not lead to; nil
	// refuses link-local and the metadata services of clouds. A refused address
	// makes the walk inconclusive.
	AllowAddr func(netip.AddrPort) error
}

const (
	defaultConnect   = 5 * time.Second
	defaultHandshake = 10 * time.Second
	defaultMaxHosts  = 32
)

// Check walks the pull of image: manifest by HEAD, token, index, platform
// manifest, config, and one request per layer with every redirect. The error
// means that image or Platform makes no sense; whatever the registry does is in
// the Map. When ctx ends, the Map says how far it got.
func (c *Checker) Check(ctx context.Context, image string) (*Map, error) {
	ref, err := ParseReference(image)
	if err != nil {
		return nil, err
	}
	platform, err := ParsePlatform(c.Platform)
	if err != nil {
		return nil, err
	}
	t := &trip{c: c, m: &Map{Reference: ref, Platform: platform}, pools: map[string]*wire.Pool{}}
	defer t.close()
	source := defaultSource(ref)
	t.w = &Walk{Reference: ref, Base: source.Base, UserAgent: cmp.Or(c.UserAgent, defaultAgent), OnBytes: c.OnBytes}
	if source.HTTPSFirst {
		if err := t.chooseScheme(ctx); err != nil {
			return t.m, nil
		}
	}
	t.run(ctx)
	return t.m, nil
}

// trip is one walk of a Checker.
type trip struct {
	c     *Checker
	w     *Walk
	m     *Map
	pools map[string]*wire.Pool
}

func (t *trip) close() {
	for _, p := range t.pools {
		p.Close()
	}
}

var errTooManyHosts = errors.New("the pull leads to more hosts than are followed")

// pool returns the connections to the host of u and notes the host.
func (t *trip) pool(u *url.URL, role Role, foundBy string) (*wire.Pool, error) {
	key := u.Scheme + "://" + hostPort(u)
	p, ok := t.pools[key]
	if !ok {
		limit := t.c.MaxHosts
		if limit <= 0 {
			limit = defaultMaxHosts
		}
		if len(t.pools) >= limit {
			f := classify.New(classify.EndpointTooManyHosts, "the pull leads to more hosts than are followed")
			f.Severity, f.Endpoint = classify.SeverityWarn, u.Host
			t.m.findings = append(t.m.findings, f)
			t.unknown(errTooManyHosts.Error())
			return nil, errTooManyHosts
		}
		p = &wire.Pool{Dial: t.c.dial(u)}
		t.pools[key] = p
	}
	host, port, _ := net.SplitHostPort(hostPort(u))
	i := slices.IndexFunc(t.m.Touched, func(h HostUse) bool { return h.Scheme == u.Scheme && h.Host == host && h.Port == port })
	if i < 0 {
		t.m.Touched = append(t.m.Touched, HostUse{Scheme: u.Scheme, Host: host, Port: port, FoundBy: foundBy})
		i = len(t.m.Touched) - 1
	}
	if h := &t.m.Touched[i]; !slices.Contains(h.Roles, role) {
		h.Roles = append(h.Roles, role)
	}
	return p, nil
}

func (t *trip) unknown(reason string) {
	if t.m.Inconclusive == "" {
		t.m.Inconclusive = reason
	}
}

// note adds a request to the map.
func (t *trip) note(r *RequestReport) *RequestReport {
	t.m.Requests = append(t.m.Requests, r)
	if r.asked.kind == askBlob {
		t.m.Bytes += r.Bytes
	}
	if r.Inconclusive != "" {
		t.unknown(r.Inconclusive)
	}
	return r
}

// run orders the steps. Each needs the one before.
func (t *trip) run(ctx context.Context) {
	r := t.resolve(ctx, "HEAD")
	if r != nil && r.NeedsGet() {
		r = t.resolve(ctx, "GET")
	}
	if r == nil || !r.Held() {
		return
	}
	t.m.Digest = r.Digest
	m := t.image(ctx, r.Digest)
	if m == nil {
		return
	}
	blobs := m.Blobs()
	t.m.Layers = len(blobs) - 1
	held, complete := true, true
	for _, d := range blobs {
		r := t.blob(ctx, d)
		held = held && r != nil && r.Outcome == OutcomeHeld
		complete = complete && r != nil && r.Complete
		if ctx.Err() != nil {
			break
		}
	}
	t.m.Held = held && t.m.Inconclusive == ""
	t.m.Complete = complete && t.m.Inconclusive == ""
}

// resolve asks what the reference means, with a token if one is demanded, and
// across redirects.
func (t *trip) resolve(ctx context.Context, method string) *RequestReport {
	rt, err := t.pool(t.w.base(), RoleManifest, "the image name")
	if err != nil {
		return nil
	}
	r := t.note(t.w.Resolve(ctx, rt, method))
	if r.NeedsToken() && t.authorize(ctx, r) {
		r = t.note(t.w.Resolve(ctx, rt, method))
	}
	for r.Redirect() != nil {
		if rt, err = t.pool(r.Redirect(), RoleManifest, r.Host); err != nil {
			return nil
		}
		r, _ = t.w.FollowManifest(ctx, rt, r)
		t.note(r)
	}
	return r
}

// maxIndexDepth bounds indexes that list indexes.
const maxIndexDepth = 3

// image gets the manifest of the platform.
func (t *trip) image(ctx context.Context, digest string) *Manifest {
	var mediaType string
	for range maxIndexDepth {
		m := t.manifest(ctx, digest, mediaType)
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
	t.unknown("the index lists indexes more than three deep")
	return nil
}

func (t *trip) manifest(ctx context.Context, digest, mediaType string) *Manifest {
	rt, err := t.pool(t.w.base(), RoleManifest, "the image name")
	if err != nil {
		return nil
	}
	r, m := t.w.Manifest(ctx, rt, digest, mediaType)
	t.note(r)
	for r.Redirect() != nil {
		if rt, err = t.pool(r.Redirect(), RoleManifest, r.Host); err != nil {
			return nil
		}
		r, m = t.w.FollowManifest(ctx, rt, r)
		t.note(r)
	}
	return m
}

func (t *trip) blob(ctx context.Context, d Descriptor) *RequestReport {
	rt, err := t.pool(t.w.base(), RoleBlob, "the image name")
	if err != nil {
		return nil
	}
	r := t.note(t.w.Blob(ctx, rt, d, t.c.Mode))
	for r.Redirect() != nil {
		if rt, err = t.pool(r.Redirect(), RoleBlob, r.Host); err != nil {
			return nil
		}
		r = t.note(t.w.Follow(ctx, rt, r, d, t.c.Mode))
	}
	return r
}
