package registry

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

func TestPing(t *testing.T) {
	t.Parallel()
	bearer := header{"Www-Authenticate": `Bearer realm="https://auth.corp.test/token",service="registry.corp.test"`}
	for _, tt := range []struct {
		name    string
		rt      roundTrip
		runtime Client
		outcome Outcome
		causes  []classify.Cause
		sev     classify.Severity
	}{
		{"open", reply(200, nil, "{}"), crio, OutcomeHeld, nil, ""},
		{"challenge", reply(401, bearer, nil), crio, OutcomeNeedsToken, nil, ""},
		{"no such page", reply(404, nil, "no such page"), containerd, OutcomeNotNeeded, []classify.Cause{classify.EndpointMethodBlocked}, classify.SeverityWarn},
		{"no such page, unknown runtime", reply(404, nil, "no such page"), containerd, OutcomeNotNeeded, []classify.Cause{classify.EndpointMethodBlocked}, classify.SeverityWarn},
		{"no such page, needed", reply(404, nil, "no such page"), crio, OutcomeFailed, []classify.Cause{classify.EndpointMethodBlocked}, classify.SeverityFail},
		{"forbidden, needed", reply(403, header{"Content-Type": "text/html"}, "<html><title>WAF"), docker, OutcomeFailed, []classify.Cause{classify.EndpointMethodBlocked}, classify.SeverityFail},
		{"portal", reply(200, header{"Content-Type": "text/html"}, "<html>"), crio, OutcomeFailed, []classify.Cause{classify.EndpointHTMLInsteadOfRegistry}, classify.SeverityFail},
		{"not 200", reply(204, nil, nil), crio, OutcomeFailed, []classify.Cause{classify.EndpointMethodBlocked}, classify.SeverityFail},
		{"unwell", reply(503, nil, nil), crio, OutcomeFailed, []classify.Cause{classify.RegistryServerError}, classify.SeverityFail},
		{"moved", reply(301, header{"Location": "/v2/x/"}, nil), crio, OutcomeRedirect, nil, ""},
		{"broken", func(*http.Request) (*http.Response, error) { return nil, errors.New("x") }, containerd, OutcomeNotNeeded, []classify.Cause{classify.UnknownUnclassified}, classify.SeverityWarn},
	} {
		w := newWalk(t, image)
		w.Client, w.Authorization = tt.runtime, "Bearer secret"
		var asked *http.Request
		r := w.Ping(t.Context(), roundTrip(func(req *http.Request) (*http.Response, error) {
			asked = req
			return tt.rt(req)
		}))
		assert.Equal(t, tt.outcome, r.Outcome, tt.name)
		assert.Equal(t, tt.causes, causes(r.Findings()), tt.name)
		for _, f := range r.Findings() {
			assert.Equal(t, tt.sev, f.Severity, tt.name)
		}
		assert.Equal(t, "https://registry.corp.test/v2/", asked.URL.String())
		assert.Equal(t, "GET", asked.Method)
		assert.Empty(t, asked.Header.Get("Authorization"), "the ping is anonymous")
	}
	w := newWalk(t, image)
	r := w.Ping(t.Context(), reply(301, header{"Location": "/v2/x/"}, nil))
	next, m := w.FollowManifest(t.Context(), reply(200, nil, nil), r)
	assert.Equal(t, OutcomeHeld, next.Outcome)
	assert.Nil(t, m)
}

func TestComparePingAndManifest(t *testing.T) {
	t.Parallel()
	bearer := func(realm string) roundTrip {
		return reply(401, header{"Www-Authenticate": `Bearer realm="` + realm + `"`}, nil)
	}
	w := newWalk(t, image)
	manifest := w.Resolve(t.Context(), bearer("https://auth.corp.test/token"), "HEAD")
	same := w.Ping(t.Context(), bearer("https://auth.corp.test/token"))
	other := w.Ping(t.Context(), bearer("https://internal.corp.test/token"))
	open := w.Ping(t.Context(), reply(200, nil, nil))
	assert.Empty(t, w.ComparePing(same, manifest))
	assert.Empty(t, w.ComparePing(nil, manifest))
	assert.Empty(t, w.ComparePing(manifest, manifest))
	assert.Equal(t, []classify.Cause{classify.EndpointBadRealm}, causes(w.ComparePing(other, manifest)))
	fs := w.ComparePing(open, manifest)
	require.Equal(t, []classify.Cause{classify.IdentityUnauthenticatedRequest}, causes(fs))
	assert.Equal(t, classify.SeverityWarn, fs[0].Severity)
	w.Client = crio
	assert.Equal(t, classify.SeverityFail, w.ComparePing(open, manifest)[0].Severity)
}
