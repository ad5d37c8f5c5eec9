package gotest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/internal/lab"
)

// listener is a test whose failure is only listened to.
type listener struct {
	message string
	failed  bool
}

func (l *listener) Errorf(format string, args ...any) { l.message += fmt.Sprintf(format, args...) }
func (l *listener) FailNow()                          { l.failed = true }

// What a failed test prints is all that one sees of it: every line of the report is
// there.
func TestTheFailureMessageIsTheWholeReport(t *testing.T) {
	w, err := startLab()
	require.NoError(t, err)
	defer w.Close()
	w.Break(lab.UntrustedCA(w.Blobs))
	opts, err := labOptions(w)
	require.NoError(t, err)
	res, err := pullwalk.Diagnose(t.Context(), w.Image(), opts)
	require.NoError(t, err)

	var failing listener
	require.NoError(&failing, res.Err())
	require.True(t, failing.failed)
	require.Contains(t, failing.message, "tls.unknown-authority")
	lines := 0
	for line := range strings.Lines(res.String()) {
		if line = strings.TrimSpace(line); line != "" {
			require.Contains(t, failing.message, line)
			lines++
		}
	}
	require.Greater(t, lines, 8)
	for _, secret := range w.Secrets() {
		require.NotContains(t, failing.message, secret)
	}
}
