package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// open makes silent connections to an agent, from several addresses where the
// system's loopback has several.
func open(t *testing.T, to netip.AddrPort, n int, from ...string) (conns []net.Conn) {
	t.Helper()
	for i := range n {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from[i%len(from)])}}
		c, err := d.Dial("tcp", to.String())
		if err != nil {
			c, err = net.Dial("tcp", to.String())
		}
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		conns = append(conns, c)
	}
	return conns
}

// 512 silent connections keep nobody out, and cost a bounded number of goroutines and
// files.
func TestSilentConnections(t *testing.T) {
	w, root := world(t)
	cert, key := pair(t, w, root, agentclient.ServerName)
	file := put(t, root, "token", token+"\n")
	silent := []string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7", "127.0.0.8", "127.0.0.9"}
	for name, from := range map[string][]string{"of the address that asks": {"127.0.0.1"}, "of others": silent} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			agent := start(t, machine{hostRoot: root}, listening{tokenFile: file, certFile: cert, keyFile: key}, 1)
			open(t, agent.addr, 512, from...)
			c, err := agentclient.New(w.AuthorityPEM(), func() ([]byte, error) { return []byte(token), nil })
			require.NoError(t, err)
			started := time.Now()
			got, err := c.Diagnose(t.Context(), agent.addr, agentclient.Request{Images: []string{w.Image()}})
			require.NoError(t, err)
			require.Len(t, got, 1)
			took := time.Since(started)
			goroutines := runtime.NumGoroutine() - before
			t.Logf("answered after %v with %d goroutines more", took.Round(time.Millisecond), goroutines)
			require.LessOrEqual(t, goroutines, 2*maxConnections+16)
			require.NoError(t, agent.stop())
		})
	}
}

// Connections beyond the bound are closed at once: the oldest of who has most.
func TestConnectionsAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &door{Listener: l, most: 8, each: 4}
	t.Cleanup(func() { d.Close() })
	var inside []*guest
	enter := func(from string) net.Conn {
		c := open(t, netip.MustParseAddrPort(l.Addr().String()), 1, from)[0]
		g, err := d.Accept()
		require.NoError(t, err)
		inside = append(inside, g.(*guest))
		return c
	}
	closed := func(c net.Conn) bool {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		_, err := c.Read(make([]byte, 1))
		return err == io.EOF || err != nil && !strings.Contains(err.Error(), "timeout")
	}
	first := enter("127.0.0.1")
	inside[0].be(true) // it is answered
	second := enter("127.0.0.1")
	for range 3 {
		enter("127.0.0.1")
	}
	require.False(t, closed(first), "who is answered stays")
	require.True(t, closed(second), "the oldest that is not goes")
	require.Len(t, d.guests, 4)
	for _, from := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"} {
		c := enter(from)
		require.False(t, closed(c), from)
	}
	require.LessOrEqual(t, len(d.guests), 8)

	// Where all are answered, the one that comes has to go.
	for _, g := range inside {
		g.be(true)
	}
	enter("127.0.0.7") // there was one that left
	for _, g := range inside {
		g.be(true)
	}
	require.True(t, closed(enter("127.0.0.1")))
	for _, g := range inside {
		g.Close()
	}
	require.Empty(t, d.guests)
}

// A page whose name was pointed to loopback sends that name.
func TestLoopbackChecksHost(t *testing.T) {
	_, root := world(t)
	agent := start(t, machine{hostRoot: root}, listening{}, 1)
	tests := map[string]int{
		"evil.example": 403, "evil.example:9741": 403, "127.0.0.1.evil.example": 403, "192.0.2.1:9741": 403, "[2001:db8::1]": 403, "localhost.evil.example": 403,
		agent.addr.String(): 200, "localhost:9741": 200, "LOCALHOST": 200, "[::1]:9741": 200, "127.8.8.8": 200, agentclient.ServerName: 200,
	}
	for host, code := range tests {
		for _, path := range []string{"/version", "/healthz"} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", agent.url(path), nil)
			require.NoError(t, err)
			req.Host = host
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			var body bytes.Buffer
			_, err = body.ReadFrom(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, code, resp.StatusCode, host)
		}
	}
}
