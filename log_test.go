package pullwalk_test

import (
	"crypto/sha256"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// tracing keeps a hash of each step at the moment at which it is recorded.
type tracing struct {
	pullwalk.Trace
	hashes map[[sha256.Size]byte]bool
}

func newTracing(t testing.TB, o *pullwalk.Options) *tracing {
	tr := &tracing{hashes: map[[sha256.Size]byte]bool{}}
	tr.Recorded = func(s pull.Step) { tr.hashes[hashOf(t, s)] = true }
	tr.Watch(o)
	return tr
}

func hashOf(t testing.TB, v any) [sha256.Size]byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return sha256.Sum256(text)
}

// checkLog wants every step of the log to be what it was when it was recorded, also
// after it was judged, and the same log to be judged the same to the byte.
func (g *seen) checkLog(t *testing.T) {
	t.Helper()
	require.NotEmpty(t, g.trace.Logs)
	for _, log := range g.trace.Logs {
		first, again := hashOf(t, judge.Judge(log)), hashOf(t, judge.Judge(log))
		require.Equal(t, first, again)
		for _, s := range log.Sources {
			for _, e := range s.Endpoints {
				for _, st := range e.Steps {
					require.True(t, g.trace.hashes[hashOf(t, st)], "%s@%s[%v] was written to after it was recorded", st.ID, e.HostPort(), st.Addr)
				}
			}
		}
	}
	for _, d := range g.result.Decisions {
		require.NotEmpty(t, d.Rule)
		require.NotEmpty(t, d.Subject)
		require.NotEqual(t, d.From, d.To)
		require.NotEmpty(t, d.Why)
	}
}
