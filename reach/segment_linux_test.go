package reach_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pullwalk/pullwalk/reach"
)

func TestDialSegmentClampsBothDirections(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	peer := make(chan int, 1)
	p.reg.serve(registry.String(), func(c net.Conn) {
		defer c.Close()
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err == nil {
			_ = raw.Control(func(fd uintptr) {
				if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
					peer <- int(info.Snd_mss)
				}
			})
		}
	})
	conn, err := reach.System{Namespace: p.node.path}.DialSegment(t.Context(), "tcp", registry.String(), 1000)
	require.NoError(t, err)
	defer conn.Close()
	assert.LessOrEqual(t, <-peer, 1000)
	for _, mss := range []int{-1, 1, 87, 40000} {
		_, err := reach.System{}.DialSegment(t.Context(), "tcp", registry.String(), mss)
		require.ErrorContains(t, err, "segment size")
	}
}
