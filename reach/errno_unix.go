//go:build unix

package reach

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// errnoName returns the symbolic name of errno, "" for an unknown number.
func errnoName(errno syscall.Errno) string { return unix.ErrnoName(errno) }
