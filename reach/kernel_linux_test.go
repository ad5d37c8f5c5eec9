package reach_test

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
)

// world is a network namespace of the test's own: loopback, and eth0 with
// 10.20.0.2/24 and 2001:db8:20::2/64 whose other end answers nothing.
type world struct {
	t      *testing.T
	handle *netlink.Handle
	eth0   netlink.Link
}

// newWorld puts the calling goroutine into a new network namespace for good. The
// thread stays locked, so that the runtime ends it with the goroutine and no
// other test ever runs in that namespace. Subtests would run on other threads:
// call it in each of them.
func newWorld(t *testing.T) *world {
	t.Helper()
	const why = "needs root to make network namespaces"
	if os.Geteuid() != 0 {
		t.Skip(why)
	}
	runtime.LockOSThread()
	before, err := os.Readlink("/proc/thread-self/ns/net")
	require.NoError(t, err)
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		t.Skipf("%s: %v", why, err)
	}
	after, err := os.Readlink("/proc/thread-self/ns/net")
	require.NoError(t, err)
	require.NotEqual(t, before, after, "still in the machine's own namespace")

	w := &world{t: t}
	w.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
	require.NoError(t, err)
	t.Cleanup(w.handle.Close)
	lo, err := w.handle.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, w.handle.LinkSetUp(lo))
	w.eth0 = w.link("eth0", "10.20.0.2/24", "2001:db8:20::2/64")
	return w
}

// link makes an interface without ARP: what is sent there vanishes, at once and
// in silence. (A veth pair, as not every kernel has dummy links.)
func (w *world) link(name string, addresses ...string) netlink.Link {
	w.t.Helper()
	peer := name + "-far"
	require.NoError(w.t, w.handle.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 1400}, PeerName: peer}))
	for _, n := range []string{peer, name} {
		l, err := w.handle.LinkByName(n)
		require.NoError(w.t, err)
		require.NoError(w.t, w.handle.LinkSetARPOff(l))
		require.NoError(w.t, w.handle.LinkSetUp(l))
	}
	l, err := w.handle.LinkByName(name)
	require.NoError(w.t, err)
	for _, text := range addresses {
		addr, err := netlink.ParseAddr(text)
		require.NoError(w.t, err)
		addr.Flags = unix.IFA_F_NODAD
		require.NoError(w.t, w.handle.AddrAdd(l, addr))
		// Linux takes an IPv6 address into use from a work queue.
		require.Eventually(w.t, func() bool {
			own, err := w.handle.RouteGet(addr.IP)
			return err == nil && len(own) > 0 && own[0].Type == unix.RTN_LOCAL
		}, 10*time.Second, time.Millisecond)
	}
	return l
}

func (w *world) route(dst string, change func(*netlink.Route)) {
	w.t.Helper()
	_, ipNet, err := net.ParseCIDR(dst)
	require.NoError(w.t, err)
	r := &netlink.Route{Dst: ipNet}
	change(r)
	require.NoError(w.t, w.handle.RouteAdd(r), dst)
}

func (w *world) refuse(dst string, rtn int) {
	w.t.Helper()
	w.route(dst, func(r *netlink.Route) { r.Type = rtn })
}

func (w *world) checkRoute(addr string) *reach.Report {
	w.t.Helper()
	r, err := (&reach.Checker{}).CheckRoute(w.t.Context(), netip.MustParseAddr(addr))
	require.NoError(w.t, err)
	return r
}

func TestKernelGivesTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	eth0 := w.eth0.Attrs().Index
	w.route("0.0.0.0/0", func(r *netlink.Route) { r.Gw = net.IPv4(10, 20, 0, 1) })
	w.route("10.40.0.0/16", func(r *netlink.Route) { r.Gw, r.MTU, r.Protocol = net.IPv4(10, 20, 0, 3), 1280, unix.RTPROT_DHCP })
	w.route("10.50.0.0/16", func(r *netlink.Route) {
		r.LinkIndex, r.Scope, r.Protocol = eth0, netlink.SCOPE_LINK, unix.RTPROT_STATIC
	})
	w.route("10.60.0.0/16", func(r *netlink.Route) {
		r.Protocol = 80 // a network plugin of its own number
		r.LinkIndex, r.Via = eth0, &netlink.Via{AddrFamily: unix.AF_INET6, Addr: net.ParseIP("2001:db8:20::1")}
	})
	w.route("2001:db8:40::/48", func(r *netlink.Route) { r.Gw, r.MTU = net.ParseIP("2001:db8:20::1"), 1300 })

	src, src6 := netip.MustParseAddr("10.20.0.2"), netip.MustParseAddr("2001:db8:20::2")
	for dst, want := range map[string]reach.Route{
		"10.20.0.4":      {Source: src, OnLink: true, Prefix: netip.MustParsePrefix("10.20.0.0/24"), Protocol: "kernel"},
		"192.0.2.1":      {Source: src, Gateway: netip.MustParseAddr("10.20.0.1"), Prefix: netip.MustParsePrefix("0.0.0.0/0"), Protocol: "boot"},
		"10.40.0.4":      {Source: src, Gateway: netip.MustParseAddr("10.20.0.3"), MTU: 1280, Prefix: netip.MustParsePrefix("10.40.0.0/16"), Protocol: "dhcp"},
		"10.50.0.4":      {Source: src, OnLink: true, Prefix: netip.MustParsePrefix("10.50.0.0/16"), Protocol: "static"},
		"10.60.0.4":      {Source: src, Gateway: netip.MustParseAddr("2001:db8:20::1"), Prefix: netip.MustParsePrefix("10.60.0.0/16"), Protocol: "80"},
		"2001:db8:20::4": {Source: src6, OnLink: true, Prefix: netip.MustParsePrefix("2001:db8:20::/64"), Protocol: "kernel"},
		"2001:db8:40::4": {Source: src6, Gateway: netip.MustParseAddr("2001:db8:20::1"), MTU: 1300, Prefix: netip.MustParsePrefix("2001:db8:40::/48"), Protocol: "boot"},
	} {
		want.Destination, want.Interface, want.LinkMTU = netip.MustParseAddr(dst), "eth0", 1400
		want.Table, want.Kind, want.Method = unix.RT_TABLE_MAIN, reach.RouteUnicast, "netlink"
		r := w.checkRoute(dst)
		require.NotNil(t, r.Route, "%s: %+v", dst, r)
		assert.Equal(t, want, *r.Route, dst)
		assert.True(t, r.Held())
		assert.Empty(t, r.Findings())
	}
	for _, own := range []string{"10.20.0.2", "2001:db8:20::2", "127.0.0.1", "::1"} {
		r := w.checkRoute(own)
		assert.Equal(t, reach.RouteLocal, r.Route.Kind, own)
		if r.Target.Addr().Is6() {
			assert.Equal(t, unix.RT_TABLE_LOCAL, r.Route.Table, own)
		}
		assert.False(t, r.Route.OnLink)
	}
}

// Each way in which a kernel refuses has its own code, from the lookup and from
// the connect, and it is said once.
func TestKernelRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuse("10.31.0.0/16", unix.RTN_UNREACHABLE)
	w.refuse("10.32.0.0/16", unix.RTN_BLACKHOLE)
	w.refuse("10.33.0.0/16", unix.RTN_PROHIBIT)
	w.refuse("2001:db8:31::/48", unix.RTN_UNREACHABLE)
	w.refuse("2001:db8:32::/48", unix.RTN_BLACKHOLE)
	w.refuse("2001:db8:33::/48", unix.RTN_PROHIBIT)
	for _, tc := range []struct {
		dst   string
		kind  reach.RouteKind
		cause classify.Cause
		errno string
	}{
		{"192.0.2.1", reach.RouteNone, classify.RouteNetworkUnreachable, "ENETUNREACH"},
		{"10.31.0.4", reach.RouteUnreachable, classify.RouteNoRouteToHost, "EHOSTUNREACH"},
		{"10.32.0.4", reach.RouteBlackhole, classify.RouteBlackhole, "EINVAL"},
		{"10.33.0.4", reach.RouteProhibit, classify.RouteProhibited, "EACCES"},
		{"10.20.0.255", reach.RouteBroadcast, classify.RouteNetworkUnreachable, "ENETUNREACH"},
		{"2001:db8:99::4", reach.RouteNone, classify.RouteIPv6Unreachable, "ENETUNREACH"},
		{"2001:db8:31::4", reach.RouteUnreachable, classify.RouteNoRouteToHost, "EHOSTUNREACH"},
		{"2001:db8:32::4", reach.RouteBlackhole, classify.RouteBlackhole, "EINVAL"},
		{"2001:db8:33::4", reach.RouteProhibit, classify.RouteProhibited, "EACCES"},
	} {
		addr := netip.MustParseAddr(tc.dst)
		r, err := (&reach.Checker{}).Check(t.Context(), netip.AddrPortFrom(addr, 443))
		require.NoError(t, err)
		require.NotNil(t, r.Route, "%s: %+v", tc.dst, r)
		assert.Equal(t, tc.kind, r.Route.Kind, tc.dst)
		assert.Equal(t, "netlink", r.Route.Method, tc.dst)
		assert.Equal(t, tc.errno, r.Connect.Errno, tc.dst)
		require.Equal(t, []classify.Cause{tc.cause}, causes(r), tc.dst)
		f := r.Findings()[0]
		assert.Equal(t, classify.SeverityFail, f.Severity)
		assert.Equal(t, string(tc.kind), f.Fact(classify.FactRoute))
		assert.Equal(t, tc.errno, f.Fact(classify.FactErrno))
		assert.False(t, r.Held())

		alone, _, err := (&reach.Checker{}).Connect(t.Context(), netip.AddrPortFrom(addr, 443))
		require.NoError(t, err)
		assert.Equal(t, []classify.Cause{tc.cause}, causes(alone), "connect to %s", tc.dst)
	}
}

// The resolver of a node may be routed through a table of its own.
func TestKernelHonoursPolicyRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("eth1", "10.21.0.2/24")
	w.route("0.0.0.0/0", func(r *netlink.Route) { r.Gw = net.IPv4(10, 20, 0, 1) })
	w.route("0.0.0.0/0", func(r *netlink.Route) { r.Gw, r.Table = net.IPv4(10, 21, 0, 1), 1077 })
	_, dst, err := net.ParseCIDR("10.70.0.0/16")
	require.NoError(t, err)
	rule := netlink.NewRule()
	rule.Dst, rule.Table, rule.Priority, rule.Family = dst, 1077, 100, unix.AF_INET
	require.NoError(t, w.handle.RuleAdd(rule))

	r := w.checkRoute("10.70.0.4").Route
	assert.Equal(t, 1077, r.Table)
	assert.Equal(t, "eth1", r.Interface)
	assert.Equal(t, netip.MustParseAddr("10.21.0.1"), r.Gateway)
	assert.Equal(t, netip.MustParseAddr("10.21.0.2"), r.Source)
	r = w.checkRoute("10.71.0.4").Route
	assert.Equal(t, unix.RT_TABLE_MAIN, r.Table)
	assert.Equal(t, "eth0", r.Interface)
}

// IPv6 switched off by sysctl, as on many nodes: an AAAA record leads nowhere.
func TestKernelWithoutIPv6(t *testing.T) {
	t.Parallel()
	newWorld(t)
	// This file belongs to the namespace of the thread that opens it.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0); err != nil {
		t.Skipf("needs a writable /proc/sys/net: %v", err)
	}
	r, err := (&reach.Checker{}).Check(t.Context(), target6)
	require.NoError(t, err)
	assert.Equal(t, reach.RouteNone, r.Route.Kind)
	assert.Equal(t, []classify.Cause{classify.RouteIPv6Unreachable}, causes(r))
}

func TestKernelConnects(t *testing.T) {
	t.Parallel()
	newWorld(t)
	l, err := net.Listen("tcp", "10.20.0.2:0")
	require.NoError(t, err)
	at := l.Addr().(*net.TCPAddr).AddrPort()
	r, err := (&reach.Checker{}).Check(t.Context(), at)
	require.NoError(t, err)
	assert.True(t, r.Held(), "%+v", r)
	assert.Equal(t, netip.MustParseAddr("10.20.0.2"), r.Connect.Source.Addr())

	require.NoError(t, l.Close())
	r, err = (&reach.Checker{}).Check(t.Context(), at)
	require.NoError(t, err)
	assert.Equal(t, []classify.Cause{classify.RouteLocalAddress, classify.EndpointConnectionRefused}, causes(r))
}

// A packet filter that drops the SYN: a good route, then silence.
func TestKernelSilence(t *testing.T) {
	t.Parallel()
	newWorld(t)
	r, err := (&reach.Checker{Limit: 50 * time.Millisecond}).Check(t.Context(), target)
	require.NoError(t, err)
	assert.Equal(t, reach.RouteUnicast, r.Route.Kind)
	assert.True(t, r.Connect.TimedOut)
	assert.Empty(t, r.Connect.Errno)
	require.Equal(t, []classify.Cause{classify.RouteConnectTimeout}, causes(r))
	f := r.Findings()[0]
	assert.Equal(t, "10.20.0.2", f.Fact(classify.FactSource))
	assert.Equal(t, "eth0", f.Fact(classify.FactInterface))
}
