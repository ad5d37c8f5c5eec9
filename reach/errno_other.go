//go:build !unix && !windows

package reach

import "syscall"

// errnoName knows no numbers of this platform.
func errnoName(syscall.Errno) string { return "" }
