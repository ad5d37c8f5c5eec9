package engine

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/node"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/registry"
)

type unavailable struct{}

func (unavailable) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("")), Header: http.Header{}, Request: r}, nil
}

// What a newer release mends by asking again is the end of an older one's pull.
func TestOlderRuntimesAskOnce(t *testing.T) {
	t.Parallel()
	ref, err := registry.ParseReference("registry.corp.test/team/app:v1")
	require.NoError(t, err)
	sources, _, err := noderuntime.Open(nil, "containerd", "").Sources(ref)
	require.NoError(t, err)
	failed := sources[0].Walk(ref, noderuntime.Of("containerd", "").Client).Resolve(context.Background(), unavailable{}, http.MethodGet)
	for release, requests := range map[string]int{"v1.7.35": 0, "v2.4.2": 2, "": 2} {
		s := &source{image: &image{call: &call{profile: noderuntime.Of("containerd", ""), view: &node.View{Runtime: noderuntime.Runtime{Version: release}}}}}
		require.Equal(t, requests, s.retries(failed).Requests, release)
	}
}
