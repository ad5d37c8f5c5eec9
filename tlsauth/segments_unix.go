//go:build linux || darwin || freebsd

package tlsauth

import (
	"context"
	"syscall"
)

// clampTo sets TCP_MAXSEG before the connection is made: then it bounds what is
// sent, and what the other side is told that it may send (tcp(7)).
func clampTo(mss int) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, mss)
		})
		if err != nil {
			return err
		}
		return failed
	}
}
