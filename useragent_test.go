package pullwalk_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/lab"
)

// Every request carries the name that was chosen, and by default the runtime's own:
// a box on the way may let one name through and not another.
func TestUserAgent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ world, given, want string }{
		{"", "", "pullwalk"},
		{"runtime containerd", "", "containerd"},
		{"runtime crio", "", "cri-o"},
		{"runtime crio", "ours/1", "ours/1"},
	} {
		t.Run(tt.world+tt.given, func(t *testing.T) {
			t.Parallel()
			inWorld(t, tt.world+"\noption audit", func(t *testing.T, w *world) {
				var mu sync.Mutex
				var seen []string
				for _, h := range []*lab.Host{w.lab.Registry, w.lab.Token, w.lab.Blobs} {
					w.lab.Break(lab.Answers(h, func(_ http.ResponseWriter, r *http.Request) bool {
						mu.Lock()
						defer mu.Unlock()
						seen = append(seen, r.UserAgent())
						return false
					}))
				}
				w.opts.UserAgent = tt.given
				w.diagnose(t, t.Context(), scenario{})
				require.Greater(t, len(seen), 8)
				slices.Sort(seen)
				require.Equal(t, []string{tt.want}, slices.Compact(seen))
			})
		})
	}
}

// Registries limit the rate of manifest requests: a Touch asks as often as a pull
// does, for the tag without and with a token, the index and the manifest.
func TestManifestRequestsOfATouch(t *testing.T) {
	t.Parallel()
	for _, node := range []string{"", "runtime containerd", "runtime crio"} {
		inWorld(t, node, func(t *testing.T, w *world) {
			got := w.diagnose(t, t.Context(), scenario{})
			require.Equal(t, 4, got.result.ManifestRequests)
			require.Equal(t, 4, w.lab.Registry.Count("", "/v2/"+lab.Repository+"/manifests/", 0))
		})
	}
}
