package reach_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pullwalk/pullwalk/reach"
)

// space is a network namespace of a test, held by a thread of its own.
type space struct {
	t     *testing.T
	calls chan func()
	path  string
	tid   int
}

// newSpace makes a namespace that forwards packets. The thread, and with it the
// namespace, ends with the test.
func newSpace(t *testing.T) *space {
	t.Helper()
	const why = "needs root to make network namespaces"
	if os.Geteuid() != 0 {
		t.Skip(why)
	}
	s := &space{t: t, calls: make(chan func())}
	ready := make(chan error, 1)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		runtime.LockOSThread() // never unlocked: the thread ends here
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			ready <- err
			return
		}
		s.tid = unix.Gettid()
		s.path = fmt.Sprintf("/proc/self/task/%d/ns/net", s.tid)
		ready <- nil
		for call := range s.calls {
			call()
		}
	}()
	if err := <-ready; err != nil {
		t.Skipf("%s: %v", why, err)
	}
	t.Cleanup(func() { close(s.calls); <-gone })
	s.with(func(h *netlink.Handle) {
		lo, err := h.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, h.LinkSetUp(lo))
	})
	for file, value := range map[string]string{
		"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1",
		"ipv4/icmp_ratelimit": "0", "ipv6/icmp/ratelimit": "0", // so that no answer depends on the ones before
		"ipv6/conf/default/accept_dad": "0", "ipv6/conf/all/accept_dad": "0",
	} {
		s.sysctl(file, value)
	}
	return s
}

// do runs f on the namespace's thread.
func (s *space) do(f func()) {
	s.t.Helper()
	done := make(chan struct{})
	s.calls <- func() { defer close(done); f() }
	<-done
}

func (s *space) sysctl(file, value string) {
	s.t.Helper()
	var err error
	// These files belong to the namespace of the thread that opens them.
	s.do(func() { err = os.WriteFile("/proc/sys/net/"+file, []byte(value), 0) })
	if err != nil {
		s.t.Skipf("needs a writable /proc/sys/net: %v", err)
	}
}

// with hands f a netlink handle of the namespace. f runs on the test's own
// goroutine, so that it may fail the test.
func (s *space) with(f func(h *netlink.Handle)) {
	s.t.Helper()
	var h *netlink.Handle
	var err error
	s.do(func() { h, err = netlink.NewHandle(unix.NETLINK_ROUTE) })
	require.NoError(s.t, err)
	defer h.Close()
	f(h)
}

// wire joins two namespaces and gives each end its addresses.
func wire(a, b *space, nameA, nameB string, addrsA, addrsB []string) {
	a.t.Helper()
	a.with(func(h *netlink.Handle) {
		fd, err := unix.Open(b.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(a.t, err)
		defer unix.Close(fd)
		require.NoError(a.t, h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: nameA, MTU: 1500}, PeerName: nameB, PeerNamespace: netlink.NsFd(fd)}))
	})
	a.up(nameA, addrsA...)
	b.up(nameB, addrsB...)
}

func (s *space) up(name string, addrs ...string) {
	s.t.Helper()
	s.with(func(h *netlink.Handle) {
		l, err := h.LinkByName(name)
		require.NoError(s.t, err)
		require.NoError(s.t, h.LinkSetUp(l))
		for _, text := range addrs {
			addr, err := netlink.ParseAddr(text)
			require.NoError(s.t, err)
			addr.Flags = unix.IFA_F_NODAD
			require.NoError(s.t, h.AddrAdd(l, addr))
		}
	})
}

// route adds a route; via "" = on the link named dev, or of the type alone.
func (s *space) route(dst, via string, typ int) {
	s.t.Helper()
	_, ipNet, err := net.ParseCIDR(dst)
	require.NoError(s.t, err)
	r := &netlink.Route{Dst: ipNet, Type: typ}
	if via != "" {
		r.Gw = net.ParseIP(via)
	}
	s.with(func(h *netlink.Handle) { require.NoError(s.t, h.RouteReplace(r), "%s via %s", dst, via) })
}

func (s *space) unroute(dst string) {
	s.t.Helper()
	_, ipNet, err := net.ParseCIDR(dst)
	require.NoError(s.t, err)
	s.with(func(h *netlink.Handle) { require.NoError(s.t, h.RouteDel(&netlink.Route{Dst: ipNet})) })
}

// filter drops or refuses forwarded packets as a rule of the routing: a packet
// filter without a packet filter's tools.
func (s *space) filter(typ uint8, proto int, port uint16, change func(*netlink.Rule)) {
	s.t.Helper()
	rule := netlink.NewRule()
	rule.Family, rule.Priority, rule.Type, rule.IPProto = unix.AF_INET, 10, typ, proto
	if port > 0 {
		rule.Dport = netlink.NewRulePortRange(port, port)
	}
	if change != nil {
		change(rule)
	}
	s.with(func(h *netlink.Handle) { require.NoError(s.t, h.RuleAdd(rule)) })
}

// sink sends dst into a link whose other end takes nothing: packets vanish after
// the router has counted their hops, as behind a filter that drops.
func (s *space) sink(dst string) {
	s.t.Helper()
	_, ipNet, err := net.ParseCIDR(dst)
	require.NoError(s.t, err)
	s.with(func(h *netlink.Handle) {
		require.NoError(s.t, h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "void"}, PeerName: "void-far"}))
		for _, name := range []string{"void", "void-far"} {
			l, err := h.LinkByName(name)
			require.NoError(s.t, err)
			require.NoError(s.t, h.LinkSetARPOff(l))
			require.NoError(s.t, h.LinkSetUp(l))
		}
		l, err := h.LinkByName("void")
		require.NoError(s.t, err)
		require.NoError(s.t, h.RouteReplace(&netlink.Route{Dst: ipNet, LinkIndex: l.Attrs().Index, Scope: netlink.SCOPE_LINK}))
	})
}

// serve accepts connections in the namespace and hands each to f, which closes
// it; nil = it is held until the test ends.
func (s *space) serve(address string, f func(net.Conn)) {
	s.t.Helper()
	var l net.Listener
	var err error
	s.do(func() { l, err = net.Listen("tcp", address) })
	require.NoError(s.t, err)
	done := make(chan struct{})
	s.t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		var held []net.Conn
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			if f == nil {
				held = append(held, conn)
			} else {
				go f(conn)
			}
		}
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
}

// path is node - r1 - r2 - reg, the registry at 10.20.3.4 and 2001:db8:3::4.
type path struct {
	node, r1, r2, reg *space
}

var (
	registry  = netip.MustParseAddrPort("10.20.3.4:443")
	registry6 = netip.MustParseAddrPort("[2001:db8:3::4]:443")
	hop1      = netip.MustParseAddr("10.20.1.1")
	hop2      = netip.MustParseAddr("10.20.2.2")
)

func newPath(t *testing.T) *path {
	t.Helper()
	p := &path{newSpace(t), newSpace(t), newSpace(t), newSpace(t)}
	wire(p.node, p.r1, "eth0", "to-node", []string{"10.20.1.2/24", "2001:db8:1::2/64"}, []string{"10.20.1.1/24", "2001:db8:1::1/64"})
	wire(p.r1, p.r2, "to-r2", "to-r1", []string{"10.20.2.1/24", "2001:db8:2::1/64"}, []string{"10.20.2.2/24", "2001:db8:2::2/64"})
	wire(p.r2, p.reg, "to-reg", "eth0", []string{"10.20.3.1/24", "2001:db8:3::1/64"}, []string{"10.20.3.4/24", "2001:db8:3::4/64"})
	p.node.route("0.0.0.0/0", "10.20.1.1", 0)
	p.node.route("::/0", "2001:db8:1::1", 0)
	p.r1.route("10.20.3.0/24", "10.20.2.2", 0)
	p.r1.route("2001:db8:3::/64", "2001:db8:2::2", 0)
	p.r2.route("10.20.1.0/24", "10.20.2.1", 0)
	p.r2.route("2001:db8:1::/64", "2001:db8:2::1", 0)
	p.reg.route("0.0.0.0/0", "10.20.3.1", 0)
	p.reg.route("::/0", "2001:db8:3::1", 0)
	// New links lose their first packets while the neighbours get to know each
	// other.
	from := reach.System{Namespace: p.node.path}
	warm := &reach.Checker{Router: from, Dialer: from, NoTrace: true}
	for _, to := range []netip.AddrPort{registry, registry6} {
		require.Eventually(t, func() bool {
			r, err := warm.Check(t.Context(), to)
			return err == nil && r.Connect != nil && r.Connect.Errno == "ECONNREFUSED" && r.Connect.Retransmits == 0
		}, 20*time.Second, time.Millisecond)
	}
	return p
}

// checker looks from the node, through the namespace's path.
func (p *path) checker() *reach.Checker {
	from := reach.System{Namespace: p.node.path}
	return &reach.Checker{Router: from, Dialer: from, Limit: 1800 * time.Millisecond}
}
