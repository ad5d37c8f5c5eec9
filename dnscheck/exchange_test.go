package dnscheck_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
)

// serve starts a nameserver on loopback, UDP and, unless tcp is false, TCP on
// the same port.
func serve(t testing.TB, tcp bool, handle dns.HandlerFunc) netip.AddrPort {
	t.Helper()
	var packets net.PacketConn
	var listener net.Listener
	for range 20 { // the port of the one may be taken for the other
		var err error
		packets, err = net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		if !tcp {
			break
		}
		if listener, err = net.Listen("tcp", packets.LocalAddr().String()); err == nil {
			break
		}
		packets.Close()
	}
	start := func(s *dns.Server) {
		ready := make(chan struct{})
		done := make(chan struct{})
		s.NotifyStartedFunc = func() { close(ready) }
		s.Handler = handle
		go func() {
			defer close(done)
			_ = s.ActivateAndServe()
		}()
		<-ready
		t.Cleanup(func() {
			_ = s.Shutdown()
			<-done
		})
	}
	start(&dns.Server{PacketConn: packets})
	if tcp {
		require.NotNil(t, listener)
		start(&dns.Server{Listener: listener})
	}
	return packets.LocalAddr().(*net.UDPAddr).AddrPort()
}

func record(t testing.TB, text string) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(text)
	require.NoError(t, err)
	return rr
}

func isTCP(w dns.ResponseWriter) bool { return w.RemoteAddr().Network() == "tcp" }

func TestNetworkExchange(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	network := dnscheck.Network{}
	question := dnscheck.Question{Name: name, Type: "A"}

	t.Run("question and answer", func(t *testing.T) {
		t.Parallel()
		var got atomic.Pointer[dns.Msg]
		server := serve(t, false, func(w dns.ResponseWriter, m *dns.Msg) {
			got.Store(m.Copy())
			r := new(dns.Msg).SetReply(m)
			r.RecursionAvailable, r.Authoritative = true, true
			r.Answer = []dns.RR{
				record(t, "registry.corp.test. 300 IN CNAME r.privatelink.corp.test."),
				record(t, "r.privatelink.corp.test. 60 IN A 10.20.0.9"),
				record(t, "r.privatelink.corp.test. 60 IN AAAA fd00::9"),
			}
			_ = w.WriteMsg(r)
		})
		a, err := network.Exchange(ctx, server, "udp", question)
		require.NoError(t, err)
		assert.Equal(t, dnscheck.Answer{
			RCode: "NOERROR", Addresses: addrs("10.20.0.9"), CNAMEs: []string{"r.privatelink.corp.test"},
			Authoritative: true, RecursionAvailable: true, TTLSeconds: 60, Tries: 1,
		}, a)
		m := got.Load()
		assert.True(t, m.RecursionDesired)
		require.NotNil(t, m.IsEdns0())
		assert.EqualValues(t, 1232, m.IsEdns0().UDPSize())
		assert.Equal(t, "registry.corp.test.", m.Question[0].Name)
	})

	t.Run("denial with its zone", func(t *testing.T) {
		t.Parallel()
		server := serve(t, true, func(w dns.ResponseWriter, m *dns.Msg) {
			r := new(dns.Msg).SetRcode(m, dns.RcodeNameError)
			r.Ns = []dns.RR{record(t, "corp.test. 900 IN SOA ns.corp.test. admin.corp.test. 1 2 3 4 120")}
			_ = w.WriteMsg(r)
		})
		for _, over := range []string{"udp", "tcp"} {
			a, err := network.Exchange(ctx, server, over, dnscheck.Question{Name: name + ".", Type: "AAAA"})
			require.NoError(t, err)
			assert.Equal(t, "NXDOMAIN", a.RCode)
			assert.Equal(t, "corp.test", a.SOA)
			assert.Equal(t, 120, a.NegativeTTLSeconds)
			assert.False(t, a.Lame)
		}
	})

	t.Run("REFUSED, and a lame referral", func(t *testing.T) {
		t.Parallel()
		server := serve(t, false, func(w dns.ResponseWriter, m *dns.Msg) {
			r := new(dns.Msg)
			if m.Question[0].Qtype == dns.TypeA {
				r.SetRcode(m, dns.RcodeRefused)
			} else {
				r.SetReply(m)
				r.Ns = []dns.RR{record(t, "test. 60 IN NS ns.test.")}
			}
			_ = w.WriteMsg(r)
		})
		a, err := network.Exchange(ctx, server, "udp", question)
		require.NoError(t, err)
		assert.Equal(t, "REFUSED", a.RCode)
		a, err = network.Exchange(ctx, server, "udp", dnscheck.Question{Name: name, Type: "AAAA"})
		require.NoError(t, err)
		assert.True(t, a.Lame)
	})

	t.Run("answers to something else are ignored", func(t *testing.T) {
		t.Parallel()
		server := serve(t, false, func(w dns.ResponseWriter, m *dns.Msg) {
			wrongID := new(dns.Msg).SetReply(m)
			wrongID.Id++
			wrongID.Answer = []dns.RR{record(t, name+". 60 IN A 203.0.113.1")}
			_ = w.WriteMsg(wrongID)
			wrongName := new(dns.Msg).SetReply(m)
			wrongName.Question[0].Name = "other.test."
			wrongName.Answer = []dns.RR{record(t, "other.test. 60 IN A 203.0.113.2")}
			_ = w.WriteMsg(wrongName)
			_, _ = w.Write([]byte("noise"))
			noResponse := m.Copy()
			_ = w.WriteMsg(noResponse)
			right := new(dns.Msg).SetReply(m)
			right.Question[0].Name = strings.ToUpper(right.Question[0].Name)
			right.Answer = []dns.RR{record(t, name+". 60 IN A 10.20.0.9")}
			_ = w.WriteMsg(right)
		})
		a, err := network.Exchange(ctx, server, "udp", question)
		require.NoError(t, err)
		assert.Equal(t, addrs("10.20.0.9"), a.Addresses)
	})

	t.Run("only wrong answers are silence", func(t *testing.T) {
		t.Parallel()
		server := serve(t, false, func(w dns.ResponseWriter, m *dns.Msg) {
			r := new(dns.Msg).SetReply(m)
			r.Id++
			_ = w.WriteMsg(r)
		})
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := network.Exchange(ctx, server, "udp", question)
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	})

	t.Run("broken after the question", func(t *testing.T) {
		t.Parallel()
		server := serve(t, true, func(w dns.ResponseWriter, m *dns.Msg) {
			r := new(dns.Msg).SetReply(m)
			r.Answer = []dns.RR{record(t, name+". 60 IN A 10.20.0.9")}
			packed, _ := r.Pack()
			_, _ = w.Write(packed[:len(packed)-2])
		})
		for _, over := range []string{"udp", "tcp"} {
			_, err := network.Exchange(ctx, server, over, question)
			assert.ErrorIs(t, err, dnscheck.ErrMalformed)
		}
	})

	t.Run("another question's answer over TCP", func(t *testing.T) {
		t.Parallel()
		server := serve(t, true, func(w dns.ResponseWriter, m *dns.Msg) {
			r := new(dns.Msg).SetReply(m)
			r.Id++
			_ = w.WriteMsg(r)
		})
		_, err := network.Exchange(ctx, server, "tcp", question)
		assert.ErrorIs(t, err, dnscheck.ErrMalformed)
	})

	t.Run("bounded", func(t *testing.T) {
		t.Parallel()
		server := serve(t, true, func(w dns.ResponseWriter, m *dns.Msg) {
			r := new(dns.Msg).SetReply(m)
			for range 500 {
				r.Answer = append(r.Answer, record(t, name+". 60 IN A 10.20.0.9"), record(t, name+". 60 IN CNAME a.test."))
			}
			_ = w.WriteMsg(r)
		})
		a, err := network.Exchange(ctx, server, "tcp", question)
		require.NoError(t, err)
		assert.Len(t, a.Addresses, 64)
		assert.Len(t, a.CNAMEs, 16)
	})

	t.Run("senseless questions", func(t *testing.T) {
		t.Parallel()
		server := netip.MustParseAddrPort("127.0.0.1:9")
		_, err := network.Exchange(ctx, server, "udp", dnscheck.Question{Name: name, Type: "MX"})
		assert.ErrorContains(t, err, `"MX"`)
		_, err = network.Exchange(ctx, server, "sctp", question)
		assert.ErrorContains(t, err, `"sctp"`)
		_, err = network.Exchange(ctx, server, "udp", dnscheck.Question{Name: strings.Repeat("a", 70) + ".test", Type: "A"})
		assert.ErrorContains(t, err, "cannot be written")
	})

	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		asked := make(chan struct{}, 4)
		server := serve(t, true, func(dns.ResponseWriter, *dns.Msg) { asked <- struct{}{} })
		for _, over := range []string{"udp", "tcp"} {
			ctx, cancel := context.WithCancel(ctx)
			go func() {
				<-asked
				cancel()
			}()
			_, err := network.Exchange(ctx, server, over, question)
			assert.Error(t, err)
			cancel()
		}
	})
}

// atPort sends every question to a nameserver of the test, whatever the settings
// say; they can only name port 53.
func atPort(server netip.AddrPort) dnscheck.Exchanger {
	return dnscheck.ExchangerFunc(func(ctx context.Context, _ netip.AddrPort, network string, q dnscheck.Question) (dnscheck.Answer, error) {
		return dnscheck.Network{}.Exchange(ctx, server, network, q)
	})
}

func TestCheckOverLoopback(t *testing.T) {
	t.Parallel()
	many := func(t *testing.T) dns.HandlerFunc {
		return func(w dns.ResponseWriter, m *dns.Msg) {
			r := new(dns.Msg).SetReply(m)
			r.RecursionAvailable = true
			if m.Question[0].Qtype == dns.TypeA {
				if !isTCP(w) {
					r.Truncated = true
				} else {
					r.Answer = []dns.RR{record(t, name+". 60 IN A 10.20.0.9")}
				}
			}
			_ = w.WriteMsg(r)
		}
	}

	t.Run("truncated, then TCP", func(t *testing.T) {
		t.Parallel()
		c := dnscheck.Checker{FS: node("resolv.conf", one), Exchanger: atPort(serve(t, true, many(t)))}
		r, err := c.Check(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, addrs("10.20.0.9"), r.Addresses)
		assert.Equal(t, "tcp", r.Servers[0].A.Network)
		assert.Equal(t, "udp", r.Servers[0].AAAA.Network)
		assert.Empty(t, codes(r))
	})

	t.Run("truncated, and TCP closed", func(t *testing.T) {
		t.Parallel()
		c := dnscheck.Checker{FS: node("resolv.conf", one), Exchanger: atPort(serve(t, false, many(t)))}
		r, err := c.Check(t.Context(), name)
		require.NoError(t, err)
		assert.False(t, r.Held())
		assert.Equal(t, classify.DNSTruncatedNoTCP, r.Servers[0].A.Cause)
		assert.Contains(t, codes(r), "fail dns.truncated-no-tcp")
	})

	t.Run("port closed", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS == "windows" {
			t.Skip("a closed UDP port is not always reported on windows")
		}
		// A connected socket takes nothing from strangers, and nobody else gets its port.
		held, err := net.Dial("udp", "127.0.0.1:9")
		require.NoError(t, err)
		defer held.Close()
		server := held.LocalAddr().(*net.UDPAddr).AddrPort()
		r, err := (&dnscheck.Checker{FS: node("resolv.conf", one), Exchanger: atPort(server)}).Check(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, []string{"fail dns.resolver-port-closed"}, codes(r))
		var op *net.OpError
		assert.True(t, errors.As(first(r), &op), "the net error is kept")
	})

	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		server := serve(t, false, func(dns.ResponseWriter, *dns.Msg) {})
		c := dnscheck.Checker{FS: node("resolv.conf", one), Exchanger: atPort(server), Limit: 150 * time.Millisecond}
		r, err := c.Check(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, []string{"fail dns.resolver-timeout"}, codes(r))
		assert.Empty(t, r.Inconclusive)
	})

	t.Run("silent over TCP until the caller ends", func(t *testing.T) {
		t.Parallel()
		server := serve(t, true, func(dns.ResponseWriter, *dns.Msg) {})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		c := dnscheck.Checker{FS: node("resolv.conf", one+"options use-vc\n"), Exchanger: atPort(server)}
		r, err := c.Check(ctx, name)
		require.NoError(t, err)
		assert.NotEmpty(t, r.Inconclusive)
		assert.Empty(t, codes(r))
	})
}
