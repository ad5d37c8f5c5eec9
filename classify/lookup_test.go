package classify_test

import (
	"context"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// TestErrorOfLookups takes its errors from Go's resolver against a nameserver
// that answers as told.
func TestErrorOfLookups(t *testing.T) {
	answering := func(rcode byte) func(net.PacketConn) {
		return func(pc net.PacketConn) {
			buf := make([]byte, 1500)
			for {
				n, from, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				if rcode == 255 {
					continue // silent
				}
				buf[2] |= 0x80 // QR
				buf[3] = 0x80 | rcode
				buf[11] = 0 // no EDNS record in the answer
				_, _ = pc.WriteTo(buf[:n-11], from)
			}
		}
	}
	for name, c := range map[string]struct {
		rcode byte
		want  classify.Cause
		limit time.Duration
	}{
		"no such name": {3, classify.DNSNXDOMAIN, 0},
		"server fails": {2, classify.DNSServFail, 0},
		"refused":      {5, classify.DNSServFail, 0},
		"silent":       {255, classify.DNSResolverTimeout, 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pc, err := net.ListenPacket("udp", "127.0.0.1:0")
			require.NoError(t, err)
			done := make(chan struct{})
			go func() { defer close(done); answering(c.rcode)(pc) }()
			t.Cleanup(func() { _ = pc.Close(); <-done })
			ctx := t.Context()
			if c.limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.limit)
				defer cancel()
			}
			err = lookup(ctx, pc.LocalAddr().String())
			f := classify.Error(err)
			assert.Equal(t, c.want, f.Cause, "%v", err)
			assert.Equal(t, classify.LayerDNS, f.Layer)
			assert.Equal(t, "registry.corp.test.", f.Endpoint)
			sameFault(t, err, f)
		})
	}
	t.Run("port closed", func(t *testing.T) {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := pc.LocalAddr().String()
		require.NoError(t, pc.Close())
		err = lookup(t.Context(), addr)
		f := classify.Error(err)
		assert.Equal(t, classify.DNSResolverPortClosed, f.Cause, "%v", err)
		assert.Equal(t, "ECONNREFUSED", f.Fact(classify.FactErrno))
		sameFault(t, err, f)
	})
}

func lookup(ctx context.Context, server string) error {
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server)
	}}
	_, err := r.LookupHost(ctx, "registry.corp.test.")
	return err
}

func TestErrorOfResolverTexts(t *testing.T) {
	for _, c := range []struct {
		err  net.DNSError
		want classify.Cause
	}{
		{net.DNSError{Err: "read udp 10.20.0.9:40000->10.20.0.2:53: i/o timeout", IsTimeout: true}, classify.DNSResolverTimeout},
		{net.DNSError{Err: "dial udp 10.20.0.2:53: connect: network is unreachable"}, classify.DNSResolverUnreachable},
		{net.DNSError{Err: "read udp 10.20.0.9:40000->10.20.0.2:53: read: no route to host"}, classify.DNSResolverUnreachable},
		{net.DNSError{Err: "Temporary failure in name resolution", IsTemporary: true}, classify.DNSTemporaryFailure},
		{net.DNSError{Err: "cannot unmarshal DNS message"}, classify.DNSAnswerMalformed},
		{net.DNSError{Err: "no suitable address found"}, classify.DNSNoUsableAddress},
		{net.DNSError{Err: "getaddrinfow: This is usually a temporary error during hostname resolution.", IsTemporary: true}, classify.DNSTemporaryFailure},
		{net.DNSError{Err: "socket: too many open files"}, classify.NodeLocalLimit},
	} {
		c.err.Name, c.err.Server = "auth.corp.test", "10.20.0.2:53"
		err := &net.OpError{Op: "dial", Net: "tcp", Err: &c.err}
		f := classify.Error(&url.Error{Op: "Post", URL: "https://auth.corp.test/token", Err: err})
		assert.Equal(t, c.want, f.Cause, c.err.Err)
		if f.Layer == classify.LayerDNS {
			assert.Equal(t, "auth.corp.test", f.Endpoint)
			assert.Equal(t, "10.20.0.2:53", f.Fact(classify.FactResolver))
		}
		assert.Equal(t, classify.OperationFetchToken, f.Operation)
		sameFault(t, err, f)
	}
}
