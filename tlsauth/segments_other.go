//go:build !linux && !darwin && !freebsd

package tlsauth

import (
	"context"
	"errors"
	"syscall"
)

// clampTo refuses: this system has no such option before the connection is made.
func clampTo(int) func(context.Context, string, string, syscall.RawConn) error {
	return func(context.Context, string, string, syscall.RawConn) error { return errors.ErrUnsupported }
}
