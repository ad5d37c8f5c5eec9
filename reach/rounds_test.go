package reach_test

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
)

// inTurn answers the n-th connect with the n-th dialer, then with the last.
func inTurn(dialers ...reach.Dialer) reach.Dialer {
	var n atomic.Int32
	return reach.DialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		i := min(int(n.Add(1)), len(dialers)) - 1
		return dialers[i].DialContext(ctx, network, address)
	})
}

func TestRounds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		dialer   reach.Dialer
		rounds   int
		every    time.Duration
		causes   []classify.Cause
		severity classify.Severity
		rate     string
		tried    int
		took     time.Duration
	}{
		"all hold":       {accepts(), 3, 0, nil, "", "", 3, 0},
		"none holds":     {answers(syscall.ECONNREFUSED), 3, 0, []classify.Cause{classify.EndpointConnectionRefused}, classify.SeverityFail, "0/3", 3, 0},
		"some hold":      {inTurn(accepts(), silent(), accepts(), accepts()), 4, 0, []classify.Cause{classify.RouteIntermittent}, classify.SeverityWarn, "3/4", 4, 5 * time.Second},
		"silent at once": {silent(), 5, 0, []classify.Cause{classify.RouteConnectTimeout}, classify.SeverityFail, "0/5", 5, 5 * time.Second},
		"apart":          {accepts(), 3, time.Second, nil, "", "", 3, 2 * time.Second},
		"bounded":        {accepts(), 1 << 30, 0, nil, "", "", 100, 0},
		"once":           {accepts(), 0, 0, nil, "", "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &reach.Checker{Router: routeOf(reach.RouteUnicast), Dialer: tc.dialer, Rounds: tc.rounds, Every: tc.every}
				start := time.Now()
				r, err := c.Check(t.Context(), target)
				require.NoError(t, err)
				assert.Equal(t, tc.took, time.Since(start))
				assert.Len(t, r.Rounds, tc.tried)
				assert.Equal(t, tc.causes, causes(r), "%v", r.Findings())
				assert.Empty(t, r.Inconclusive)
				if tc.causes == nil {
					assert.True(t, r.Held())
					return
				}
				f := r.Findings()[0]
				assert.Equal(t, tc.severity, f.Severity)
				assert.Equal(t, tc.rate, f.Fact(reach.FactRate))
				assert.False(t, r.Held())
				assert.Equal(t, "10.1.0.7", f.Fact(classify.FactSource))
			})
		})
	}
}

func TestRoundsEndWithTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		start := time.Now()
		r, err := (&reach.Checker{Router: routeOf(reach.RouteUnicast), Dialer: accepts(), Rounds: 5, Every: time.Second}).Check(ctx, target)
		require.NoError(t, err)
		assert.Equal(t, 1500*time.Millisecond, time.Since(start))
		assert.Len(t, r.Rounds, 2)
		assert.NotEmpty(t, r.Inconclusive)
		assert.False(t, r.Held())
	})
}

// One bad address of several shows, and drops to a warning.
func TestCheckAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := netip.MustParseAddrPort("10.20.0.5:443")
		c := &reach.Checker{Router: routeOf(reach.RouteUnicast), Dialer: reach.DialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == bad.String() {
				return silent().DialContext(ctx, network, address)
			}
			return accepts().DialContext(ctx, network, address)
		})}
		start := time.Now()
		all, err := c.CheckAll(t.Context(), target, bad, target6)
		require.NoError(t, err)
		assert.Equal(t, 5*time.Second, time.Since(start))
		assert.Equal(t, 2, all.Held())
		require.Len(t, all.Findings(), 1)
		f := all.Findings()[0]
		assert.Equal(t, classify.RouteConnectTimeout, f.Cause)
		assert.Equal(t, classify.SeverityWarn, f.Severity)
		assert.Equal(t, bad.String(), f.Endpoint)
		assert.Equal(t, classify.SeverityFail, all.Reports[1].Findings()[0].Severity, "the address's own report stays")
		text, err := json.Marshal(all)
		require.NoError(t, err)
		assert.Contains(t, string(text), `"target":"10.20.0.5:443"`)

		all, err = c.CheckAll(t.Context(), bad)
		require.NoError(t, err)
		assert.Zero(t, all.Held())
		assert.Equal(t, classify.SeverityFail, all.Findings()[0].Severity)
	})
	c := &reach.Checker{Dialer: accepts(), Router: routeOf(reach.RouteUnicast)}
	for name, targets := range map[string][]netip.AddrPort{
		"none": nil, "twice": {target, netip.MustParseAddrPort("[::ffff:10.20.0.4]:443")}, "zero": {target, {}}, "too many": make([]netip.AddrPort, 257),
	} {
		_, err := c.CheckAll(t.Context(), targets...)
		require.Error(t, err, name)
	}
}

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
