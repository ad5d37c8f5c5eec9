//go:build unix || windows

package classify

import (
	"errors"
	"syscall"
)

// errnoFact returns the symbolic name of the operating system's error inside
// err, "" if there is none that a reader here knows.
func errnoFact(err error) string {
	var no syscall.Errno
	if errors.As(err, &no) {
		return errnoSymbol(no)
	}
	return ""
}
