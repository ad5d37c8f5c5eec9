package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example is what a newcomer sees first: every diagnosis must be the truth.
func TestQuickstartTellsTheTruth(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out), out.String())
	require.Contains(t, out.String(), "downloaded completely")
	require.NotContains(t, out.String(), "WRONG")
	for _, layer := range []string{"layer dns", "layer endpoint", "layer tls", "layer identity", "layer image"} {
		require.Contains(t, out.String(), layer)
	}
}
