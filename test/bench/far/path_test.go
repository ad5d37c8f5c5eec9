//go:build linux

package main

import (
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A connect takes a round trip, and so does each answer: what the comparison rests
// on.
func TestPath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and TUN devices")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("no network namespace: %v", err)
	}
	const roundTrip = 40 * time.Millisecond
	p, err := newPath(nodeAddr, []netip.Addr{registryAddr, dnsAddr}, roundTrip)
	if err != nil {
		t.Skip(err)
	}
	var server net.Listener
	p.atServers(func() {
		if server, err = net.Listen("tcp", registryAddr.String()+":443"); err == nil {
			err = startNameserver(dnsAddr)
		}
	})
	require.NoError(t, err)
	defer server.Close()
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.Copy(conn, conn)
	}()

	start := time.Now()
	conn, err := net.Dial("tcp", registryAddr.String()+":443")
	require.NoError(t, err)
	defer conn.Close()
	require.GreaterOrEqual(t, time.Since(start), roundTrip)
	for range 2 {
		start := time.Now()
		_, err = conn.Write([]byte("question"))
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, len("question")))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), roundTrip)
	}
	query, err := net.Dial("udp", dnsAddr.String()+":53")
	require.NoError(t, err)
	defer query.Close()
	start = time.Now()
	_, err = query.Write([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x08registry\x04corp\x04test\x00\x00\x01\x00\x01"))
	require.NoError(t, err)
	reply := make([]byte, 512)
	n, err := query.Read(reply)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(start), roundTrip)
	require.Equal(t, registryAddr.AsSlice(), reply[n-4:n])

	r := p.recorded()
	assert.Equal(t, map[netip.Addr]int{registryAddr: 1}, r.opened)
	assert.Equal(t, map[netip.Addr]int{registryAddr: 2}, r.turns)
	assert.Equal(t, 1, r.queries)
	assert.True(t, r.answer[registryAddr].After(r.first))
	assert.Empty(t, p.recorded().turns)
}

func TestParse(t *testing.T) {
	t.Parallel()
	syn := []byte{
		0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 50, 0, 1, 10, 50, 0, 2,
		0xc3, 0x50, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0,
	}
	from, to := netip.MustParseAddrPort("10.50.0.1:50000"), netip.MustParseAddrPort("10.50.0.2:443")
	s, ok := parse(syn)
	require.True(t, ok)
	require.Equal(t, segment{from: from, to: to, syn: true}, s)

	data := append(append([]byte(nil), syn...), "hello"...)
	data[3], data[33] = 45, 0x18
	s, ok = parse(data)
	require.True(t, ok)
	require.Equal(t, segment{from: from, to: to, payload: 5}, s)

	for n := range data {
		_, ok := parse(data[:n])
		require.False(t, ok, "%d bytes of a packet", n)
	}
	data[0] = 0x65
	_, ok = parse(data)
	require.False(t, ok, "IPv6")
}
