package dnscheck_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/dnscheck"
)

// Healthy, a check lasts one round trip to the slowest nameserver: every question
// is asked at once.
func TestOneRoundTrip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		world := script{
			"10.20.0.4 *": found("10.20.0.9").in(5 * time.Millisecond), "10.20.0.5 *": found("10.20.0.9").in(20 * time.Millisecond),
			"10.20.0.6 *": found("10.20.0.9").in(12 * time.Millisecond),
		}
		start := time.Now()
		c := dnscheck.Checker{FS: node("resolv.conf", two+"nameserver 10.20.0.6\nsearch a.test b.test c.test\n"), Exchanger: world}
		r, err := c.Check(t.Context(), name)
		require.NoError(t, err)
		assert.True(t, r.Held())
		assert.Equal(t, 20*time.Millisecond, time.Since(start))
	})
}

// When nobody answers, the report is there after the limit, however many are asked.
func TestAllSilent(t *testing.T) {
	t.Parallel()
	uplinks := strings.Repeat("nameserver 10.30.0.1\nnameserver 10.30.0.2\nnameserver 10.30.0.3\nnameserver 10.30.0.4\n", 3)
	for _, conf := range []string{one, two, two + "nameserver 127.0.0.53\nsearch a.test b.test c.test d.test\noptions ndots:9\n"} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			c := dnscheck.Checker{FS: node("resolv.conf", conf, "../run/systemd/resolve/resolv.conf", uplinks), Exchanger: script{}}
			r, err := c.Check(t.Context(), name)
			require.NoError(t, err)
			assert.Equal(t, 5*time.Second, time.Since(start))
			assert.False(t, r.Held())
			assert.Contains(t, codes(r), "fail dns.resolver-timeout")
			assert.Empty(t, r.Inconclusive)
			for _, s := range r.Servers {
				assert.Equal(t, (5 * time.Second).Milliseconds(), s.A.ElapsedMS)
			}
		})
	}
}

// BenchmarkCheck20ms is a check over real sockets, three nameservers that each
// take 20 ms, A and AAAA: 20 ms is the least that can be.
func BenchmarkCheck20ms(b *testing.B) {
	servers := map[string]netip.AddrPort{}
	for _, addr := range []string{"10.20.0.4", "10.20.0.5", "10.20.0.6"} {
		servers[addr] = serve(b, false, func(w dns.ResponseWriter, m *dns.Msg) {
			<-time.After(20 * time.Millisecond)
			r := new(dns.Msg).SetReply(m)
			r.RecursionAvailable = true
			if m.Question[0].Qtype == dns.TypeA {
				r.Answer = []dns.RR{record(b, name+". 60 IN A 10.20.0.9")}
			}
			_ = w.WriteMsg(r)
		})
	}
	c := dnscheck.Checker{
		FS: node("resolv.conf", two+"nameserver 10.20.0.6\n", "hosts", "127.0.0.1 localhost\n"),
		Exchanger: dnscheck.ExchangerFunc(func(ctx context.Context, server netip.AddrPort, network string, q dnscheck.Question) (dnscheck.Answer, error) {
			return dnscheck.Network{}.Exchange(ctx, servers[server.Addr().String()], network, q)
		}),
	}
	b.ReportAllocs()
	for b.Loop() {
		if r, err := c.Check(b.Context(), name); err != nil || !r.Held() {
			b.Fatal(err, codes(r))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/check")
}

// BenchmarkSearchList is a long hosts file and a long search list that gives
// nothing: what parsing and judging cost.
func BenchmarkSearchList(b *testing.B) {
	hosts := strings.Repeat("0.0.0.0 ads.elsewhere.test tracker.elsewhere.test\n", 10000)
	c := dnscheck.Checker{FS: node("resolv.conf", two+"search a.test b.test c.test d.test e.test f.test\n", "hosts", hosts), Exchanger: script{"10.20.0.4 *": rcode("NXDOMAIN"), "10.20.0.5 *": rcode("NXDOMAIN")}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Check(b.Context(), name); err != nil {
			b.Fatal(err)
		}
	}
}
