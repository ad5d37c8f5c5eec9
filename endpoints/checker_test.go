package endpoints

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// world is a registry, a token server and a blob host on loopback, with one
// private root, reached by name through a dialer.
type world struct {
	authMoved string // where the token server redirects to; "" = it does not
	roots     *x509.CertPool
	servers   map[string]*httptest.Server // by host:port as the client asks
	content   map[string]string           // by digest
	tag       string                      // digest of :1
	layer     string                      // digest of the large layer
	// blob answers in place of the blob host, nil for the good one.
	blob http.HandlerFunc
	// headBlob is the registry's status to the HEAD of a blob, 0 for the good one.
	headBlob int
	teams    []string // hosts that got X-Team
	openPing bool     // /v2/ itself asks for nothing
	mu       sync.Mutex
	began    time.Time
	seen     []string // "METHOD host path authorization?"
}

const (
	indexJSON   = `{"schemaVersion":2,"mediaType":"` + typeOCIIndex + `","manifests":[{"mediaType":"` + typeOCIManifest + `","digest":"%s","size":%d,"platform":{"os":"linux","architecture":"amd64"}}]}`
	secretToken = "t0ps3cret"
)

func newWorld(t testing.TB) *world {
	w := &world{roots: x509.NewCertPool(), servers: map[string]*httptest.Server{}, content: map[string]string{}}
	layer := strings.Repeat("layer data ", 20000)
	put := func(s string) string { w.content[sum(s)] = s; return sum(s) }
	w.layer = put(layer)
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"digest":%q,"size":2},"layers":[{"digest":%q,"size":%d},{"digest":%q,"size":5},{"digest":%q,"size":5}]}`,
		typeOCIManifest, put("{}"), w.layer, len(layer), put("layer"), put("layer"))
	w.tag = put(fmt.Sprintf(indexJSON, put(manifest), len(manifest)))

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "corp"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"registry.corp.test", "auth.corp.test", "blobs.corp.test"}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	w.roots.AddCert(cert)
	for name, h := range map[string]http.HandlerFunc{"registry.corp.test": w.registry, "auth.corp.test": w.auth, "blobs.corp.test": w.blobs} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.mu.Lock()
			w.seen = append(w.seen, fmt.Sprintf("%s %s%s %t", r.Method, r.Host, r.URL.Path, r.Header.Get("Authorization") != ""))
			if r.Header.Get("X-Team") != "" {
				w.teams = append(w.teams, r.Host)
			}
			w.mu.Unlock()
			h(rw, r)
		}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
		s.StartTLS()
		t.Cleanup(s.Close)
		w.servers[name+":443"] = s
	}
	return w
}

func (w *world) registry(rw http.ResponseWriter, r *http.Request) {
	if w.openPing && r.URL.Path == "/v2/" {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+secretToken {
		rw.Header().Set("Www-Authenticate", `Bearer realm="https://auth.corp.test/token",service="registry.corp.test",scope="repository:team/app:pull"`)
		rw.WriteHeader(401)
		return
	}
	parts := strings.Split(r.URL.Path, "/")
	id := parts[len(parts)-1]
	switch {
	case w.headBlob != 0 && r.Method == http.MethodHead && strings.Contains(r.URL.Path, "/blobs/"):
		rw.WriteHeader(w.headBlob)
		return
	case strings.Contains(r.URL.Path, "/blobs/"):
		http.Redirect(rw, r, "https://blobs.corp.test/"+id+"?sig=SIGNATURE", http.StatusTemporaryRedirect)
		return
	case id == "1":
		id = w.tag
	}
	body, ok := w.content[id]
	if !ok {
		rw.WriteHeader(404)
		_, _ = io.WriteString(rw, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
		return
	}
	var doc struct{ MediaType string }
	_ = json.Unmarshal([]byte(body), &doc)
	rw.Header().Set("Content-Type", doc.MediaType)
	rw.Header().Set("Docker-Content-Digest", id)
	rw.Header().Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = io.WriteString(rw, body)
}

func (w *world) auth(rw http.ResponseWriter, r *http.Request) {
	if w.authMoved != "" && r.URL.Path == "/token" {
		http.Redirect(rw, r, w.authMoved, http.StatusTemporaryRedirect)
		return
	}
	user, password := r.FormValue("username"), r.FormValue("password")
	if user != "robot" || password != "pa55word" {
		rw.WriteHeader(401)
		return
	}
	_, _ = io.WriteString(rw, `{"access_token":"`+secretToken+`","token":"`+secretToken+`"}`)
}

func (w *world) blobs(rw http.ResponseWriter, r *http.Request) {
	if w.blob != nil {
		w.blob(rw, r)
		return
	}
	_, _ = io.WriteString(rw, w.content[strings.TrimPrefix(r.URL.Path, "/")])
}

func (w *world) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	s, ok := w.servers[address]
	if !ok {
		host, _, _ := net.SplitHostPort(address)
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
}

type keychain authn.AuthConfig

func (k keychain) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.FromConfig(authn.AuthConfig(k)), nil
}

func (w *world) checker() *Checker {
	return &Checker{DialContext: w.DialContext, Roots: w.roots, Keychain: keychain{Username: "robot", Password: "pa55word"}, Platform: "linux/amd64", Complete: true}
}

// A token server that moved: on its own origin the form goes along, to another host
// the runtime would send the password and this does not.
func TestCheckTokenServerThatMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.authMoved = "https://auth.corp.test/moved"
	m, err := w.checker().Check(t.Context(), image)
	require.NoError(t, err)
	assert.True(t, m.Complete, m.Findings())
	assert.Contains(t, w.seen, "POST auth.corp.test/moved false")

	w.authMoved = "https://blobs.corp.test/moved?s=s3cr3t"
	m, err = w.checker().Check(t.Context(), image)
	require.NoError(t, err)
	assert.False(t, m.Held)
	assert.Contains(t, m.Inconclusive, "credential withheld")
	assert.NotContains(t, w.seen, "POST blobs.corp.test/moved false")
	assert.Empty(t, m.Findings())
}

// The configured fields go to the registry and its token server, not to the store.
func TestCheckSendsConfiguredFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.checker()
	c.FS = fstest.MapFS{
		"etc/containerd/config.toml":            file("version = 2\n[plugins.'io.containerd.grpc.v1.cri'.registry]\nconfig_path = '/certs.d'\n"),
		"certs.d/registry.corp.test/hosts.toml": file("[header]\nX-Team = 'app'\n"),
	}
	m, err := c.Check(t.Context(), image)
	require.NoError(t, err)
	require.True(t, m.Complete, m.Findings())
	assert.Contains(t, w.teams, "registry.corp.test")
	assert.Contains(t, w.teams, "auth.corp.test")
	assert.NotContains(t, w.teams, "blobs.corp.test")
}

func TestCheckHealthy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, err := w.checker().Check(t.Context(), image)
	require.NoError(t, err)
	require.Empty(t, m.Findings())
	assert.Empty(t, m.Inconclusive)
	assert.True(t, m.Held && m.Complete)
	assert.Equal(t, w.tag, m.Digest)
	assert.Equal(t, 2, m.Layers, "the layer that is listed twice is asked for once")
	loopback := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	assert.Equal(t, []HostUse{
		{Scheme: "https", Host: "registry.corp.test", Port: "443", Roles: []Role{RoleManifest, RoleBlob}, FoundBy: "the image name", Addrs: loopback, Scope: "private"},
		{Scheme: "https", Host: "auth.corp.test", Port: "443", Roles: []Role{RoleToken}, FoundBy: "registry.corp.test:443", Addrs: loopback, Scope: "private"},
		{Scheme: "https", Host: "blobs.corp.test", Port: "443", Roles: []Role{RoleBlob}, FoundBy: "registry.corp.test:443", Addrs: loopback, Scope: "private"},
	}, m.Hosts())
	for _, s := range w.seen {
		if strings.Contains(s, "blobs.corp.test") {
			assert.Contains(t, s, "false", "a credential at the blob host")
		}
	}
	raw, err := json.Marshal(m)
	require.NoError(t, err)
	for _, secret := range []string{secretToken, "pa55word", "SIGNATURE"} {
		assert.NotContains(t, string(raw), secret)
	}
	c := w.checker()
	c.Complete = false
	m, err = c.Check(t.Context(), image)
	require.NoError(t, err)
	assert.True(t, m.Held)
	assert.False(t, m.Complete, "the large layer was not read whole")
}

func TestCheckBroken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		image  string
		change func(*world, *Checker)
		cause  classify.Cause
		at     string
	}{
		{"missing tag", "registry.corp.test/team/app:2", nil, classify.ImageManifestUnknown, "registry.corp.test"},
		{"wrong password", image, func(_ *world, c *Checker) { c.Keychain = keychain{Username: "robot", Password: "no"} }, "", "auth.corp.test"},
		{"platform", image, func(_ *world, c *Checker) { c.Platform = "linux/s390x" }, classify.ImagePlatformMismatch, "registry.corp.test"},
		{"blob host gone", image, func(w *world, _ *Checker) { delete(w.servers, "blobs.corp.test:443") }, classify.DNSNXDOMAIN, "blobs.corp.test"},
		{"token host gone", image, func(w *world, _ *Checker) { delete(w.servers, "auth.corp.test:443") }, classify.DNSNXDOMAIN, "auth.corp.test"},
		{"untrusted", image, func(_ *world, c *Checker) { c.Roots = x509.NewCertPool() }, classify.TLSSelfSigned, "registry.corp.test"},
		{"corrupt layer", image, func(w *world, _ *Checker) {
			w.blob = func(rw http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(rw, strings.Replace(w.content[r.URL.Path[1:]], "l", "L", 1))
			}
		}, classify.ImageDigestMismatch, "blobs.corp.test"},
		{"cut off", image, func(w *world, _ *Checker) {
			w.blob = func(rw http.ResponseWriter, r *http.Request) {
				body := w.content[r.URL.Path[1:]]
				rw.Header().Set("Content-Length", fmt.Sprint(len(body)))
				_, _ = io.WriteString(rw, body[:len(body)/2])
				rw.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
		}, classify.EndpointDownloadInterrupted, "blobs.corp.test"},
		{"portal", image, func(w *world, _ *Checker) {
			w.blob = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(rw, "<title>Access denied</title>")
			}
		}, classify.EndpointHTMLInsteadOfRegistry, "blobs.corp.test"},
		{"endless redirects", image, func(w *world, _ *Checker) {
			w.blob = func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, r.URL.Path+"x", http.StatusFound) }
		}, classify.EndpointHTTPRedirectLoop, "blobs.corp.test"},
		{"header flood", image, func(w *world, _ *Checker) {
			w.blob = func(rw http.ResponseWriter, _ *http.Request) {
				for i := range 4000 {
					rw.Header().Set(fmt.Sprintf("X-Flood-%d", i), strings.Repeat("x", 1000))
				}
			}
		}, "", "blobs.corp.test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.checker()
			if tt.change != nil {
				tt.change(w, c)
			}
			m, err := c.Check(t.Context(), tt.image)
			require.NoError(t, err)
			assert.False(t, m.Held || m.Complete)
			fs := m.Findings()
			require.NotEmpty(t, fs)
			first := fs[len(fs)-1]
			if i := slices.IndexFunc(fs, func(f classify.Finding) bool { return f.Cause == tt.cause }); i >= 0 {
				first = fs[i]
			}
			if tt.cause != "" {
				assert.Equal(t, tt.cause, first.Cause, "%v", fs)
			}
			assert.Equal(t, tt.at, first.Endpoint)
			assert.NotContains(t, fmt.Sprint(fs), "SIGNATURE")
		})
	}
}

func TestCheckSenselessQuestion(t *testing.T) {
	t.Parallel()
	_, err := (&Checker{}).Check(t.Context(), "https://registry.corp.test/app")
	assert.ErrorContains(t, err, "https://registry.corp.test/app")
	_, err = (&Checker{Platform: "amd64"}).Check(t.Context(), image)
	assert.ErrorContains(t, err, `"amd64"`)
}

func TestCheckEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	w.blob = func(_ http.ResponseWriter, r *http.Request) { // headers never come
		cancel(errors.New("budget ended"))
		<-r.Context().Done()
	}
	m, err := w.checker().Check(ctx, image)
	require.NoError(t, err)
	assert.Contains(t, m.Inconclusive, "budget ended")
	assert.Empty(t, m.Findings())
}

// A realm or redirect must not make us ask what only this machine can reach.
func TestMetadataServiceIsNotAsked(t *testing.T) {
	t.Parallel()
	for _, a := range []string{"169.254.169.254:80", "[fe80::1]:443", "[fd00:ec2::254]:80", "168.63.129.16:80", "100.100.100.200:80", "[::ffff:169.254.169.254]:80"} {
		assert.Error(t, registry.DenyPlatform(netip.MustParseAddrPort(a)), a)
	}
	for _, a := range []string{"10.20.0.4:443", "127.0.0.1:5000", "[fd00::1]:443"} {
		assert.NoError(t, registry.DenyPlatform(netip.MustParseAddrPort(a)), a)
	}
	m, err := (&Checker{AllowAddr: func(netip.AddrPort) error { return errors.New("not here") }}).Check(t.Context(), "127.0.0.1:443/app")
	require.NoError(t, err)
	assert.Contains(t, m.Inconclusive, "not here")
	require.Equal(t, []classify.Cause{classify.EndpointAddressDenied}, causes(m.Findings()))
	assert.Equal(t, classify.SeverityWarn, m.Findings()[0].Severity)
}

// A loopback registry speaks TLS or not; containerd finds out, and so do we.
func TestLoopbackScheme(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	m, err := (&Checker{}).Check(t.Context(), plain.Listener.Addr().String()+"/app:1")
	require.NoError(t, err)
	require.NotEmpty(t, m.Requests)
	assert.Equal(t, "http", m.Hosts()[0].Scheme)
	assert.Equal(t, 404, m.Requests[0].Status)

	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	m, err = (&Checker{Roots: roots}).Check(t.Context(), secure.Listener.Addr().String()+"/app:1")
	require.NoError(t, err)
	assert.Equal(t, "https", m.Hosts()[0].Scheme)
	assert.Equal(t, 404, m.Requests[0].Status)

	m, err = (&Checker{Roots: x509.NewCertPool()}).Check(t.Context(), secure.Listener.Addr().String()+"/app:1")
	require.NoError(t, err)
	assert.Contains(t, m.Inconclusive, "does not verify")
	require.Len(t, m.Requests, 1)
	assert.Zero(t, m.Requests[0].Status, "nothing is sent over an unverified connection")
}

// A host that accepts nothing is a finding at the step's own limit, and none
// when it is the caller who ended.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		start := time.Now()
		m, err := (&Checker{DialContext: silent}).Check(t.Context(), image)
		require.NoError(t, err)
		assert.Equal(t, 5*time.Second, time.Since(start))
		assert.Equal(t, []classify.Cause{classify.RouteConnectTimeout}, causes(m.Findings()))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		m, err = (&Checker{DialContext: silent}).Check(ctx, image)
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(start))
		assert.Empty(t, m.Findings())
		assert.NotEmpty(t, m.Inconclusive)

		mute := func(context.Context, string, string) (net.Conn, error) {
			c, s := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, s); _ = s.Close() }()
			return c, nil
		}
		start = time.Now()
		m, err = (&Checker{DialContext: mute}).Check(t.Context(), image)
		require.NoError(t, err)
		assert.Equal(t, 10*time.Second, time.Since(start))
		assert.Equal(t, []classify.Cause{classify.EndpointTLSHandshakeTimeout}, causes(m.Findings()))
	})
}
