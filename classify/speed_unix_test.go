//go:build unix

package classify_test

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used of the processors so far, which, unlike
// the clock, does not depend on what else runs. 0 = not known.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
