package registry

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

func TestForeignLayer(t *testing.T) {
	t.Parallel()
	body := `{"schemaVersion":2,"config":{"digest":"` + sum("{}") + `","size":2},"layers":[{"digest":"` + sum("layer") + `","size":5,"urls":["https://mcr.example.test/l?sig=secret","ftp://x/y"]}]}`
	w := newWalk(t, image)
	_, m := w.Manifest(t.Context(), reply(200, header{"Content-Type": typeOCIManifest}, body), sum(body), "")
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

	// What sends each runtime on, at the first and at the last place.
	two := d
	two.foreign = append([]*url.URL{{Scheme: "https", Host: "first.example.test", Path: "/l"}}, d.foreign...)
	for _, tt := range []struct {
		runtime Client
		d       Descriptor
		status  int
		want    Outcome
	}{
		{containerd, d, 404, OutcomeNotNeeded}, {containerd, d, 403, OutcomeFailed}, {containerd, two, 404, OutcomeNotNeeded}, {containerd, two, 500, OutcomeFailed},
		{containerd, d, 404, OutcomeNotNeeded}, {containerd, d, 401, OutcomeFailed},
		{crio, d, 404, OutcomeFailed}, {crio, two, 404, OutcomeNotNeeded}, {crio, two, 403, OutcomeNotNeeded},
	} {
		w.Client = tt.runtime
		u := tt.d.ForeignURLs()[0]
		r = w.Foreign(t.Context(), reply(tt.status, header{"Www-Authenticate": "Basic realm=x"}, nil), u, tt.d, Whole)
		assert.Equal(t, tt.want, r.Outcome, "%+v", tt)
		assert.Contains(t, causes(r.Findings()), classify.EndpointForeignLayerURL)
		r = w.Foreign(t.Context(), reply(302, header{"Location": "/other"}, nil), u, tt.d, Whole)
		r = w.Follow(t.Context(), reply(tt.status, nil, nil), r, tt.d, Whole)
		assert.Equal(t, tt.want, r.Outcome, "redirected, %+v", tt)
	}
	w.Client = containerd
	r = w.Foreign(t.Context(), reply(200, nil, "other"), u, d, Whole)
	assert.Equal(t, OutcomeFailed, r.Outcome, "wrong content is what the runtime takes")
	assert.Equal(t, OutcomeInconclusive, w.Foreign(t.Context(), nil, nil, d, Whole).Outcome)
}
