//go:build windows

package classify_test

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pullwalk/pullwalk/classify"
)

func TestErrorOfWinsock(t *testing.T) {
	addr := &net.TCPAddr{IP: net.IPv4(10, 20, 0, 4), Port: 443}
	for no, want := range map[syscall.Errno]classify.Cause{
		10061: classify.EndpointConnectionRefused,
		10060: classify.RouteConnectTimeout,
		10051: classify.RouteNetworkUnreachable,
		10065: classify.RouteNoRouteToHost,
		10013: classify.RouteProhibited,
		10054: classify.EndpointConnectionReset,
		10055: classify.NodeLocalLimit,
	} {
		err := &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: os.NewSyscallError("connectex", no)}
		assert.Equal(t, want, classify.Error(err).Cause, no)
	}
}
