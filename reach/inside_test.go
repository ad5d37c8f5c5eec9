package reach_test

import (
	"context"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
)

// A network that exists only inside the cluster, and the interfaces that are
// inside a node.
func TestInside(t *testing.T) {
	t.Parallel()
	on := func(kind reach.RouteKind, name string, onLink bool) reach.Router {
		return reach.RouterFunc(func(_ context.Context, dst netip.Addr) (reach.Route, error) {
			return reach.Route{Destination: dst, Kind: kind, Interface: name, OnLink: onLink}, nil
		})
	}
	ranges := []reach.Range{{Prefix: netip.MustParsePrefix("10.20.0.0/24"), Name: "pod range"}, {}}
	services := []reach.Range{{Prefix: netip.MustParsePrefix("10.20.0.0/24"), Name: "service range", Service: true}}
	for name, tc := range map[string]struct {
		router reach.Router
		ranges []reach.Range
		want   []classify.Cause
	}{
		"uplink":            {on(reach.RouteUnicast, "eth0", true), nil, nil},
		"uplink on bridge":  {on(reach.RouteUnicast, "br0", true), nil, nil},
		"OVN's uplink":      {on(reach.RouteUnicast, "br-ex", true), nil, nil},
		"docker":            {on(reach.RouteUnicast, "docker0", true), nil, []classify.Cause{classify.RouteOverlap}},
		"compose":           {on(reach.RouteUnicast, "br-3f1a2b4c5d6e", true), nil, []classify.Cause{classify.RouteOverlap}},
		"through a gateway": {on(reach.RouteUnicast, "docker0", false), nil, nil},
		"pod range":         {on(reach.RouteUnicast, "eth0", false), ranges, []classify.Cause{classify.RouteOverlap}},
		"service range":     {on(reach.RouteUnicast, "eth0", false), services, []classify.Cause{classify.RouteServiceAddress}},
		"scripted local":    {on(reach.RouteLocal, "lo", false), nil, nil},
		"refused anyway":    {on(reach.RouteBlackhole, "", false), ranges, []classify.Cause{classify.RouteBlackhole}},
	} {
		r, err := (&reach.Checker{Router: tc.router, Ranges: tc.ranges}).CheckRoute(t.Context(), target.Addr())
		require.NoError(t, err)
		assert.Equal(t, tc.want, causes(r), name)
		if len(tc.want) > 0 && tc.want[0] != classify.RouteBlackhole {
			assert.Equal(t, classify.SeverityWarn, r.Findings()[0].Severity)
			assert.True(t, r.Held(), "a way that exists, even if it is the wrong one")
		}
	}
}
