package reach_test

import (
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
)

// listen returns the address of a loopback port that accepts and drops.
func listen(tb testing.TB) netip.AddrPort {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	done := make(chan struct{})
	tb.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func TestLoopbackAccepted(t *testing.T) {
	t.Parallel()
	at := listen(t)
	r, err := (&reach.Checker{}).Check(t.Context(), at)
	require.NoError(t, err)
	assert.True(t, r.Held(), "%+v", r)
	assert.Empty(t, r.Findings())
	assert.Equal(t, reach.RouteLocal, r.Route.Kind)
	assert.True(t, r.Route.Source.IsLoopback())
	assert.NotZero(t, r.Connect.Source.Port())
	assert.True(t, r.Connect.Source.Addr().IsLoopback())
	if runtime.GOOS == "linux" {
		assert.Equal(t, "netlink", r.Route.Method)
		assert.NotZero(t, r.Route.Table)
		assert.Equal(t, "lo", r.Route.Interface)
		assert.Positive(t, r.Route.LinkMTU)
		assert.False(t, r.Route.OnLink)
	}
}

func TestLoopbackHandsOnAnOpenConnection(t *testing.T) {
	t.Parallel()
	r, conn, err := (&reach.Checker{Dialer: &net.Dialer{}}).Connect(t.Context(), listen(t))
	require.NoError(t, err)
	require.NotNil(t, conn)
	assert.True(t, r.Held())
	assert.Equal(t, r.Connect.Source.String(), conn.LocalAddr().String())
	require.NoError(t, conn.Close())
}

func TestLoopbackRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := l.Addr().(*net.TCPAddr).AddrPort()
	require.NoError(t, l.Close())
	r, err := (&reach.Checker{}).Check(t.Context(), at)
	require.NoError(t, err)
	assert.False(t, r.Held())
	assert.Equal(t, "ECONNREFUSED", r.Connect.Errno)
	assert.False(t, r.Connect.TimedOut)
	require.Equal(t, []classify.Cause{classify.EndpointConnectionRefused}, causes(r))
	assert.Equal(t, "ECONNREFUSED", r.Findings()[0].Fact(classify.FactErrno))
}

func BenchmarkCheckLoopback(b *testing.B) {
	at := listen(b)
	var c reach.Checker
	b.ReportAllocs()
	for b.Loop() {
		r, err := c.Check(b.Context(), at)
		if err != nil || !r.Held() {
			b.Fatalf("%+v, %v", r, err)
		}
	}
}

func BenchmarkCheckRoute(b *testing.B) {
	var c reach.Checker
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.CheckRoute(b.Context(), netip.MustParseAddr("127.0.0.1")); err != nil {
			b.Fatal(err)
		}
	}
}

// What a check is held against: the connect alone.
func BenchmarkDialLoopback(b *testing.B) {
	to := listen(b).String()
	var d net.Dialer
	for b.Loop() {
		conn, err := d.DialContext(b.Context(), "tcp", to)
		if err != nil {
			b.Fatal(err)
		}
		_ = conn.Close()
	}
}

// A check without the route lookup.
func BenchmarkConnectLoopback(b *testing.B) {
	to := listen(b)
	c := &reach.Checker{}
	for b.Loop() {
		r, conn, err := c.Connect(b.Context(), to)
		if err != nil || conn == nil {
			b.Fatal(r, err)
		}
		_ = conn.Close()
	}
}
