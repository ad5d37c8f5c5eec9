//go:build !linux

package reach

import (
	"context"
	"net"
	"net/netip"
	"syscall"
)

// canObserve: sockets cannot be looked at here as far as we need it.
const canObserve = false

// watch shows nothing on this system.
type watch struct{}

func newWatch() *watch { return &watch{} }

func (*watch) prepare(_ socketOptions, control func(network, address string, c syscall.RawConn) error,
	controlContext func(ctx context.Context, network, address string, c syscall.RawConn) error,
) func(context.Context, string, string, syscall.RawConn) error {
	return func(ctx context.Context, network, address string, c syscall.RawConn) error {
		switch {
		case controlContext != nil:
			return controlContext(ctx, network, address, c)
		case control != nil:
			return control(network, address, c)
		}
		return nil
	}
}

func (*watch) connected() Flow { return Flow{} }

func (*watch) failed() (Flow, netip.AddrPort, *ICMP) { return Flow{}, netip.AddrPort{}, nil }

func (*watch) close() {}

func flowOfConn(net.Conn) Flow { return Flow{} }
