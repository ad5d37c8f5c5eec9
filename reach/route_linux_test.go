package reach

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestFromNetlinkIgnoresWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	dst := netip.MustParseAddr("10.20.0.4")
	got := fromNetlink(dst, netlink.Route{Type: unix.RTN_UNICAST, Table: 254, Gw: net.IP{1, 2, 3}, Src: net.IPv6unspecified})
	assert.Equal(t, Route{Destination: dst, Kind: RouteUnicast, Table: 254, Method: methodNetlink}, got)
	assert.Equal(t, RouteKind(""), fromNetlink(dst, netlink.Route{Type: unix.RTN_THROW}).Kind)
	name, mtu := linkOf(1 << 30)
	assert.Empty(t, name)
	assert.Zero(t, mtu)
}

func TestKernelRouteAfterTheCallersEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	cancel(reason)
	_, err := kernelRoute(ctx, netip.MustParseAddr("127.0.0.1"))
	require.ErrorIs(t, err, reason)
}

// The fallback of sandboxes without netlink.
func TestUDPRoute(t *testing.T) {
	t.Parallel()
	dst := netip.MustParseAddr("127.0.0.1")
	got, err := udpRoute(t.Context(), dst)
	require.NoError(t, err)
	assert.Equal(t, Route{Destination: dst, Source: dst, Kind: RouteLocal, Method: methodUDPConnect}, got)
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	for errno, want := range map[syscall.Errno]RouteKind{
		syscall.ENETUNREACH: RouteNone, syscall.EAFNOSUPPORT: RouteNone, syscall.EHOSTUNREACH: RouteUnreachable,
		syscall.EACCES: RouteProhibit, syscall.EINVAL: RouteBlackhole, syscall.ECONNREFUSED: "", 0: "", 99999: "",
	} {
		assert.Equal(t, want, refusal(errnoOf(errno)), errno)
	}
}
