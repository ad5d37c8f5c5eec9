//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package reach

import (
	"context"
	"net/netip"
)

// kernelRoute asks the kernel of this machine.
func kernelRoute(ctx context.Context, dst netip.Addr) (Route, error) { return udpRoute(ctx, dst) }
