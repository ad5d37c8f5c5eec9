//go:build unix

package reach

import (
	"context"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// afterAccept looks, for as long as watch, whether an accepted connection is
// broken off, without taking a byte from it; "" = it is not, or cannot be seen.
func afterAccept(ctx context.Context, conn net.Conn, watch time.Duration) string {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return ""
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return ""
	}
	if conn.SetReadDeadline(time.Now().Add(watch)) != nil {
		return ""
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	after := ""
	_ = raw.Read(func(fd uintptr) bool { // its error is the end of the watch
		var one [1]byte
		n, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			return false
		case err == nil && n == 0:
			after = AfterClosed
		case err == unix.ECONNRESET || err == unix.EPIPE:
			after = AfterReset
		}
		return true
	})
	return after
}
