package dnscheck

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// One lost packet does not make a nameserver dead.
func TestLostDatagramIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		query := new(dns.Msg).SetQuestion("registry.corp.test.", dns.TypeA)
		packed, err := query.Pack()
		require.NoError(t, err)
		go func() {
			defer server.Close()
			buf := make([]byte, ednsSize)
			_, _ = server.Read(buf) // lost
			n, _ := server.Read(buf)
			again := new(dns.Msg)
			if again.Unpack(buf[:n]) != nil {
				return
			}
			<-time.After(2500 * time.Millisecond) // slow besides: still accepted
			reply := new(dns.Msg).SetReply(again)
			reply.Answer = []dns.RR{&dns.A{
				Hdr: dns.RR_Header{Name: "registry.corp.test.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
				A:   net.IPv4(10, 20, 0, 9),
			}}
			out, _ := reply.Pack()
			_, _ = server.Write(out)
		}()
		start := time.Now()
		a, err := exchangeDatagrams(t.Context(), client, query, packed, nil)
		require.NoError(t, err)
		assert.Equal(t, resendAfter+2500*time.Millisecond, time.Since(start))
		assert.Equal(t, 2, a.Tries)
		assert.Equal(t, []netip.Addr{netip.MustParseAddr("10.20.0.9")}, a.Addresses)
	})
}
