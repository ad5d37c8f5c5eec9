package pullwalk_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/internal/lab"
)

// Header fields of hosts.toml go to the source and to its token server, and to no
// place that a redirect leads to.
func TestConfiguredHeaderFields(t *testing.T) {
	t.Parallel()
	s := scenarioNamed(t, "settings-header")
	s.inBubble(t, func(t *testing.T, w *world) {
		got := w.diagnose(t, t.Context(), s)
		require.Equal(t, pullwalk.StatusOK, got.result.Verdict)
		for host, want := range map[*lab.Host]bool{w.lab.Registry: true, w.lab.Token: true, w.lab.Blobs: false} {
			require.NotEmpty(t, host.Requests())
			for _, r := range host.Requests() {
				for _, name := range []string{"X-Team", "X-Api-Key"} {
					assert.Equal(t, want, slices.Contains(r.Fields, name), "%s %s %s", host.Name, r, name)
				}
			}
		}
	})
}
