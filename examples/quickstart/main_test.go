package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example is what a newcomer sees first: every diagnosis must be the truth.
func TestQuickstartTellsTheTruth(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, ""), out.String())
	require.Contains(t, out.String(), "downloaded completely")
	require.NotContains(t, out.String(), "WRONG")
	healthy, _, _ := strings.Cut(out.String(), "The same pull, broken")
	require.NotContains(t, healthy, "Notes:", "what lies on loopback on purpose is not remarked")
	for _, layer := range []string{"layer dns", "layer endpoint", "layer tls", "layer identity", "layer image"} {
		require.Contains(t, out.String(), layer)
	}
}

func TestOneBrokenPull(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, "unknown-ca"))
	require.Contains(t, out.String(), "tls.unknown-authority")
	require.ErrorContains(t, run(t.Context(), &out, "nothing-of-the-kind"), "unknown-ca")
	require.NoError(t, run(t.Context(), &out, "list"))
	require.Contains(t, out.String(), "blob-host-gone")
}
