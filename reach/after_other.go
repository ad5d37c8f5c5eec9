//go:build !unix

package reach

import (
	"context"
	"net"
	"time"
)

// afterAccept sees nothing on this system.
func afterAccept(context.Context, net.Conn, time.Duration) string { return "" }
