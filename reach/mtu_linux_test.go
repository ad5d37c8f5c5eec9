package reach_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
)

// swap sends a request of one size and wants an answer of another, as a TLS
// handshake does.
func swap(name string, request, answer int) reach.Exchange {
	return reach.Exchange{Name: name, Run: func(ctx context.Context, conn net.Conn) error {
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // as crypto/tls does
		head := binary.BigEndian.AppendUint32(nil, uint32(request))
		head = binary.BigEndian.AppendUint32(head, uint32(answer))
		if _, err := conn.Write(append(head, bytes.Repeat([]byte{7}, request)...)); err != nil {
			return err
		}
		_, err := io.CopyN(io.Discard, conn, int64(answer))
		return err
	}}
}

// swapServer answers swap, but never a request above limit.
func swapServer(limit uint32) func(net.Conn) {
	return func(conn net.Conn) {
		defer conn.Close()
		var head [8]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		request, answer := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
		if _, err := io.CopyN(io.Discard, conn, int64(request)); err != nil {
			return
		}
		if request <= limit {
			if _, err := conn.Write(bytes.Repeat([]byte{8}, int(answer))); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, conn) // until the other side has enough
	}
}

// narrow makes a router's way to dst carry packets of at most mtu bytes, and
// keeps it from saying so.
func (s *space) narrow(dst, via string, mtu int) {
	s.t.Helper()
	_, ipNet, err := net.ParseCIDR(dst)
	require.NoError(s.t, err)
	s.with(func(h *netlink.Handle) {
		require.NoError(s.t, h.RouteReplace(&netlink.Route{Dst: ipNet, Gw: net.ParseIP(via), MTU: mtu, MTULock: true}))
	})
	s.filter(unix.RTN_BLACKHOLE, unix.IPPROTO_ICMP, 0, nil)
}

func TestMTU(t *testing.T) {
	t.Parallel()
	large, classical := swap("large", 1500, 4000), swap("classical", 280, 4000)
	for name, tc := range map[string]struct {
		set          func(p *path)
		limit        uint32
		verdict      reach.MTUVerdict
		passed, lost int
		direction    string
		cause        classify.Cause
	}{
		"healthy":       {func(*path) {}, 9000, reach.MTUHeld, 1500, 0, "", ""},
		"hole there":    {func(p *path) { p.r1.narrow("10.20.3.0/24", "10.20.2.2", 1280) }, 9000, reach.MTUBlackHole, 1260, 1340, reach.ToTarget, classify.RouteMTUBlackHole},
		"hole back":     {func(p *path) { p.r2.narrow("10.20.1.0/24", "10.20.2.1", 1400) }, 9000, reach.MTUBlackHole, 1400, 1440, reach.FromTarget, classify.RouteMTUBlackHole},
		"large hello":   {func(*path) {}, 1000, reach.LargeHelloDropped, 0, 0, "", classify.RouteLargeHelloDropped},
		"never answers": {func(*path) {}, 0, reach.MTUNotSize, 0, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPath(t)
			p.reg.serve(registry.String(), swapServer(tc.limit))
			tc.set(p)
			r, err := p.checker().CheckMTU(t.Context(), registry, large, classical)
			require.NoError(t, err)
			assert.Equal(t, tc.verdict, r.Verdict, "%+v", r)
			assert.Equal(t, tc.passed, r.Passed, "%+v", r.Attempts)
			assert.Equal(t, tc.lost, r.Lost)
			assert.Equal(t, tc.direction, r.Direction, "%+v", r.Attempts[0])
			assert.Empty(t, r.Inconclusive)
			if tc.cause == "" {
				assert.Empty(t, r.Findings())
				return
			}
			require.Len(t, r.Findings(), 1)
			assert.Equal(t, tc.cause, r.Findings()[0].Cause)
			assert.Equal(t, registry.String(), r.Findings()[0].Endpoint)
			assert.Positive(t, r.Attempts[0].Flow.SentBytes, "counted although the exchange closed it")
		})
	}
}

// Without an exchange of its own it tests the way there, and a path whose
// routers say what they can carry is no hole.
func TestMTUByWriteAlone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set     func(p *path)
		verdict reach.MTUVerdict
	}{
		"healthy": {func(*path) {}, reach.MTUHeld},
		"hole":    {func(p *path) { p.r1.narrow("10.20.3.0/24", "10.20.2.2", 1280) }, reach.MTUBlackHole},
		"said by the router": {func(p *path) {
			_, ipNet, _ := net.ParseCIDR("10.20.3.0/24")
			p.r1.with(func(h *netlink.Handle) {
				require.NoError(p.r1.t, h.RouteReplace(&netlink.Route{Dst: ipNet, Gw: net.ParseIP("10.20.2.2"), MTU: 1280, MTULock: true}))
			})
		}, reach.MTUHeld},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPath(t)
			p.reg.serve(registry.String(), nil)
			tc.set(p)
			r, err := p.checker().CheckMTU(t.Context(), registry)
			require.NoError(t, err)
			assert.Equal(t, tc.verdict, r.Verdict, "%+v", r)
			if tc.verdict == reach.MTUBlackHole {
				assert.Equal(t, reach.ToTarget, r.Direction)
			}
		})
	}
}

func TestDialSegmentClampsBothDirections(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	peer := make(chan reach.Flow, 1)
	p.reg.serve(registry.String(), func(c net.Conn) {
		defer c.Close()
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err == nil {
			_ = raw.Control(func(fd uintptr) {
				if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
					peer <- reach.Flow{Segment: int(info.Snd_mss)}
				}
			})
		}
	})
	conn, err := reach.System{Namespace: p.node.path}.DialSegment(t.Context(), "tcp", registry.String(), 1000)
	require.NoError(t, err)
	defer conn.Close()
	assert.LessOrEqual(t, (<-peer).Segment, 1000)
	for _, mss := range []int{-1, 1, 87, 40000} {
		_, err := reach.System{}.DialSegment(t.Context(), "tcp", registry.String(), mss)
		require.ErrorContains(t, err, "segment size")
	}
}
