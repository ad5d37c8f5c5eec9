package simnet

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/reach"
)

var (
	server = netip.MustParseAddrPort("10.20.0.53:53")
	v4     = registry.Addr()
	v6     = netip.MustParseAddr("2001:db8::4")
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	yes := func(addr netip.Addr, cnames ...string) dnscheck.Answer {
		return dnscheck.Answer{RCode: "NOERROR", Addresses: []netip.Addr{addr}, CNAMEs: cnames, RecursionAvailable: true, TTLSeconds: TTL}
	}
	no := func(rcode, soa string) dnscheck.Answer {
		return dnscheck.Answer{RCode: rcode, RecursionAvailable: true, NegativeTTLSeconds: NegativeTTL, SOA: soa}
	}
	dangling := no("NXDOMAIN", "privatelink.test")
	dangling.CNAMEs, dangling.TTLSeconds = []string{"gone.privatelink.test"}, TTL
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		n.Zone(server).
			Add("both.corp.test", v4, v6).Add("four.corp.test", v4).
			CNAME("alias.corp.test", "Alias2.corp.test.").CNAME("alias2.corp.test", "four.corp.test").
			CNAME("dangling.corp.test", "gone.privatelink.test").
			CNAME("loop.corp.test", "loop.corp.test").
			RCode("broken.corp.test", "SERVFAIL")
		for _, tt := range []struct {
			name, typ string
			want      dnscheck.Answer
		}{
			{"both.corp.test", "A", yes(v4)},
			{"Both.Corp.test.", "AAAA", yes(v6)},
			{"four.corp.test", "AAAA", no("NOERROR", "corp.test")},
			{"alias.corp.test", "A", yes(v4, "alias2.corp.test", "four.corp.test")},
			{"dangling.corp.test", "A", dangling},
			{"loop.corp.test", "A", dnscheck.Answer{RCode: "SERVFAIL", RecursionAvailable: true}},
			{"broken.corp.test", "A", dnscheck.Answer{RCode: "SERVFAIL", RecursionAvailable: true}},
			{"missing.corp.test", "A", no("NXDOMAIN", "corp.test")},
		} {
			for _, network := range []string{"udp", "tcp"} {
				got, err := n.Exchanger().Exchange(t.Context(), server, network, dnscheck.Question{Name: tt.name, Type: tt.typ})
				require.NoError(t, err)
				require.Equal(t, tt.want, got, "%s %s %s", network, tt.name, tt.typ)
			}
		}
		require.Len(t, n.Questions(), 16)
	})
}

// What goes wrong on the way to a nameserver, or at it: over udp and over tcp.
func TestNameserverFaults(t *testing.T) {
	t.Parallel()
	const delay = 50 * time.Millisecond
	const rtt = 2 * delay
	type outcome struct {
		op    string // "" = an answer; "timeout" = silence
		errno syscall.Errno
		after time.Duration
	}
	silence := outcome{op: "timeout", after: 5 * time.Second}
	for name, tt := range map[string]struct {
		fault    func(n *Net, z *Nameserver)
		udp, tcp outcome
	}{
		"healthy":     {func(*Net, *Nameserver) {}, outcome{after: rtt}, outcome{after: 2 * rtt}},
		"slow":        {func(_ *Net, z *Nameserver) { z.Delay(3 * time.Second) }, outcome{after: rtt + 3*time.Second}, outcome{after: 2*rtt + 3*time.Second}},
		"silent":      {func(_ *Net, z *Nameserver) { z.Silent() }, silence, silence},
		"packets":     {func(n *Net, _ *Nameserver) { n.Silent(server) }, silence, silence},
		"closed":      {func(_ *Net, z *Nameserver) { z.Closed() }, outcome{"read", eCONNREFUSED, rtt}, outcome{"dial", eCONNREFUSED, rtt}},
		"refused":     {func(n *Net, _ *Nameserver) { n.Refuse(server) }, outcome{"read", eCONNREFUSED, rtt}, outcome{"dial", eCONNREFUSED, rtt}},
		"unreachable": {func(n *Net, _ *Nameserver) { n.Unreachable(server) }, outcome{"read", eHOSTUNREACH, rtt}, outcome{"dial", eHOSTUNREACH, rtt}},
		"no tcp":      {func(_ *Net, z *Nameserver) { z.NoTCP() }, outcome{after: rtt}, outcome{"dial", eCONNREFUSED, rtt}},
		"no route":    {func(n *Net, _ *Nameserver) { n.routes = nil }, outcome{"dial", eNETUNREACH, 0}, outcome{"dial", eNETUNREACH, 0}},
		"prohibited": {func(n *Net, _ *Nameserver) { n.Route(prefix("10.20.0.53/32"), reach.Route{Kind: reach.RouteProhibit}) },
			outcome{"dial", eACCES, 0}, outcome{"dial", eACCES, 0}},
		"healed": {func(_ *Net, z *Nameserver) { z.Silent().Closed().NoTCP().Truncate().Heal() }, outcome{after: rtt}, outcome{after: 2 * rtt}},
	} {
		for network, want := range map[string]outcome{"udp": tt.udp, "tcp": tt.tcp} {
			t.Run(name+", "+network, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					n := world()
					defer n.Close()
					z := n.Zone(server).Add(host, v4)
					n.Delay(server, delay)
					tt.fault(n, z)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					start := time.Now()
					a, err := n.Exchanger().Exchange(ctx, server, network, dnscheck.Question{Name: host, Type: "A"})
					require.Equal(t, want.after, time.Since(start))
					asked := Question{Start: start, Server: server, Network: network, Name: host, Type: "A", Err: err}
					switch want.op {
					case "":
						require.NoError(t, err)
						require.Equal(t, []netip.Addr{v4}, a.Addresses)
						asked.RCode = "NOERROR"
					case "timeout":
						require.ErrorIs(t, err, context.DeadlineExceeded)
						var ne net.Error
						require.ErrorAs(t, err, &ne)
						require.True(t, ne.Timeout())
					default:
						requireErrno(t, err, want.op, want.errno)
					}
					require.Equal(t, []Question{asked}, n.Questions())
				})
			})
		}
	}
}

func TestServersThatAreNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		n.Listen(registry)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := n.Exchanger().Exchange(ctx, netip.AddrPortFrom(v4, 53), "udp", dnscheck.Question{Name: host, Type: "A"})
		requireErrno(t, err, "read", eCONNREFUSED) // a host without a nameserver
		_, err = n.Exchanger().Exchange(ctx, server, "udp", dnscheck.Question{Name: host, Type: "A"})
		require.ErrorIs(t, err, context.DeadlineExceeded) // no host
	})
}

func TestTruncatedOverUDPOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		n.Zone(server).Add(host, v4).Truncate()
		a, err := n.Exchanger().Exchange(t.Context(), server, "udp", dnscheck.Question{Name: host, Type: "A"})
		require.NoError(t, err)
		require.Equal(t, dnscheck.Answer{RCode: "NOERROR", Truncated: true, RecursionAvailable: true}, a)
		a, err = n.Exchanger().Exchange(t.Context(), server, "tcp", dnscheck.Question{Name: host, Type: "A"})
		require.NoError(t, err)
		require.Equal(t, []netip.Addr{v4}, a.Addresses)
	})
}

// A nameserver's tcp port accepts, as a plain connect to it would see.
func TestConnectToANameserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		z := n.Zone(server)
		c, err := n.Dialer().DialContext(t.Context(), "tcp", server.String())
		require.NoError(t, err)
		require.NoError(t, c.Close())
		z.NoTCP()
		_, err = n.Dialer().DialContext(t.Context(), "tcp", server.String())
		requireErrno(t, err, "dial", eCONNREFUSED)
		z.Silent()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = n.Dialer().DialContext(ctx, "tcp", server.String())
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestDialByName(t *testing.T) {
	t.Parallel()
	second := netip.MustParseAddrPort("10.20.0.54:53")
	for name, tt := range map[string]struct {
		fault   func(n *Net)
		network string
		want    func(t *testing.T, err *net.DNSError) // nil = connected
	}{
		"found":               {func(*Net) {}, "tcp", nil},
		"truncated":           {func(n *Net) { n.Zone(server).Truncate() }, "tcp", nil},
		"first refuses":       {func(n *Net) { n.Zone(server).Closed() }, "tcp", nil},
		"first says SERVFAIL": {func(n *Net) { n.Zone(server).RCode(host, "SERVFAIL") }, "tcp", nil},
		"first says no":       {func(n *Net) { n.Zone(server).Remove(host) }, "tcp", func(t *testing.T, err *net.DNSError) { require.True(t, err.IsNotFound) }},
		"all say SERVFAIL":    {func(n *Net) { n.Zone(server).RCode(host, "SERVFAIL"); n.Zone(second).RCode(host, "SERVFAIL") }, "tcp", func(t *testing.T, err *net.DNSError) { require.True(t, err.IsTemporary) }},
		"all refuse":          {func(n *Net) { n.Zone(server).Closed(); n.Zone(second).Closed() }, "tcp", func(t *testing.T, err *net.DNSError) { require.ErrorIs(t, err, eCONNREFUSED) }},
		"first is silent":     {func(n *Net) { n.Zone(server).Silent() }, "tcp", nil},
		"all are silent": {func(n *Net) { n.Zone(server).Silent(); n.Zone(second).Silent() }, "tcp", func(t *testing.T, err *net.DNSError) {
			require.True(t, err.IsTimeout)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}},
		"no nameserver":           {func(n *Net) { n.Nameservers() }, "tcp", func(t *testing.T, err *net.DNSError) { require.False(t, err.IsNotFound) }},
		"the family asked for":    {func(*Net) {}, "tcp4", nil},
		"two families, one route": {func(n *Net) { n.Zone(server).Remove(host).Add(host, v6, v4) }, "tcp", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := world()
				defer n.Close()
				n.Listen(registry)
				n.Zone(server).Add(host, v4)
				n.Zone(second).Add(host, v4)
				n.Nameservers(server, second)
				tt.fault(n)
				c, err := n.Dialer().DialContext(t.Context(), tt.network, host+":443")
				if tt.want == nil {
					require.NoError(t, err)
					require.Equal(t, registry.String(), c.RemoteAddr().String())
					require.Equal(t, host, n.Dials()[0].Host)
					return
				}
				require.Error(t, err)
				require.Empty(t, n.Dials())
				var dnsErr *net.DNSError
				require.ErrorAs(t, err, &dnsErr)
				tt.want(t, dnsErr)
			})
		})
	}
}

func TestDialSenseless(t *testing.T) {
	t.Parallel()
	n := world()
	defer n.Close()
	for _, tt := range [][2]string{
		{"udp", "10.20.0.4:443"}, {"tcp", "10.20.0.4"}, {"tcp", "10.20.0.4:https"}, {"tcp", "10.20.0.4:70000"},
		{"tcp6", "10.20.0.4:443"}, {"tcp4", "[2001:db8::4]:443"},
	} {
		_, err := n.Dialer().DialContext(t.Context(), tt[0], tt[1])
		var op *net.OpError
		require.ErrorAs(t, err, &op, "%v", tt)
	}
	require.Empty(t, n.Dials())
}

func TestNameserverSaysMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		n.Route(netip.MustParsePrefix("0.0.0.0/0"), reach.Route{})
		server := netip.MustParseAddrPort("10.20.0.2:53")
		z := n.Zone(server).Add("registry.corp.test", netip.MustParseAddr("10.20.0.4")).Extend("registry.corp.test", 3)
		ask := func() (dnscheck.Answer, error) {
			return n.Exchanger().Exchange(t.Context(), server, "udp", dnscheck.Question{Name: "registry.corp.test.", Type: "A"})
		}
		a, err := ask()
		require.NoError(t, err)
		require.Equal(t, []dnscheck.ExtendedError{{Code: 3}}, a.Extended)
		z.Garbage(dnscheck.ErrMalformed)
		_, err = ask()
		require.ErrorIs(t, err, dnscheck.ErrMalformed)
		z.Heal()
		_, err = ask()
		require.NoError(t, err)
	})
}
