package endpoints

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

func TestForeignLayer(t *testing.T) {
	t.Parallel()
	body := `{"schemaVersion":2,"config":{"digest":"` + sum("{}") + `","size":2},"layers":[{"digest":"` + sum("layer") + `","size":5,"urls":["https://mcr.example.test/l?sig=secret","ftp://x/y"]}]}`
	w := newWalk(t, image)
	_, m := w.Manifest(t.Context(), reply(200, header{"Content-Type": typeOCIManifest}, body), sum(body))
	require.NotNil(t, m)
	d := m.Layers[0]
	assert.Equal(t, []string{"https://mcr.example.test/l"}, d.URLs)
	require.Len(t, d.ForeignURLs(), 1)
	u := d.ForeignURLs()[0]
	assert.Equal(t, "sig=secret", u.RawQuery)

	w.Authorization = "Bearer secret"
	var got *http.Request
	spy := func(rt roundTrip) roundTrip {
		return func(req *http.Request) (*http.Response, error) { got = req; return rt(req) }
	}
	r := w.Foreign(t.Context(), spy(reply(200, nil, "layer")), u, d, Whole)
	assert.True(t, r.Complete)
	assert.Equal(t, "https://mcr.example.test/l?sig=secret", got.URL.String())
	assert.Empty(t, got.Header.Get("Authorization"))

	for way, outcome := range map[Way]Outcome{WayContainerd: OutcomeNotNeeded, WayCRIO: OutcomeFailed} {
		for _, status := range []int{401, 403, 404} {
			w.Way = way
			r = w.Foreign(t.Context(), reply(status, header{"Www-Authenticate": "Basic realm=x"}, nil), u, d, Whole)
			assert.Equal(t, outcome, r.Outcome, "%s %d", way, status)
			assert.Contains(t, causes(r.Findings()), classify.EndpointForeignLayerURL)
			r = w.Foreign(t.Context(), reply(302, header{"Location": "/other"}, nil), u, d, Whole)
			r = w.Follow(t.Context(), reply(status, nil, nil), r, d, Whole)
			assert.Equal(t, outcome, r.Outcome, "%s %d", way, status)
		}
	}
	assert.Equal(t, OutcomeInconclusive, w.Foreign(t.Context(), nil, nil, d, Whole).Outcome)
}
