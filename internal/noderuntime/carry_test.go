package noderuntime

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/registry"
)

const hostsWithFields = `
[host."SCHEME://mirror.corp.test"]
[host."SCHEME://mirror.corp.test".header]
X-Team = "app"
X-Api-Key = ["s3cr3t-1", "s3cr3t-2"]
Authorization = "Basic s3cr3t-3"
User-Agent = "corp/1"
Accept = "text/x-corp"
Range = "bytes=0-0"
`

func mirrorWithFields(t *testing.T, scheme string) Source {
	t.Helper()
	sources, err := parseHosts([]byte(strings.ReplaceAll(hostsWithFields, "SCHEME", scheme)), "/certs.d/registry.corp.test", referenceTo(t, "registry.corp.test/team/app:1"))
	require.NoError(t, err)
	return sources[0]
}

func TestHeaderFieldsOfHostsToml(t *testing.T) {
	t.Parallel()
	s := mirrorWithFields(t, "https")
	assert.Equal(t, []string{"Accept", "Authorization", "Range", "User-Agent", "X-Api-Key", "X-Team"}, s.Fields.Names())
	assert.Equal(t, []string{"Range"}, s.Fields.Unsent())
	d := registry.Descriptor{Digest: sum("layer"), Size: 5}
	var seen []*http.Request
	rt := roundTrip(func(req *http.Request) (*http.Response, error) {
		seen = append(seen, req)
		if strings.Contains(req.URL.Path, "/blobs/") {
			return reply(307, header{"Location": "https://store.corp.test/x"}, nil)(req)
		}
		return reply(403, nil, "denied")(req)
	})
	w := s.Walk(referenceTo(t, "registry.corp.test/team/app:1"), Of("containerd", "").Client)
	r := w.Resolve(t.Context(), rt, "HEAD")
	assert.True(t, r.Credentialed, "the configured login is one")
	assert.Equal(t, registry.OutcomeFailed, r.Outcome)
	head := seen[0].Header
	assert.Equal(t, []string{"app"}, head["X-Team"])
	assert.Equal(t, []string{"s3cr3t-1", "s3cr3t-2"}, head["X-Api-Key"])
	assert.Equal(t, []string{"corp/1"}, head["User-Agent"])
	assert.Equal(t, "Basic s3cr3t-3", head.Get("Authorization"))
	assert.Len(t, head["Accept"], 2, "one more value")
	assert.Empty(t, head["Range"])

	w.Authorization = "Bearer s3cr3t-4"
	r = w.Blob(t.Context(), rt, d, registry.Whole)
	assert.Equal(t, []string{"Bearer s3cr3t-4"}, seen[1].Header["Authorization"], "the token takes its place")
	assert.Len(t, seen[1].Header["Accept"], 1, "a GET has its own")
	next := w.Follow(t.Context(), rt, r, d, registry.Whole)
	for name := range seen[2].Header {
		assert.NotContains(t, []string{"X-Team", "X-Api-Key", "Authorization"}, name, "a redirect leads elsewhere")
	}
	assert.Equal(t, "header fields of the runtime's configuration withheld: after a redirect", next.Inconclusive)
	for _, v := range []any{s, &s, *w, r, next, s.Fields, []Source{s}} {
		raw, err := json.Marshal(v)
		if _, isWalk := v.(registry.Walk); !isWalk { // which is no data
			require.NoError(t, err)
		}
		texts := fmt.Sprintf("%v %+v %#v %s", v, v, v, raw)
		if _, isWalk := v.(registry.Walk); isWalk {
			texts = strings.ReplaceAll(texts, w.Authorization, "")
		}
		assert.NotContains(t, texts, "s3cr3t")
	}
}

// registry.headers go to every source, and to the token server where hosts.toml has
// none of its own.
func TestHeaderFieldsForAllRegistries(t *testing.T) {
	t.Parallel()
	sources, _ := sourcesOf(t, fstest.MapFS{
		"etc/containerd/config.toml":      file("version = 2\n[plugins.'io.containerd.grpc.v1.cri'.registry]\nconfig_path = '/c'\n[plugins.'io.containerd.grpc.v1.cri'.registry.headers]\nX-All = ['a']\nX-Team = ['b']\n"),
		"c/registry.corp.test/hosts.toml": file("[host.'https://mirror.corp.test'.header]\nX-Team = 'app'\n"),
	}, "registry.corp.test/team/app:1")
	require.Len(t, sources, 2)
	assert.Equal(t, []string{"X-All", "X-Team"}, sources[0].Fields.Names())
	assert.Equal(t, []string{"X-Team"}, sources[0].TokenFields.Names())
	req, err := http.NewRequest(http.MethodGet, "https://mirror.corp.test", nil)
	require.NoError(t, err)
	sources[0].Fields.Apply(req)
	assert.Equal(t, []string{"b", "app"}, req.Header["X-Team"])
	assert.Equal(t, []string{"X-All", "X-Team"}, sources[1].TokenFields.Names())
	assert.Equal(t, "2 header fields", sources[1].Fields.String())
}

// In clear only what does not sound like a credential goes out.
func TestHeaderFieldsInClear(t *testing.T) {
	t.Parallel()
	s := mirrorWithFields(t, "http")
	for status, inconclusive := range map[int]string{403: "header fields of the runtime's configuration withheld: plain http", 404: ""} {
		w := s.Walk(referenceTo(t, "registry.corp.test/team/app:1"), Of("containerd", "").Client)
		r := w.Resolve(t.Context(), roundTrip(func(req *http.Request) (*http.Response, error) {
			assert.Equal(t, "app", req.Header.Get("X-Team"))
			assert.NotContains(t, fmt.Sprint(req.Header), "s3cr3t")
			return reply(status, nil, "no")(req)
		}), "HEAD")
		assert.Equal(t, inconclusive, r.Inconclusive)
	}
}

func TestHeaderFieldsForTheTokenServer(t *testing.T) {
	t.Parallel()
	s := mirrorWithFields(t, "https")
	for realm, sent := range map[string]bool{"https://auth.corp.test/token": true, "http://auth.corp.test/token": false} {
		asked := false
		res := registry.FetchToken(t.Context(), roundTrip(func(req *http.Request) (*http.Response, error) {
			asked = true
			assert.Equal(t, "app", req.Header.Get("X-Team"))
			assert.Equal(t, "Basic s3cr3t-3", req.Header.Get("Authorization"))
			return reply(200, nil, `{"token":"t"}`)(req)
		}), registry.TokenRequest{Challenge: registry.Challenge{Realm: realm}, Repository: "a", Fields: s.Fields})
		assert.Equal(t, sent, asked)
		assert.Equal(t, sent, res.HasToken)
		if !sent {
			var withheld *registry.WithheldError
			assert.ErrorAs(t, res.Err, &withheld)
		}
	}
	// To where it redirects they do not go, and its refusal says nothing then.
	rt := roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.URL.Host == "auth.corp.test" {
			return reply(302, header{"Location": "https://login.example.test/"}, nil)(req)
		}
		assert.NotContains(t, fmt.Sprint(req.Header), "s3cr3t")
		assert.Empty(t, req.Header.Get("X-Team"))
		return reply(403, nil, "denied")(req)
	})
	res := registry.FetchToken(t.Context(), rt, registry.TokenRequest{Challenge: registry.Challenge{Realm: "https://auth.corp.test/token"}, Repository: "a", Fields: s.Fields,
		Next: func(context.Context, *url.URL) (http.RoundTripper, error) { return rt, nil }})
	assert.ErrorContains(t, res.Err, "header fields of the configuration do not go after a redirect")
}
