package tlsauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// refresh is a token of the kind that registries give out as passwords.
func refresh(issued, expires time.Time) string {
	claims, _ := json.Marshal(map[string]any{"iat": issued.Unix(), "exp": expires.Unix()})
	return "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".c2ln"
}

func passwordKeys(tb testing.TB, password string) *Keychain {
	tb.Helper()
	raw, err := json.Marshal(map[string]any{"auths": map[string]any{registryHost: map[string]string{"username": "robot", "password": password}}})
	require.NoError(tb, err)
	return keys(tb, string(raw))
}

// Refusals that look alike and have different owners.
func TestOutcomesApart(t *testing.T) {
	t.Parallel()
	now := time.Now()
	old, fresh := refresh(now.Add(-5*time.Hour), now.Add(-2*time.Hour)), refresh(now.Add(-time.Minute), now.Add(time.Hour))
	unknown := `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`
	missing := func(string) int { return http.StatusNotFound }
	get404 := func(challenge string) http.HandlerFunc {
		return func(rw http.ResponseWriter, req *http.Request) {
			if req.Header.Get("Authorization") == "" {
				rw.Header().Set("WWW-Authenticate", challenge)
				rw.WriteHeader(http.StatusUnauthorized)
				return
			}
			rw.WriteHeader(http.StatusNotFound)
			_, _ = rw.Write([]byte(unknown))
		}
	}
	const basic = `Basic realm="Registry"`
	for _, tt := range []struct {
		name         string
		password     string
		registryHost http.HandlerFunc
		auth         http.HandlerFunc
		want         classify.Cause
		says         string
		hidden       bool // "hidden from this identity" stays possible
	}{
		{"wrong password", "s3cr3t", demand(bearer, yes), status(401, ""), classify.IdentityBadCredentials, "401", false},
		{"password that expired", old, demand(bearer, yes), status(401, ""), classify.IdentityTokenExpired, "expired 2h0m", false},
		{"password that has not expired", fresh, demand(bearer, yes), status(401, ""), classify.IdentityBadCredentials, "", false},
		{"expired, by Basic", old, demand(basic, func(string) int { return 401 }), nil, classify.IdentityTokenExpired, "expired 2h0m", false},
		{"expired, by the server's word", "s3cr3t", demand(bearer, yes), status(403, `{"errors":[{"code":"DENIED","message":"Your authorization token has expired. Reauthenticate and try again."}]}`), classify.IdentityTokenExpired, "", false},
		{"no right to pull", "s3cr3t", demand(bearer, func(string) int { return 401 }), token(jwt()), classify.IdentityInsufficientScope, "grants nothing", false},
		{"granted, and the token is not accepted", "s3cr3t", demand(bearer, func(string) int { return 401 }), token(jwt("pull")), classify.IdentityTokenRejected, "does not accept the token", false},
		{"granted, and the manifest is not there", "s3cr3t", get404(bearer), token(jwt("pull")), classify.ImageManifestUnknown, "missing and not hidden", false},
		{"not known whether granted, and not there", "s3cr3t", get404(bearer), token("opaque"), classify.ImageManifestUnknown, "missing or hidden", true},
		{"Basic, and not there", "s3cr3t", demand(basic, missing), nil, classify.ImageNotFound, "missing or hidden", true},
		{"address refused", "s3cr3t", demand(bearer, yes), status(403, `{"errors":[{"code":"DENIED","message":"client with IP '203.0.113.9' is not allowed access"}]}`), classify.EndpointSourceAddressDenied, "", false},
		{"rate limited", "s3cr3t", demand(bearer, func(string) int { return 429 }), token(jwt("pull")), classify.RegistryRateLimited, "", false},
		{"rate limited at the token server", "s3cr3t", demand(bearer, yes), status(429, ""), classify.RegistryRateLimited, "", false},
		{"policy", "s3cr3t", demand(bearer, func(string) int { return 412 }), token(jwt("pull")), classify.RegistryPolicyBlocked, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tt.auth == nil {
				tt.auth = token("opaque")
			}
			w.host(t, registryHost, registryHost, tt.registryHost)
			w.host(t, "auth.corp.test", "auth.corp.test", tt.auth)
			r, err := w.checker(passwordKeys(t, tt.password)).CheckAccess(t.Context(), image)
			require.NoError(t, err)
			require.NotEmpty(t, r.Findings())
			f := r.Findings()[0]
			assert.Equal(t, tt.want, f.Cause, "%v", r.Findings())
			assert.Equal(t, classify.SeverityFail, f.Severity)
			assert.Contains(t, f.Summary, tt.says)
			assert.False(t, r.Read)
			hidden := false
			for _, c := range f.Alternatives {
				hidden = hidden || c == classify.IdentityAccessDeniedOrMissing
			}
			assert.Equal(t, tt.hidden, hidden)
			raw, _ := json.Marshal(map[string]any{"r": r, "f": r.Findings()})
			assert.NotContains(t, string(raw), tt.password)
		})
	}
}

// granting is a token server that grants what the identity may do of what is
// asked for.
func granting(may func(repository, action string) bool, requests *atomic.Int64) http.HandlerFunc {
	return func(rw http.ResponseWriter, req *http.Request) {
		requests.Add(1)
		_ = req.ParseForm()
		parts := strings.SplitN(req.Form.Get("scope"), ":", 3)
		actions := []string{}
		for _, a := range strings.Split(parts[2], ",") {
			if may(parts[1], a) {
				actions = append(actions, a)
			}
		}
		claims, _ := json.Marshal(map[string]any{"access": []any{map[string]any{"type": "repository", "name": parts[1], "actions": actions}}})
		token("e30."+base64.RawURLEncoding.EncodeToString(claims)+".c2ln")(rw, req)
	}
}

func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	mine := func(repository, _ string) bool { return repository == "team/app" }
	for _, tt := range []struct {
		name   string
		may    func(repository, action string) bool
		auth   http.HandlerFunc
		anon   bool
		want   int
		says   []string
		unsure string
	}{
		{"pull, here, and nothing else", func(r, a string) bool { return mine(r, a) && a == "pull" }, nil, false, 0, nil, ""},
		{"may push", func(r, a string) bool { return mine(r, a) && a != "delete" }, nil, false, 1, []string{"granted push on team/app"}, ""},
		{"may delete", mine, nil, false, 1, []string{"push, delete on team/app"}, ""},
		{"may read the team's other repositories", func(r, a string) bool { return strings.HasPrefix(r, "team/") && a == "pull" }, nil, false, 1, []string{"team/pullwalk-audit"}, ""},
		{"may do anything", func(string, string) bool { return true }, nil, false, 3, []string{"push, delete on team/app", "team/pullwalk-audit", "pullwalk-audit/pullwalk-audit"}, ""},
		{"tokens that cannot be read", nil, token("opaque"), false, 0, nil, "does not show"},
		{"anonymous", func(string, string) bool { return true }, nil, true, 0, nil, "anonymous"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var requests atomic.Int64
			if tt.auth == nil {
				tt.auth = granting(tt.may, &requests)
			}
			w.host(t, registryHost, registryHost, demand(bearer, yes))
			w.host(t, "auth.corp.test", "auth.corp.test", tt.auth)
			var k authn.Keychain = passwordKeys(t, "s3cr3t")
			if tt.anon {
				k = nil
			}
			c := w.checker(k)
			r, err := c.CheckAccess(t.Context(), image)
			require.NoError(t, err)
			assert.Nil(t, r.Rights, "only on request")
			before := requests.Load()

			c.AuditRights = true
			r, err = c.CheckAccess(t.Context(), image)
			require.NoError(t, err)
			require.NotNil(t, r.Rights)
			assert.True(t, r.Held(), "too much is a warning")
			require.Len(t, r.Rights.Findings(), tt.want, "%v", r.Rights.Findings())
			for i, f := range r.Rights.Findings() {
				assert.Equal(t, classify.IdentityOverBroad, f.Cause)
				assert.Equal(t, classify.SeverityWarn, f.Severity)
				assert.Equal(t, classify.CertaintyLikely, f.Certainty)
				assert.Contains(t, f.Summary, tt.says[i])
				assert.Contains(t, r.Findings(), f)
			}
			assert.Contains(t, r.Rights.Inconclusive, tt.unsure)
			assert.LessOrEqual(t, requests.Load(), 2*before+3, "one question each")
		})
	}
	assert.NotEmpty(t, registry.AuditRights(t.Context(), nil, registry.Challenge{Scheme: "basic"}, registry.Credential{Username: "u", Password: "p"}, "a", "").Inconclusive)
	assert.NotEmpty(t, registry.AuditRights(t.Context(), nil, registry.Challenge{Scheme: "bearer"}, registry.Credential{RegistryToken: "x"}, "a", "").Inconclusive)
	var none *Rights
	assert.Empty(t, none.Findings())
}

// A token server that refuses to be asked for more grants nothing more.
func TestOverAskingIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host(t, registryHost, registryHost, demand(bearer, yes))
	w.host(t, "auth.corp.test", "auth.corp.test", func(rw http.ResponseWriter, req *http.Request) {
		_ = req.ParseForm()
		if req.Form.Get("scope") != "repository:team/app:pull" {
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		token(jwt("pull"))(rw, req)
	})
	c := w.checker(passwordKeys(t, "s3cr3t"))
	c.AuditRights = true
	r, err := c.CheckAccess(t.Context(), image)
	require.NoError(t, err)
	assert.True(t, r.Held())
	assert.Empty(t, r.Findings())
	require.Len(t, r.Rights.Grants, 3)
	assert.Empty(t, r.Rights.Inconclusive)
}

// The clock of a verified host counts, and says so before a certificate does.
func TestClockOfTheRegistry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ahead = -3 * time.Hour
	w.host(t, registryHost, registryHost, demand(bearer, yes))
	w.host(t, "auth.corp.test", "auth.corp.test", token("opaque"))
	c := w.checker(nil)
	c.Seen = &Seen{}
	r, err := c.CheckAccess(t.Context(), image)
	require.NoError(t, err)
	require.Len(t, r.Findings(), 1)
	f := r.Findings()[0]
	assert.Equal(t, classify.TLSClockSkew, f.Cause)
	assert.Equal(t, classify.SeverityWarn, f.Severity)
	assert.Contains(t, f.Summary, "3h0m0s ahead of")
	require.NotNil(t, r.ClockSkewMS)
	assert.Equal(t, (-3 * time.Hour).Milliseconds(), *r.ClockSkewMS)
	behind, host := c.Seen.clockOf()
	assert.Equal(t, -3*time.Hour, behind)
	assert.Equal(t, registryHost, host)
}

func TestRuntimeLeavesOut(t *testing.T) {
	t.Parallel()
	all := newOffer(registry.Credential{Username: "u", Password: "p", IdentityToken: "i", RegistryToken: "r"}, CredentialInfo{})
	for runtime, want := range map[string][]string{
		"containerd": {"registry token"}, "k3s": {"registry token"}, "rke2": {"registry token"},
		"crio": {"identity token", "registry token"}, "dockerd": nil, "": nil,
	} {
		got := all.ForRuntime(runtime)
		assert.Equal(t, want, got.Info.Ignored, runtime)
		assert.Equal(t, "u", got.Auth().Username)
		assert.Equal(t, len(want) < 1, got.Auth().RegistryToken != "")
		assert.Equal(t, len(want) < 2, got.Auth().IdentityToken != "")
	}
	assert.Empty(t, all.Info.Ignored, "the offer itself is not changed")
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %+v", all, all, all, struct{ o Offer }{all}), `"p"`)
	assert.Equal(t, authn.AuthConfig{}, Offer{}.Auth(), "the zero Offer is anonymous")
}

func TestDatesOfAnOffer(t *testing.T) {
	t.Parallel()
	issued, expires := noon, noon.Add(3*time.Hour)
	offers, err := Offers(t.Context(), passwordKeys(t, refresh(issued, expires)), image)
	require.NoError(t, err)
	assert.Equal(t, expires, offers[0].Info.ExpiresAt)
	assert.Equal(t, time.Hour, offers[0].Info.internal().Expired(expires.Add(time.Hour)))
	assert.Zero(t, offers[0].Info.internal().Expired(issued))
}

// Two nodes compare what they would offer without showing it.
func TestDigest(t *testing.T) {
	t.Parallel()
	salt, other := sha256.Sum256([]byte("one")), sha256.Sum256([]byte("two"))
	offer := func(user, password string) Offer {
		return newOffer(registry.Credential{Username: user, Password: password}, CredentialInfo{})
	}
	d := offer("u", "p").Digest(salt[:])
	assert.Len(t, d, 16)
	assert.Equal(t, d, offer("u", "p").Digest(salt[:]))
	assert.NotEqual(t, d, offer("u", "p").Digest(other[:]), "of another comparison")
	assert.NotEqual(t, d, offer("up", "").Digest(salt[:]), "no two credentials run into one")
	assert.NotEqual(t, d, offer("u", "q").Digest(salt[:]))
	assert.Empty(t, offer("u", "p").Digest(salt[:8]), "a short salt protects nothing")
	assert.Empty(t, Offer{}.Digest(salt[:]))
}

// One connection per hello, both at once; no more requests than containerd makes.
func TestCostOfTheChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host(t, registryHost, registryHost, demand(bearer, yes))
	w.host(t, "auth.corp.test", "auth.corp.test", login("robot", "s3cr3t", jwt("pull")))
	var dials atomic.Int64
	c := w.checker(passwordKeys(t, "s3cr3t"))
	c.DialContext = dialFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return w.DialContext(ctx, network, address)
	})
	r, err := c.CheckAccess(t.Context(), image)
	require.NoError(t, err)
	assert.True(t, r.Held())
	assert.Equal(t, int64(2), dials.Load(), "one connection per host")
	assert.Equal(t, []string{
		"registry.corp.test HEAD /v2/team/app/manifests/1",
		"auth.corp.test POST /token",
		"registry.corp.test HEAD /v2/team/app/manifests/1 Bearer",
	}, w.log, "containerd sends these three, and then goes on")

	dials.Store(0)
	look := look{c: c, address: registryHost + ":443", name: registryHost, port: "443", hellos: []Hello{HelloLarge, HelloClassical}}
	rep, conn, err := look.run(t.Context())
	require.NoError(t, err)
	hangUp(conn)
	assert.True(t, rep.Held())
	assert.Equal(t, int64(2), dials.Load(), "one connection per hello")
}
