package tlsauth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

const (
	image    = "registry.corp.test/team/app:1"
	digest   = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	manifest = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"` + digest + `","size":2}}`
)

// world is a registry and a token server on loopback, under names of their own.
type world struct {
	root  *authority
	hosts map[string]string // name:port -> address
	ahead time.Duration     // of the servers' clocks

	mu  sync.Mutex
	log []string // every request: host, method, path, and the kind of credential
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	return &world{root: issue(tb, nil, "Corp Test Root", ca(nil)), hosts: map[string]string{}}
}

// host starts one host with a certificate for certName.
func (w *world) host(tb testing.TB, name, certName string, handle http.HandlerFunc) {
	tb.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		kind, _, _ := strings.Cut(req.Header.Get("Authorization"), " ")
		w.mu.Lock()
		w.log = append(w.log, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", name, req.Method, req.URL.Path, kind)))
		w.mu.Unlock()
		rw.Header().Set("Date", noon.Add(w.ahead).Format(http.TimeFormat))
		handle(rw, req)
	}))
	srv.Config.ErrorLog = nil
	port := ":80"
	if certName != "" {
		port = ":443"
		srv.TLS = &tls.Config{Certificates: []tls.Certificate{present(issue(tb, w.root, certName, server(nil, certName)))}}
		srv.StartTLS()
	} else {
		srv.Start()
	}
	tb.Cleanup(srv.Close)
	w.hosts[name+port] = srv.Listener.Addr().String()
}

func (w *world) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	real, ok := w.hosts[address]
	if !ok {
		host, _, _ := net.SplitHostPort(address)
		return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
	}
	var d net.Dialer
	return d.DialContext(ctx, network, real)
}

func (w *world) checker(k authn.Keychain) *Checker {
	return &Checker{DialContext: w.DialContext, Roots: pool(w.root), Now: func() time.Time { return noon }, Keychain: k}
}

// demand is a registry that wants a bearer token, and grants what allow says.
func demand(challenge string, allow func(authorization string) int) http.HandlerFunc {
	return func(rw http.ResponseWriter, req *http.Request) {
		authorization := req.Header.Get("Authorization")
		status := http.StatusUnauthorized
		if authorization != "" {
			status = allow(authorization)
		}
		switch status {
		case http.StatusOK:
			serveManifest(rw)
			return
		case http.StatusUnauthorized:
			rw.Header().Set("WWW-Authenticate", challenge)
		}
		rw.WriteHeader(status)
	}
}

// serveManifest answers as a registry that has the manifest.
func serveManifest(rw http.ResponseWriter) {
	rw.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	rw.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(manifest))))
	rw.Header().Set("Content-Length", fmt.Sprint(len(manifest)))
	_, _ = rw.Write([]byte(manifest))
}

const bearer = `Bearer realm="https://auth.corp.test/token?secret=s3cr3t",service="registry.corp.test",scope="repository:team/app:pull"`

func yes(string) int { return http.StatusOK }

// jwt is an unsigned token that claims the given actions.
func jwt(actions ...string) string {
	claims, _ := json.Marshal(map[string]any{"access": []any{map[string]any{"type": "repository", "name": "team/app", "actions": actions}}})
	return "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".c2ln"
}

func token(value string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(rw).Encode(map[string]any{"token": value, "access_token": value, "expires_in": 300})
	}
}

func status(code int, body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(code)
		_, _ = rw.Write([]byte(body))
	}
}

// login answers POST and GET alike: only this user with this password gets in.
func login(user, password, value string) http.HandlerFunc {
	return func(rw http.ResponseWriter, req *http.Request) {
		u, p, _ := req.BasicAuth()
		if req.Method == http.MethodPost {
			u, p = req.FormValue("username"), req.FormValue("password")
		}
		if u != user || p != password {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		token(value)(rw, req)
	}
}

func keys(tb testing.TB, doc string) *Keychain {
	tb.Helper()
	k, err := DockerConfig([]byte(doc))
	require.NoError(tb, err)
	return k
}

func TestCheckAccess(t *testing.T) {
	t.Parallel()
	right := `{"auths":{"registry.corp.test":{"username":"robot","password":"s3cr3t"}}}`
	for _, tt := range []struct {
		name         string
		image        string
		keychain     string
		registryHost http.HandlerFunc
		auth         http.HandlerFunc
		want         []classify.Cause
		failing      int
		read         bool
		unsure       bool
		log          []string
		check        func(*testing.T, *AccessReport)
	}{
		{name: "open", registryHost: demand("", yes), keychain: "", read: true,
			log: []string{"registry.corp.test HEAD /v2/team/app/manifests/1"}},
		{name: "anonymous token", registryHost: demand(bearer, yes), auth: token(jwt("pull")), read: true,
			log: []string{"registry.corp.test HEAD /v2/team/app/manifests/1", "auth.corp.test GET /token", "registry.corp.test HEAD /v2/team/app/manifests/1 Bearer"},
			check: func(t *testing.T, r *AccessReport) {
				assert.Equal(t, []string{"pull"}, r.Granted)
				assert.Equal(t, int64(300_000), r.ExpiresInMS)
				assert.Equal(t, "https://auth.corp.test/token", r.Challenge.Realm)
				assert.Equal(t, "anonymous", r.Credential.Source)
				assert.True(t, r.TokenIssued)
			}},
		{name: "credential", keychain: right, registryHost: demand(bearer, yes), auth: login("robot", "s3cr3t", "opaque"), read: true,
			log: []string{"registry.corp.test HEAD /v2/team/app/manifests/1", "auth.corp.test POST /token", "registry.corp.test HEAD /v2/team/app/manifests/1 Bearer"},
			check: func(t *testing.T, r *AccessReport) {
				assert.Nil(t, r.Granted)
				assert.Equal(t, "dockerconfigjson key registry.corp.test", r.Credential.Source)
				assert.Equal(t, "[5 characters]", r.Credential.Username, "an opaque token does not say for whom it is")
			}},
		{name: "a token that names its user", keychain: right, registryHost: demand(bearer, yes), auth: login("robot", "s3cr3t", "e30."+base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"robot"}`))+".c2ln"), read: true,
			check: func(t *testing.T, r *AccessReport) { assert.Equal(t, "robot", r.Credential.Username) }},
		{name: "the first credential is wrong, the second works",
			keychain:     `{"auths":{"registry.corp.test/team":{"username":"old","password":"s3cr3t"},"registry.corp.test":{"username":"robot","password":"s3cr3t"}}}`,
			registryHost: demand(bearer, yes), auth: login("robot", "s3cr3t", "opaque"), read: true, want: []classify.Cause{classify.IdentityBadCredentials},
			check: func(t *testing.T, r *AccessReport) {
				assert.Equal(t, "[5 characters]", r.Credential.Username)
				assert.Len(t, r.Attempts, 3, "POST, GET, and the second one's POST")
			}},
		{name: "bad credentials", keychain: right, registryHost: demand(bearer, yes), auth: login("robot", "other", "opaque"), want: []classify.Cause{classify.IdentityBadCredentials}, failing: 1,
			check: func(t *testing.T, r *AccessReport) {
				f := r.Findings()[0]
				assert.Equal(t, "auth.corp.test", f.Endpoint)
				assert.Equal(t, classify.OperationFetchToken, f.Operation)
				assert.Equal(t, "[5 characters]", f.Fact(classify.FactUser), "it may be the password of a swapped secret")
			}},
		{name: "no anonymous tokens", registryHost: demand(bearer, yes), auth: status(403, ""), want: []classify.Cause{classify.IdentityTokenFetchDenied}, failing: 1},
		{name: "no key matches", keychain: `{"auths":{"registry.corp.test:443":{"username":"robot","password":"s3cr3t"}}}`, registryHost: demand(bearer, yes), auth: status(401, ""),
			want: []classify.Cause{classify.IdentityNoMatchingCredential}, failing: 1,
			check: func(t *testing.T, r *AccessReport) {
				f := r.Findings()[0]
				assert.Contains(t, f.Summary, "port 443")
				assert.Equal(t, classify.IdentityTokenFetchDenied, f.Alternatives[0])
				var answer *classify.HTTPAnswer
				assert.True(t, errors.As(f, &answer))
			}},
		{name: "no key matches, and none is needed", keychain: `{"auths":{"other.corp.test":{"auth":"eDp5"}}}`, registryHost: demand(bearer, yes), auth: token("opaque"), read: true,
			want: []classify.Cause{classify.IdentityNoMatchingCredential}},
		{name: "token without the right, registry agrees", keychain: right, registryHost: demand(bearer, func(string) int { return 403 }), auth: login("robot", "s3cr3t", jwt("push")),
			want: []classify.Cause{classify.IdentityInsufficientScope}, failing: 1,
			check: func(t *testing.T, r *AccessReport) {
				assert.Equal(t, classify.CertaintyProven, r.Findings()[0].Certainty)
				assert.Equal(t, "push", r.Findings()[0].Fact(classify.FactGranted))
			}},
		{name: "token without the right, registry does not care", registryHost: demand(bearer, yes), auth: token(jwt()), read: true},
		{name: "opaque token refused", keychain: right, registryHost: demand(bearer, func(string) int { return 403 }), auth: login("robot", "s3cr3t", "opaque"), want: []classify.Cause{classify.IdentityForbidden}, failing: 1},
		{name: "insufficient_scope", registryHost: demand(strings.TrimSuffix(bearer, `"`)+`",error="insufficient_scope"`, func(string) int { return 401 }), auth: token("opaque"),
			want: []classify.Cause{classify.IdentityInsufficientScope}, failing: 1},
		{name: "token is a page", registryHost: demand(bearer, yes), auth: status(200, "<!DOCTYPE html><title>Log in</title>"), want: []classify.Cause{classify.EndpointHTMLInsteadOfRegistry}, failing: 1},
		{name: "no realm", registryHost: demand(`Bearer service="x"`, yes), want: []classify.Cause{classify.EndpointBadRealm}, failing: 1},
		{name: "realm is a file", registryHost: demand(`Bearer realm="file:///etc/passwd"`, yes), want: []classify.Cause{classify.EndpointBadRealm}, failing: 1},
		{name: "unknown scheme", registryHost: demand(`Negotiate`, yes), want: []classify.Cause{classify.IdentityChallengeUnsupported}, failing: 1,
			log: []string{"registry.corp.test HEAD /v2/team/app/manifests/1"}},
		{name: "realm in clear, with a credential", keychain: right, registryHost: demand(`Bearer realm="http://plain.corp.test/token"`, yes),
			want: []classify.Cause{classify.EndpointBadRealm, classify.IdentityPlaintextRefused}, unsure: true, log: []string{"registry.corp.test HEAD /v2/team/app/manifests/1"}},
		{name: "realm in clear, anonymous", registryHost: demand(`Bearer realm="http://plain.corp.test/token"`, yes), read: true, want: []classify.Cause{classify.EndpointBadRealm}},
		{name: "realm without an address", registryHost: demand(`Bearer realm="https://gone.corp.test/token"`, yes), want: []classify.Cause{classify.DNSNXDOMAIN}, failing: 1,
			check: func(t *testing.T, r *AccessReport) {
				assert.Equal(t, "gone.corp.test", r.Findings()[0].Endpoint)
				assert.Equal(t, classify.OperationFetchToken, r.Findings()[0].Operation)
			}},
		{name: "realm with the wrong name", keychain: right, registryHost: demand(`Bearer realm="https://wrong.corp.test/token"`, yes), want: []classify.Cause{classify.TLSHostnameMismatch}, failing: 1,
			log: []string{"registry.corp.test HEAD /v2/team/app/manifests/1"}},
		{name: "Basic", keychain: right, registryHost: demand(`Basic realm="Corp"`, yes), read: true},
		{name: "Basic refused", keychain: right, registryHost: demand(`Basic realm="Corp"`, func(string) int { return 401 }), want: []classify.Cause{classify.IdentityBadCredentials}, failing: 1},
		{name: "Basic without a credential", registryHost: demand(`Basic realm="Corp"`, yes), want: []classify.Cause{classify.IdentityNoBasicAuth}, failing: 1,
			log: []string{"registry.corp.test HEAD /v2/team/app/manifests/1"}},
		{name: "no such tag", registryHost: status(404, ""), want: []classify.Cause{classify.ImageNotFound}, failing: 1},
		{name: "no tag named, and no latest", image: "registry.corp.test/team/app", registryHost: status(404, ""), want: []classify.Cause{classify.ImageNotFound}, unsure: true},
		{name: "HEAD is not offered", read: true, registryHost: func(rw http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodHead {
				rw.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			serveManifest(rw)
		}, log: []string{"registry.corp.test HEAD /v2/team/app/manifests/1", "registry.corp.test GET /v2/team/app/manifests/1"}},
		{name: "a portal answers everything with 200", registryHost: status(200, "<!DOCTYPE html><title>Welcome</title>"), want: []classify.Cause{classify.EndpointHTMLInsteadOfRegistry}, failing: 1},
		{name: "something else answers with 200", registryHost: status(200, `{"ok":true}`), want: []classify.Cause{classify.ImageUnsupportedMediaType}, failing: 1},
		{name: "server error", registryHost: status(503, ""), want: []classify.Cause{classify.RegistryServerError}, failing: 1},
		{name: "redirect", want: []classify.Cause{classify.EndpointRedirectedAway, classify.DNSNXDOMAIN}, failing: 1, registryHost: func(rw http.ResponseWriter, req *http.Request) {
			http.Redirect(rw, req, "https://elsewhere.corp.test/", http.StatusTemporaryRedirect)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tt.auth == nil {
				tt.auth = token("opaque")
			}
			if tt.name == "open" {
				tt.registryHost = func(rw http.ResponseWriter, _ *http.Request) { serveManifest(rw) }
			}
			w.host(t, "registry.corp.test", "registry.corp.test", tt.registryHost)
			w.host(t, "auth.corp.test", "auth.corp.test", tt.auth)
			w.host(t, "plain.corp.test", "", token("opaque"))
			w.host(t, "wrong.corp.test", "gateway.corp.test", tt.auth)
			var k authn.Keychain
			if tt.keychain != "" {
				k = keys(t, tt.keychain)
			}
			asked := image
			if tt.image != "" {
				asked = tt.image
			}
			r, err := w.checker(k).CheckAccess(t.Context(), asked)
			require.NoError(t, err)
			got, failing := causes(r.Findings())
			assert.Equal(t, tt.want, got, "%+v", r.Findings())
			assert.Equal(t, tt.failing, failing)
			assert.Equal(t, tt.read, r.Read)
			assert.Equal(t, tt.read, r.Held())
			assert.Equal(t, tt.unsure, r.Inconclusive != "", r.Inconclusive)
			assert.Equal(t, "registry.corp.test", r.Registry)
			assert.Equal(t, "team/app", r.Repository)
			for _, f := range r.Findings() {
				assert.NotEmpty(t, f.Endpoint, f.Cause)
				assert.NotEmpty(t, f.Operation, f.Cause)
			}
			if tt.log != nil {
				assert.Equal(t, tt.log, w.log)
			}
			if tt.check != nil {
				tt.check(t, r)
			}
			data, err := json.Marshal(struct {
				R *AccessReport
				F []classify.Finding
			}{r, r.Findings()})
			require.NoError(t, err)
			assert.NotContains(t, string(data), "s3cr3t")
			assert.NotContains(t, string(data), jwt("pull"))
		})
	}
}

// A registry that is not trusted gets no request, and no credential.
func TestNothingIsSentToAnUntrustedRegistry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host(t, "registry.corp.test", "registry.corp.test", demand(bearer, yes))
	c := w.checker(keys(t, `{"auths":{"registry.corp.test":{"auth":"eDp5"}}}`))
	c.Roots = pool(issue(t, nil, "Other", ca(nil)))
	r, err := c.CheckAccess(t.Context(), image)
	require.NoError(t, err)
	got, _ := causes(r.Findings())
	assert.Equal(t, []classify.Cause{classify.TLSUnknownAuthority}, got)
	assert.Equal(t, classify.OperationResolveManifest, r.Findings()[0].Operation)
	assert.Empty(t, w.log)
}

// A keychain that is no lister, with a registry token of its own.
func TestForeignKeychain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host(t, "registry.corp.test", "registry.corp.test", demand(bearer, func(a string) int {
		if a == "Bearer r3gtoken" {
			return 200
		}
		return 403
	}))
	r, err := w.checker(fixed{authn.AuthConfig{RegistryToken: "r3gtoken"}}).CheckAccess(t.Context(), image)
	require.NoError(t, err)
	assert.True(t, r.Held())
	assert.Equal(t, "keychain", r.Credential.Source)
	_, err = w.checker(broken{}).CheckAccess(t.Context(), image)
	assert.ErrorContains(t, err, "keychain")
}

type fixed struct{ config authn.AuthConfig }

func (f fixed) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.FromConfig(f.config), nil
}

type broken struct{}

func (broken) Resolve(authn.Resource) (authn.Authenticator, error) {
	return nil, errors.New("helper died")
}

// The default dialer does not go where a realm must not lead.
func TestPlatformAddressesAreNotAsked(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"169.254.169.254", "168.63.129.16:443"} {
		r, err := (&Checker{Roots: pool()}).CheckAccess(t.Context(), host+"/team/app:1")
		require.NoError(t, err)
		got, failing := causes(r.Findings())
		assert.Equal(t, []classify.Cause{classify.EndpointAddressDenied}, got)
		assert.Zero(t, failing)
		assert.NotEmpty(t, r.Inconclusive)
	}
	h := &hosts{c: &Checker{DialContext: guarded().DialContext, Trust: &Roots{}}, pools: map[string]*registry.Pool{}}
	res := registry.FetchToken(t.Context(), h, registry.TokenRequest{Challenge: registry.Challenge{Scheme: "bearer", Realm: "http://169.254.169.254/token"}, Repository: "a"})
	r := registry.JudgeToken(registry.Challenge{Scheme: "bearer", Realm: "http://169.254.169.254/token"}, registry.CredentialInfo{Source: "anonymous"}, res, "a")
	got, failing := causes(r.Findings())
	assert.Equal(t, []classify.Cause{classify.EndpointAddressDenied}, got)
	assert.Zero(t, failing)
	assert.NotEmpty(t, r.Inconclusive)
}

// A registry that accepts the request and thinks for ever.
func TestSilentRegistry(t *testing.T) {
	root := issue(t, nil, "Corp Test Root", ca(nil))
	cfg := &tls.Config{Certificates: []tls.Certificate{present(issue(t, root, registryHost, server(nil, registryHost)))}, Time: func() time.Time { return noon }}
	silent := pipes(func(c net.Conn) {
		s := tls.Server(c, cfg)
		buf := make([]byte, 4096)
		for {
			if _, err := s.Read(buf); err != nil {
				return
			}
		}
	})
	for _, tt := range []struct {
		name   string
		end    time.Duration
		want   []classify.Cause
		unsure bool
		takes  time.Duration
	}{
		{"own limit", time.Hour, []classify.Cause{classify.EndpointResponseHeaderTimeout}, false, defaultRequestLimit},
		{"caller's end", 2 * time.Second, nil, true, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.end)
				defer cancel()
				start := time.Now()
				r, err := (&Checker{DialContext: silent, Roots: pool(root), Now: func() time.Time { return noon }}).CheckAccess(ctx, image)
				require.NoError(t, err)
				got, _ := causes(r.Findings())
				assert.Equal(t, tt.want, got)
				assert.Equal(t, tt.unsure, r.Inconclusive != "")
				assert.Equal(t, tt.takes, time.Since(start))
				assert.False(t, r.Held())
			})
		})
	}
}

// A keychain that hangs ends with the caller's context.
func TestHangingKeychain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := (&Checker{Keychain: hanging(release), Roots: pool()}).CheckAccess(ctx, image)
		require.NoError(t, err)
		assert.NotEmpty(t, r.Inconclusive)
		assert.Empty(t, r.Findings())
	})
}

type hanging chan struct{}

func (h hanging) Resolve(authn.Resource) (authn.Authenticator, error) {
	<-h
	return authn.Anonymous, nil
}

func TestAccessOfNoImage(t *testing.T) {
	t.Parallel()
	for _, image := range []string{"", "Not An Image", "registry.corp.test/UPPER:1", "registry.corp.test/a:b:c"} {
		_, err := (&Checker{Roots: pool()}).CheckAccess(t.Context(), image)
		assert.Error(t, err, image)
	}
}

func TestHostOfDockerHub(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{"alpine": "registry-1.docker.io", "docker.io/a/b:1": "registry-1.docker.io", "index.docker.io/a/b": "registry-1.docker.io", image: registryHost} {
		ref, err := registry.ParseReference(image)
		require.NoError(t, err)
		assert.Equal(t, want, ref.Host, image)
	}
	for image, want := range map[string]bool{"a/latest": true, "r.corp.test:5000/a": true, "r.corp.test:5000/a:1": false, "a@" + digest: false} {
		assert.Equal(t, want, untagged(image), image)
	}
}
