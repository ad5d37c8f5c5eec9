package reach_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
)

func check(t *testing.T, c *reach.Checker, to netip.AddrPort) *reach.Report {
	t.Helper()
	r, err := c.Check(t.Context(), to)
	require.NoError(t, err)
	return r
}

func TestPathHealthy(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	p.reg.serve("10.20.3.4:443", nil)
	p.reg.serve("[2001:db8:3::4]:443", nil)
	for _, to := range []netip.AddrPort{registry, registry6} {
		r := check(t, p.checker(), to)
		assert.True(t, r.Held(), "%+v %v", r, r.Findings())
		assert.Empty(t, r.Findings())
		assert.Nil(t, r.Trace, "a connection that came about is not traced")
		assert.Equal(t, 1500, r.Connect.PathMTU)
		assert.Greater(t, r.Connect.Segment, 1300)
		assert.Zero(t, r.Connect.Retransmits)
		assert.Equal(t, r.Route.Source, r.Connect.Source.Addr())
	}
	// A caller whose thread is in the namespace looks from there, without a path.
	p.node.do(func() {
		c := &reach.Checker{}
		r, err := c.Check(t.Context(), registry)
		assert.NoError(t, err)
		assert.True(t, r.Held(), "%+v", r)
		trace, err := c.Trace(t.Context(), registry)
		assert.NoError(t, err)
		assert.True(t, trace.Reached)
		assert.Equal(t, 3, trace.Distance)
	})
}

func TestPathTrace(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	p.reg.serve("10.20.3.4:443", nil)
	for _, tc := range []struct {
		to   netip.AddrPort
		hops []netip.Addr
	}{
		{registry, []netip.Addr{hop1, hop2}},
		{registry6, []netip.Addr{netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:2::2")}}, // closed: the refusal reaches too
	} {
		trace, err := p.checker().Trace(t.Context(), tc.to)
		require.NoError(t, err)
		assert.True(t, trace.Reached, "%+v", trace)
		assert.Equal(t, 3, trace.Distance)
		assert.Nil(t, trace.Rejected)
		assert.Empty(t, trace.Inconclusive)
		var got []netip.Addr
		for i, h := range trace.Hops {
			assert.Equal(t, i+1, h.Number)
			got = append(got, h.Address)
		}
		assert.Equal(t, tc.hops, got)
	}
}

// Every way in which a router says no, told apart from the host's own refusal.
func TestPathRejected(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set   func(p *path)
		to    netip.AddrPort
		kind  string
		errno string
		from  netip.Addr
	}{
		"no route":       {func(p *path) { p.r1.unroute("10.20.3.0/24") }, registry, "net-unreachable", "ENETUNREACH", hop1},
		"unreachable":    {func(p *path) { p.r1.route("10.20.3.4/32", "", unix.RTN_UNREACHABLE) }, registry, "host-unreachable", "EHOSTUNREACH", hop1},
		"prohibit":       {func(p *path) { p.r1.route("10.20.3.4/32", "", unix.RTN_PROHIBIT) }, registry, "admin-prohibited", "EHOSTUNREACH", hop1},
		"second router":  {func(p *path) { p.r2.route("10.20.3.4/32", "", unix.RTN_PROHIBIT) }, registry, "admin-prohibited", "EHOSTUNREACH", hop2},
		"this port only": {func(p *path) { p.r1.filter(unix.RTN_PROHIBIT, unix.IPPROTO_TCP, 443, nil) }, registry, "admin-prohibited", "EHOSTUNREACH", hop1},
		"IPv6 no route":  {func(p *path) { p.r1.unroute("2001:db8:3::/64") }, registry6, "net-unreachable", "ENETUNREACH", netip.MustParseAddr("2001:db8:1::1")},
		"IPv6 prohibit":  {func(p *path) { p.r1.route("2001:db8:3::4/128", "", unix.RTN_PROHIBIT) }, registry6, "admin-prohibited", "EACCES", netip.MustParseAddr("2001:db8:1::1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPath(t)
			tc.set(p)
			r := check(t, p.checker(), tc.to)
			require.NotNil(t, r.Connect.ICMP, "%+v", r.Connect)
			assert.Equal(t, tc.kind, r.Connect.ICMP.Kind)
			assert.Equal(t, tc.from, r.Connect.ICMP.From)
			assert.False(t, r.Connect.ICMP.Own)
			assert.Equal(t, tc.errno, r.Connect.Errno)
			require.Equal(t, []classify.Cause{classify.RouteRejected}, causes(r), "%v", r.Findings())
			f := r.Findings()[0]
			assert.Contains(t, f.Summary, tc.from.String())
			assert.Contains(t, f.Fact("icmp"), tc.kind)
			assert.Equal(t, classify.CertaintyProven, f.Certainty)
			assert.Equal(t, classify.SeverityFail, f.Severity)
			assert.NotEmpty(t, f.Alternatives)
			require.NotNil(t, r.Trace, "a refusal by a router is traced")
			require.NotNil(t, r.Trace.Rejected, "%+v", r.Trace)
			assert.Equal(t, tc.from, r.Trace.Rejected.From)
			var errno unix.Errno
			require.ErrorAs(t, f, &errno)
		})
	}
}

// Two routers that send the packets to each other.
func TestPathLoop(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	p.r2.route("10.20.3.4/32", "10.20.2.1", 0)
	r := check(t, p.checker(), registry)
	require.Equal(t, []classify.Cause{classify.RouteRejected}, causes(r), "%+v", r.Connect)
	assert.Equal(t, "time-exceeded", r.Connect.ICMP.Kind)
	assert.Contains(t, r.Findings()[0].Summary, "circle")
	require.NotNil(t, r.Trace)
	assert.Len(t, r.Trace.Hops, 30)
	assert.False(t, r.Trace.Reached)
}

// The first SYN gets lost, a later one arrives: a warning, and no trace of it.
func TestPathLosesAPacket(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	p.reg.serve(registry.String(), nil)
	p.r1.route("10.20.3.4/32", "", unix.RTN_BLACKHOLE)
	repaired := make(chan struct{})
	time.AfterFunc(200*time.Millisecond, func() { // before the second SYN, after 1 s
		defer close(repaired)
		p.r1.unroute("10.20.3.4/32")
	})
	c := p.checker()
	c.Limit = 0
	r := check(t, c, registry)
	<-repaired
	assert.True(t, r.Held(), "%+v", r.Connect)
	assert.Positive(t, r.Connect.Retransmits)
	require.Equal(t, []classify.Cause{classify.RouteIntermittent}, causes(r))
	assert.Equal(t, classify.SeverityWarn, r.Findings()[0].Severity)
}

func TestPathPortClosed(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	r := check(t, p.checker(), registry)
	assert.Equal(t, []classify.Cause{classify.EndpointConnectionRefused}, causes(r))
	assert.Nil(t, r.Connect.ICMP, "a reset is the host's own")
	assert.Nil(t, r.Trace)
	assert.Equal(t, netip.MustParseAddr("10.20.1.2"), r.Connect.Source.Addr())
}

// Silence: what the trace may suspect of it, and what it may not.
func TestPathSilent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set   func(p *path)
		cause classify.Cause
		hops  []netip.Addr
		other bool
	}{
		"dropped in transit": {func(p *path) { p.r1.sink("10.20.3.4/32") }, classify.RouteConnectTimeout, []netip.Addr{hop1}, false},
		"dropped at the end": {func(p *path) { p.r2.sink("10.20.3.4/32") }, classify.RouteConnectTimeout, []netip.Addr{hop1, hop2}, false},
		// A route that drops comes before the count of the hops.
		"dropped by a route": {func(p *path) { p.r2.route("10.20.3.4/32", "", unix.RTN_BLACKHOLE) }, classify.RouteConnectTimeout, []netip.Addr{hop1}, false},
		"no way back":        {func(p *path) { p.reg.unroute("0.0.0.0/0") }, classify.RouteConnectTimeout, []netip.Addr{hop1, hop2}, false},
		"this port dropped": {func(p *path) {
			p.r2.filter(unix.RTN_BLACKHOLE, unix.IPPROTO_TCP, 443, nil)
		}, classify.RouteConnectTimeout, []netip.Addr{hop1}, true},
		"no router answers": {func(p *path) {
			p.r1.filter(unix.RTN_BLACKHOLE, unix.IPPROTO_ICMP, 0, nil)
			p.r1.route("10.20.3.4/32", "", unix.RTN_BLACKHOLE)
		}, classify.RouteConnectTimeout, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPath(t)
			tc.set(p)
			r := check(t, p.checker(), registry)
			assert.True(t, r.Connect.TimedOut)
			assert.Positive(t, r.Connect.Retransmits)
			assert.Equal(t, netip.MustParseAddr("10.20.1.2"), r.Connect.Source.Addr())
			require.NotNil(t, r.Trace)
			var got []netip.Addr
			for _, h := range r.Trace.Hops {
				got = append(got, h.Address)
			}
			assert.Equal(t, tc.hops, got)
			assert.False(t, r.Trace.Reached)
			assert.Equal(t, tc.other, len(r.Trace.Others) > 0, "%+v", r.Trace.Others)
			require.Equal(t, []classify.Cause{tc.cause}, causes(r), "%v", r.Findings())
			f := r.Findings()[0]
			if tc.cause == classify.RouteConnectTimeout && !tc.other && len(tc.hops) > 0 {
				assert.Equal(t, classify.RouteReturnPathSuspected, f.Alternatives[0], "one end alone cannot know")
				assert.Equal(t, tc.hops[len(tc.hops)-1].String(), f.Fact("last-hop"))
			}
			assert.Equal(t, "10.20.1.2", f.Fact(classify.FactSource))
			assert.NotEmpty(t, f.Fact(classify.FactGateway))
			assert.NotEmpty(t, f.Fact("syns-sent"))
		})
	}
}

// The caller's end comes while the way is traced.
func TestPathCallersEndDuringTheTrace(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	p.r1.sink("10.20.3.4/32")
	ctx, cancel := context.WithTimeout(t.Context(), 1300*time.Millisecond)
	defer cancel()
	c := p.checker()
	c.Limit = time.Minute
	r, err := c.Check(ctx, registry)
	require.NoError(t, err)
	require.Error(t, ctx.Err())
	assert.Empty(t, r.Findings())
	assert.Contains(t, r.Inconclusive, "context ended")
	assert.False(t, r.Held())
}

// Nobody holds the address: said by this machine's own kernel on its own
// network, and by the last router elsewhere. The kernels look for 3 s.
func TestPathHostAbsent(t *testing.T) {
	t.Parallel()
	t.Run("behind routers", func(t *testing.T) {
		t.Parallel()
		c := newPath(t).checker()
		c.Limit = 0
		r := check(t, c, netip.MustParseAddrPort("10.20.3.77:443"))
		require.Equal(t, []classify.Cause{classify.RouteHostAbsent}, causes(r), "%+v", r.Connect)
		f := r.Findings()[0]
		assert.Equal(t, classify.CertaintyLikely, f.Certainty)
		assert.Contains(t, f.Summary, hop2.String())
	})
	t.Run("own network", func(t *testing.T) {
		t.Parallel()
		c := newPath(t).checker()
		c.Limit = 0
		r := check(t, c, netip.MustParseAddrPort("10.20.1.77:443"))
		require.Equal(t, []classify.Cause{classify.RouteHostAbsent}, causes(r), "%+v", r.Connect)
		assert.True(t, r.Connect.ICMP.Own)
		assert.Equal(t, classify.CertaintyProven, r.Findings()[0].Certainty)
		assert.Contains(t, r.Findings()[0].Summary, "eth0")
	})
	t.Run("gateway", func(t *testing.T) {
		t.Parallel()
		p := newPath(t)
		p.node.route("0.0.0.0/0", "10.20.1.9", 0)
		c := p.checker()
		c.Limit = 0
		r, conn, err := c.Connect(t.Context(), registry)
		require.NoError(t, err)
		require.Nil(t, conn)
		require.Equal(t, []classify.Cause{classify.RouteNoRouteToHost}, causes(r), "%+v", r.Connect)
		assert.Contains(t, r.Findings()[0].Summary, "gateway 10.20.1.9")
		assert.Equal(t, "10.20.1.9", r.Findings()[0].Fact(classify.FactGateway))
	})
	t.Run("a bridge of this machine covers it", func(t *testing.T) {
		t.Parallel()
		p := newPath(t)
		p.node.with(func(h *netlink.Handle) {
			require.NoError(t, h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "docker0", MTU: 1500}, PeerName: "docker0-far"}))
		})
		p.node.up("docker0-far")
		p.node.up("docker0", "10.20.3.1/24")
		c := p.checker()
		c.Limit = 0
		alone, err := c.CheckRoute(t.Context(), registry.Addr())
		require.NoError(t, err)
		require.Equal(t, []classify.Cause{classify.RouteOverlap}, causes(alone))
		assert.Equal(t, classify.SeverityWarn, alone.Findings()[0].Severity)
		r := check(t, c, registry)
		assert.Contains(t, causes(r), classify.RouteOverlap)
		assert.Equal(t, classify.SeverityFail, r.Findings()[len(r.Findings())-1].Severity)
	})
}

func TestNamespaceThatCannotBeEntered(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/proc/self/ns/no-such", "/dev/null", t.TempDir()} {
		from := reach.System{Namespace: path}
		c := &reach.Checker{Router: from, Dialer: from}
		r := check(t, c, registry)
		assert.NotEmpty(t, r.Inconclusive)
		assert.Empty(t, r.Findings(), "an errno of ours says nothing of the target")
		assert.False(t, r.Held())
	}
}
