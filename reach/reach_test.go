package reach_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
)

var (
	target  = netip.MustParseAddrPort("10.20.0.4:443")
	target6 = netip.MustParseAddrPort("[2001:db8::4]:443")
)

// routeOf is a Router that always gives that kind of route.
func routeOf(kind reach.RouteKind) reach.Router {
	return reach.RouterFunc(func(_ context.Context, dst netip.Addr) (reach.Route, error) {
		r := reach.Route{Destination: dst, Kind: kind, Method: "script"}
		if r.Usable() {
			r.Source, r.Gateway = netip.MustParseAddr("10.1.0.7"), netip.MustParseAddr("10.1.0.1")
			r.Interface, r.Table, r.LinkMTU = "eth0", 254, 1500
		}
		return r, nil
	})
}

func routeFails(err error) reach.Router {
	return reach.RouterFunc(func(context.Context, netip.Addr) (reach.Route, error) { return reach.Route{}, err })
}

// scriptedConn is a connection that notes that it was closed.
type scriptedConn struct {
	net.Conn
	local  net.Addr
	closed chan struct{}
}

func (c *scriptedConn) LocalAddr() net.Addr { return c.local }
func (c *scriptedConn) Close() error        { close(c.closed); return nil }

func newConn(local net.Addr) *scriptedConn {
	return &scriptedConn{local: local, closed: make(chan struct{})}
}

func accepts() reach.Dialer {
	return reach.DialerFunc(func(context.Context, string, string) (net.Conn, error) {
		return newConn(&net.TCPAddr{IP: net.IPv4(10, 1, 0, 7), Port: 40000}), nil
	})
}

// answers fails every dial with an errno, as net.Dialer wraps it.
func answers(errno syscall.Errno) reach.Dialer {
	return reach.DialerFunc(func(_ context.Context, network, _ string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: &syscallError{errno}}
	})
}

type syscallError struct{ error }

func (e *syscallError) Error() string { return "connect: " + e.error.Error() }
func (e *syscallError) Unwrap() error { return e.error }

// silent never answers; like net.Dialer it ends with its context.
func silent() reach.Dialer {
	return reach.DialerFunc(func(ctx context.Context, network, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
	})
}

func causes(r *reach.Report) []classify.Cause {
	var list []classify.Cause
	for _, f := range r.Findings() {
		list = append(list, f.Cause)
	}
	return list
}

func TestCheckNamesWhatTheAddressAnswered(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		router       reach.Router
		dialer       reach.Dialer
		target       netip.AddrPort
		held         bool
		causes       []classify.Cause
		inconclusive string
	}{
		{name: "healthy", router: routeOf(reach.RouteUnicast), dialer: accepts(), held: true},
		{name: "this machine itself", router: routeOf(reach.RouteLocal), dialer: accepts(), held: true},
		{name: "port closed", router: routeOf(reach.RouteUnicast), dialer: answers(syscall.ECONNREFUSED),
			causes: []classify.Cause{classify.EndpointConnectionRefused}},
		{name: "reset while connecting", router: routeOf(reach.RouteUnicast), dialer: answers(syscall.ECONNRESET),
			causes: []classify.Cause{classify.EndpointConnectionReset}},
		{name: "SYN dropped", router: routeOf(reach.RouteUnicast), dialer: silent(),
			causes: []classify.Cause{classify.RouteConnectTimeout}},
		{name: "kernel gave up", router: routeOf(reach.RouteUnicast), dialer: answers(syscall.ETIMEDOUT),
			causes: []classify.Cause{classify.RouteConnectTimeout}},
		{name: "neighbour absent", router: routeOf(reach.RouteUnicast), dialer: answers(syscall.EHOSTUNREACH),
			causes: []classify.Cause{classify.RouteNoRouteToHost}},
		{name: "local firewall", router: routeOf(reach.RouteUnicast), dialer: answers(syscall.EPERM),
			causes: []classify.Cause{classify.RouteProhibited}},
		{name: "no route, said once", router: routeOf(reach.RouteNone), dialer: answers(syscall.ENETUNREACH),
			causes: []classify.Cause{classify.RouteNetworkUnreachable}},
		{name: "no IPv6 route, said once", router: routeOf(reach.RouteNone), dialer: answers(syscall.ENETUNREACH), target: target6,
			causes: []classify.Cause{classify.RouteIPv6Unreachable}},
		{name: "unreachable route, said once", router: routeOf(reach.RouteUnreachable), dialer: answers(syscall.EHOSTUNREACH),
			causes: []classify.Cause{classify.RouteNoRouteToHost}},
		{name: "blackhole route, said once", router: routeOf(reach.RouteBlackhole), dialer: answers(syscall.EINVAL),
			causes: []classify.Cause{classify.RouteBlackhole}},
		{name: "prohibited, said once", router: routeOf(reach.RouteProhibit), dialer: answers(syscall.EACCES),
			causes: []classify.Cause{classify.RouteProhibited}},
		{name: "broadcast address", router: routeOf(reach.RouteBroadcast), dialer: answers(syscall.ENETUNREACH),
			causes: []classify.Cause{classify.RouteNetworkUnreachable}},
		{name: "refused route but silent dial, two stories", router: routeOf(reach.RouteNone), dialer: silent(),
			causes: []classify.Cause{classify.RouteNetworkUnreachable, classify.RouteConnectTimeout}},
		{name: "out of descriptors", router: routeOf(reach.RouteUnicast), dialer: answers(syscall.EMFILE),
			causes: []classify.Cause{classify.NodeLocalLimit}, inconclusive: "out of file descriptors on this machine"},
		{name: "out of descriptors, whole machine", router: routeFails(syscall.ENFILE), dialer: answers(syscall.ENFILE),
			causes: []classify.Cause{classify.NodeLocalLimit, classify.NodeLocalLimit}, inconclusive: "out of file descriptors on this machine"},
		{name: "out of local ports", router: routeOf(reach.RouteUnicast), dialer: answers(syscall.EADDRNOTAVAIL),
			causes: []classify.Cause{classify.NodeLocalLimit}, inconclusive: "EADDRNOTAVAIL"},
		{name: "routes cannot be looked at", router: routeFails(errors.ErrUnsupported), dialer: accepts(),
			inconclusive: "the route was not looked at"},
		{name: "route lookup broke", router: routeFails(errors.New("netlink: garbled")), dialer: answers(syscall.ECONNREFUSED),
			causes: []classify.Cause{classify.EndpointConnectionRefused}, inconclusive: "garbled"},
		{name: "a kind that nobody knows", router: routeOf("throw"), dialer: accepts(), inconclusive: `unknown kind "throw"`},
		{name: "no kind at all", router: routeOf(""), dialer: accepts(), inconclusive: "unknown kind"},
		{name: "dialer without answer", router: routeOf(reach.RouteUnicast), dialer: reach.DialerFunc(
			func(context.Context, string, string) (net.Conn, error) { return nil, nil }), inconclusive: "neither"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if !tc.target.IsValid() {
					tc.target = target
				}
				r, err := (&reach.Checker{Router: tc.router, Dialer: tc.dialer}).Check(t.Context(), tc.target)
				require.NoError(t, err)
				assert.Equal(t, tc.causes, causes(r), "%v", r.Findings())
				assert.Equal(t, tc.held, r.Held())
				if tc.inconclusive == "" {
					assert.Empty(t, r.Inconclusive)
				} else {
					assert.Contains(t, r.Inconclusive, tc.inconclusive)
				}
				for _, f := range r.Findings() {
					assert.Equal(t, tc.target.String(), f.Endpoint)
					assert.NotEmpty(t, f.Summary)
					assert.NotEmpty(t, f.Fact(classify.FactAddress))
					if f.Cause == classify.NodeLocalLimit {
						assert.Equal(t, classify.SeverityWarn, f.Severity)
						assert.NotEmpty(t, f.Fact(classify.FactErrno))
					} else {
						assert.Equal(t, classify.SeverityFail, f.Severity)
					}
				}
			})
		})
	}
}

func TestConnectionInSpiteOfARefusedRouteIsAWarning(t *testing.T) {
	t.Parallel()
	r, err := (&reach.Checker{Router: routeOf(reach.RouteProhibit), Dialer: accepts()}).Check(t.Context(), target)
	require.NoError(t, err)
	require.Len(t, r.Findings(), 1)
	assert.Equal(t, classify.SeverityWarn, r.Findings()[0].Severity)
	assert.True(t, r.Connect.Connected)
	assert.False(t, r.Held(), "the route did not hold")
}

func TestConnectHandsTheConnectionOnAndCheckClosesIt(t *testing.T) {
	t.Parallel()
	conn := newConn(&net.TCPAddr{IP: net.IPv4(10, 1, 0, 7), Port: 40000})
	c := &reach.Checker{Router: routeOf(reach.RouteUnicast), Dialer: reach.DialerFunc(func(_ context.Context, network, address string) (net.Conn, error) {
		assert.Equal(t, "tcp", network)
		assert.Equal(t, target.String(), address)
		return conn, nil
	})}
	r, got, err := c.Connect(t.Context(), target)
	require.NoError(t, err)
	assert.Same(t, conn, got)
	assert.Nil(t, r.Route)
	assert.True(t, r.Held())
	assert.Equal(t, netip.MustParseAddrPort("10.1.0.7:40000"), r.Connect.Source)
	select {
	case <-conn.closed:
		t.Fatal("closed although it was handed on")
	default:
	}
	_, err = c.Check(t.Context(), target)
	require.NoError(t, err)
	<-conn.closed
}

type textAddr string

func (a textAddr) Network() string { return "sim" }
func (a textAddr) String() string  { return string(a) }

func TestSourceOfForeignConnections(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		local net.Addr
		want  netip.AddrPort
	}{
		{&net.TCPAddr{IP: net.IPv4(10, 1, 0, 7), Port: 40000}, netip.MustParseAddrPort("10.1.0.7:40000")},
		{&net.TCPAddr{IP: net.ParseIP("fe80::7"), Port: 40000, Zone: "eth0"}, netip.MustParseAddrPort("[fe80::7]:40000")},
		{textAddr("10.1.0.7:40000"), netip.MustParseAddrPort("10.1.0.7:40000")},
		{textAddr("pipe"), netip.AddrPort{}},
		{&net.TCPAddr{}, netip.AddrPort{}},
		{&net.UnixAddr{Name: "/run/x"}, netip.AddrPort{}},
		{nil, netip.AddrPort{}},
	} {
		c := &reach.Checker{Dialer: reach.DialerFunc(func(context.Context, string, string) (net.Conn, error) { return newConn(tc.local), nil })}
		r, _, err := c.Connect(t.Context(), target)
		require.NoError(t, err)
		assert.Equal(t, tc.want, r.Connect.Source, "%v", tc.local)
		assert.True(t, r.Connect.Connected)
	}
}

func TestInvalidTargetsAreErrorsThatNameThem(t *testing.T) {
	t.Parallel()
	never := &reach.Checker{
		Router: reach.RouterFunc(func(_ context.Context, dst netip.Addr) (reach.Route, error) {
			t.Errorf("asked for %v", dst)
			return reach.Route{}, errors.ErrUnsupported
		}),
		Dialer: reach.DialerFunc(func(_ context.Context, _, address string) (net.Conn, error) {
			t.Errorf("dialled %v", address)
			return nil, syscall.EINVAL
		}),
	}
	for _, text := range []string{"0.0.0.0", "::", "::ffff:0.0.0.0", "0.1.2.3", "224.0.0.1", "ff02::1", "255.255.255.255", "fe80::1", "fe80::1%eth0", "2001:db8::1%eth0", "::ffff:10.0.0.1%eth0"} {
		addr := netip.MustParseAddr(text)
		_, err := never.CheckRoute(t.Context(), addr)
		require.Error(t, err, text)
		assert.Contains(t, err.Error(), addr.Unmap().WithZone("").String())
		_, err = never.Check(t.Context(), netip.AddrPortFrom(addr, 443))
		require.Error(t, err, text)
		_, conn, err := never.Connect(t.Context(), netip.AddrPortFrom(addr, 443))
		require.Error(t, err, text)
		assert.Nil(t, conn)
	}
	_, err := never.Check(t.Context(), netip.AddrPort{})
	require.ErrorContains(t, err, "address")
	_, err = never.CheckRoute(t.Context(), netip.Addr{})
	require.ErrorContains(t, err, "address")
	_, err = never.Check(t.Context(), netip.AddrPortFrom(target.Addr(), 0))
	require.ErrorContains(t, err, "port 0")
}

func TestMappedAddressesAreIPv4(t *testing.T) {
	t.Parallel()
	c := &reach.Checker{Router: routeOf(reach.RouteNone), Dialer: answers(syscall.ENETUNREACH)}
	r, err := c.Check(t.Context(), netip.MustParseAddrPort("[::ffff:10.20.0.4]:443"))
	require.NoError(t, err)
	assert.Equal(t, target, r.Target)
	assert.Equal(t, []classify.Cause{classify.RouteNetworkUnreachable}, causes(r))
}

func TestCheckRouteAloneAndUnsupported(t *testing.T) {
	t.Parallel()
	r, err := (&reach.Checker{Router: routeOf(reach.RouteUnicast)}).CheckRoute(t.Context(), target.Addr())
	require.NoError(t, err)
	assert.True(t, r.Held())
	assert.Nil(t, r.Connect)
	assert.Equal(t, netip.AddrPortFrom(target.Addr(), 0), r.Target)

	r, err = (&reach.Checker{Router: routeOf(reach.RouteBlackhole)}).CheckRoute(t.Context(), target.Addr())
	require.NoError(t, err)
	assert.False(t, r.Held())
	require.Len(t, r.Findings(), 1)
	assert.Equal(t, "10.20.0.4", r.Findings()[0].Endpoint)
	assert.Equal(t, "blackhole", r.Findings()[0].Fact(classify.FactRoute))

	_, err = (&reach.Checker{Router: routeFails(errors.ErrUnsupported)}).CheckRoute(t.Context(), target.Addr())
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestForeignErrorTextIsBounded(t *testing.T) {
	t.Parallel()
	long := errors.New("proxy said https://user:hunter2@proxy.corp.test/?sig=hunter2 " + strings.Repeat("x", 5000))
	c := &reach.Checker{Router: routeFails(long), Dialer: reach.DialerFunc(func(context.Context, string, string) (net.Conn, error) { return nil, long })}
	r, err := c.Check(t.Context(), target)
	require.NoError(t, err)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "hunter2")
	assert.Less(t, len(r.Connect.Error), 300)
	assert.Less(t, len(r.Inconclusive), 400)
}

func TestReportJSON(t *testing.T) {
	t.Parallel()
	r, err := (&reach.Checker{Router: routeOf(reach.RouteUnicast), Dialer: accepts()}).Check(t.Context(), target)
	require.NoError(t, err)
	r.Connect.ElapsedMS = 3
	text, err := json.Marshal(r)
	require.NoError(t, err)
	assert.JSONEq(t, `{"target":"10.20.0.4:443",
		"route":{"destination":"10.20.0.4","source":"10.1.0.7","gateway":"10.1.0.1","interface":"eth0","table":254,"linkMtu":1500,"kind":"unicast","method":"script"},
		"connect":{"connected":true,"source":"10.1.0.7:40000","elapsedMs":3}}`, string(text))
	var back reach.Report
	require.NoError(t, json.Unmarshal(text, &back))
	again, err := json.Marshal(&back)
	require.NoError(t, err)
	assert.Equal(t, string(text), string(again))
	assert.True(t, back.Held())
	assert.False(t, new(reach.Report).Held(), "a report that saw nothing holds nothing")
}

func TestFindingsAreTheCallersOwn(t *testing.T) {
	t.Parallel()
	r, err := (&reach.Checker{Router: routeOf(reach.RouteNone)}).CheckRoute(t.Context(), target.Addr())
	require.NoError(t, err)
	r.Findings()[0].Summary = "changed"
	assert.NotEqual(t, "changed", r.Findings()[0].Summary)
}

// One Checker for a thousand addresses at once; the bubble proves that no
// goroutine is left.
func TestThousandChecksAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &reach.Checker{Router: routeOf(reach.RouteUnicast), Dialer: reach.DialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			ap := netip.MustParseAddrPort(address)
			switch ap.Addr().As4()[3] % 3 {
			case 0:
				return accepts().DialContext(ctx, network, address)
			case 1:
				return answers(syscall.ECONNREFUSED).DialContext(ctx, network, address)
			}
			return silent().DialContext(ctx, network, address)
		})}
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				ap := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 20, byte(i / 250), byte(i%250 + 1)}), 443)
				r, err := c.Check(t.Context(), ap)
				if !assert.NoError(t, err) {
					return
				}
				last := ap.Addr().As4()[3] % 3
				assert.Equal(t, last == 0, r.Held())
				assert.Equal(t, last == 1, r.Connect.Errno == "ECONNREFUSED")
				assert.Equal(t, last == 2, r.Connect.TimedOut)
			})
		}
		wg.Wait()
		assert.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestTraceRefusals(t *testing.T) {
	t.Parallel()
	_, err := (&reach.Checker{Dialer: accepts()}).Trace(t.Context(), target)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = (&reach.Checker{}).Trace(t.Context(), netip.AddrPort{})
	require.Error(t, err)
	require.NotErrorIs(t, err, errors.ErrUnsupported)
}
