package simnet

import (
	"context"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/reach"
)

func TestRouter(t *testing.T) {
	t.Parallel()
	n := New()
	defer n.Close()
	n.Route(prefix("10.20.0.7/16"), reach.Route{Interface: "eth1", OnLink: true, Kind: reach.RouteUnicast, Method: "own"})
	n.Route(prefix("10.0.0.0/8"), reach.Route{Kind: reach.RouteProhibit})
	n.Route(prefix("10.30.0.0/16"), reach.Route{Interface: "eth1"})
	n.Route(prefix("10.30.0.0/16"), reach.Route{Interface: "eth2"})
	n.Route(prefix("2001:db8::/32"), reach.Route{Interface: "eth6"})
	for addr, want := range map[string]reach.Route{
		"10.20.0.4":        {Interface: "eth1", OnLink: true, Kind: reach.RouteUnicast, Method: "own"},
		"::ffff:10.20.0.4": {Interface: "eth1", OnLink: true, Kind: reach.RouteUnicast, Method: "own"},
		"10.21.0.4":        {Kind: reach.RouteProhibit, Method: "simnet"},
		"10.30.0.4":        {Interface: "eth2", Kind: reach.RouteUnicast, Method: "simnet"},
		"2001:db8::4":      {Interface: "eth6", Kind: reach.RouteUnicast, Method: "simnet"},
		"192.0.2.7":        {Kind: reach.RouteNone, Method: "simnet"},
	} {
		asked := netip.MustParseAddr(addr)
		want.Destination = asked.Unmap()
		got, err := n.Router().RouteTo(t.Context(), asked)
		require.NoError(t, err)
		require.Equal(t, want, got, addr)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.Router().RouteTo(ended, registry.Addr())
	require.ErrorIs(t, err, context.Canceled)
}
