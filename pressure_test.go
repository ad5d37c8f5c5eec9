package pullwalk_test

import (
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

// later is a file tree of which one file changes.
type later struct {
	fs.ReadLinkFS
	name    string
	tree    fs.FS // where it is found from then on
	changed time.Time
}

func (l later) Open(name string) (fs.File, error) {
	if name == l.name && !time.Now().Before(l.changed) {
		return l.tree.Open(name)
	}
	return l.ReadLinkFS.Open(name)
}

// A full connection table of the node explains a silence of the registry, and
// belongs to the node.
func TestPressureOfTheNode(t *testing.T) {
	t.Parallel()
	const stat = "proc/1/net/stat/nf_conntrack"
	for name, tt := range map[string]struct {
		count   string
		grows   bool
		primary classify.Cause
		also    bool
	}{
		"room":               {"100", true, classify.RouteConnectTimeout, false},
		"full":               {"1000", false, classify.RouteConnectTimeout, true},
		"full, and dropping": {"1000", true, classify.RoutePressure, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, "net silent 10.20.0.4:443", func(t *testing.T, w *world) {
				w.file("proc/sys/net/netfilter/nf_conntrack_count", tt.count+"\n")
				w.file("proc/sys/net/netfilter/nf_conntrack_max", "1000\n")
				w.file(stat, "entries drop\n0 00000001\n")
				w.file("after/"+stat, "entries drop\n0 00000007\n")
				if tt.grows {
					after, err := fs.Sub(w.files, "after")
					require.NoError(t, err)
					w.opts.Node.FS = later{w.files, stat, after, time.Now().Add(2 * time.Second)}
				}
				got := w.diagnose(t, t.Context(), scenario{})
				got.checkShape(t)
				got.checkEncoding(t)
				require.Equal(t, pullwalk.StatusFailed, got.result.Verdict)
				require.Equal(t, tt.primary, got.result.Primary.Cause)
				require.Equal(t, "registry.corp.test:443", got.result.Primary.Endpoint)
				if tt.also {
					require.Contains(t, got.result.Primary.Alternatives, classify.RoutePressure)
					require.True(t, hasCause(got.result, classify.RoutePressure))
				}
				require.NotNil(t, find(got.result, pullwalk.StepConnect))
			})
		})
	}
	inWorld(t, "", func(t *testing.T, w *world) {
		w.file("proc/sys/net/netfilter/nf_conntrack_count", "1000\n")
		w.file("proc/sys/net/netfilter/nf_conntrack_max", "1000\n")
		got := w.diagnose(t, t.Context(), scenario{})
		require.Equal(t, pullwalk.StatusOK, got.result.Verdict, "what answers is not asked for reasons")
	})
}
