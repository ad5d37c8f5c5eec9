package noderuntime

import (
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

func TestRetries(t *testing.T) {
	t.Parallel()
	ref, err := registry.ParseReference("registry.corp.test/team/app:1")
	require.NoError(t, err)
	w := &registry.Walk{Reference: ref}
	answer := func(status int) *registry.Report { return w.Resolve(t.Context(), reply(status, nil, nil), "GET") }
	for _, tt := range []struct {
		name     string
		status   int
		requests int
		wait     int64
	}{
		{"containerd", 429, 6, 0}, {"containerd", 503, 2, 0}, {"containerd", 404, 0, 0}, {"", 502, 0, 0},
		{"crio", 429, 5, 30_000}, {"crio", 503, 0, 0}, {"dockerd", 503, 0, 0},
	} {
		got := Of(tt.name, "").Client.Retry(answer(tt.status))
		assert.Equal(t, tt.requests, got.Requests, tt)
		assert.Equal(t, tt.wait, got.WaitMS, tt)
		assert.Equal(t, tt.requests == 0, got.What == "")
	}
	for err, requests := range map[error]int{io.EOF: 5, syscall.ECONNRESET: 5, syscall.ECONNREFUSED: 0, classify.ErrMalformedResponse: 0, errors.New("x"): 0} {
		broken := w.Resolve(t.Context(), roundTrip(func(*http.Request) (*http.Response, error) { return nil, err }), "GET")
		assert.Equal(t, requests, Of("containerd", "").Client.Retry(broken).Requests, err)
	}
	blob := w.Blob(t.Context(), reply(500, nil, nil), registry.Descriptor{Digest: sum("x"), Size: 1}, registry.Whole)
	assert.EqualValues(t, 50_000, Of("dockerd", "").Client.Retry(blob).WaitMS)
	assert.Zero(t, Of("containerd", "").Client.Retry(nil))
	assert.Zero(t, Of("containerd", "").Client.Retry(w.Resolve(t.Context(), reply(307, header{"Location": "/x"}, nil), "GET")))
}

// A runtime older than the release that began to repeat fails at once.
func TestRetryOfARelease(t *testing.T) {
	t.Parallel()
	ref, err := registry.ParseReference("registry.corp.test/team/app:1")
	require.NoError(t, err)
	w := &registry.Walk{Reference: ref}
	once := Of("containerd", "").Client.Retry(w.Resolve(t.Context(), reply(503, nil, nil), "GET"))
	many := Of("containerd", "").Client.Retry(w.Resolve(t.Context(), reply(429, nil, nil), "GET"))
	for release, does := range map[string]bool{
		"": true, "v2.1.0": true, "2.4.2": true, "v2.10.0": true, "v2.0.9": false, "v1.7.35": false, "1.6.20~ds1": false, "devel": true, "2.1.0-rc.1": true,
	} {
		assert.Equal(t, does, once.Done(release), release)
		assert.True(t, many.Done(release), release)
	}
}
