package noderuntime

import (
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// ticks is USER_HZ, the unit of times in /proc/PID/stat, the same on every
// architecture that Go supports (sysconf(3), _SC_CLK_TCK).
const ticks = 100

// started returns when a process began, to a hundredth of a second, by the clock
// now; zero if it cannot be read. The time since boot is taken, and not btime of
// /proc/stat, which is in whole seconds.
func started(tree fs.FS, pid string, now time.Time) time.Time {
	uptime, err := readSmall(tree, "proc/uptime", 64)
	if err != nil {
		return time.Time{}
	}
	began, err1 := strconv.ParseInt(startTicks(tree, pid), 10, 64)
	up, err2 := strconv.ParseFloat(strings.SplitN(string(uptime)+" ", " ", 2)[0], 64)
	if err1 != nil || err2 != nil || began < 0 || up <= 0 || up > 1e9 || began > 1e11 {
		return time.Time{}
	}
	age := time.Duration(up*float64(time.Second)) - time.Duration(began)*(time.Second/ticks)
	return now.Add(-age)
}

// startTicks is field 22 of proc_pid_stat(5), "" if it cannot be read.
func startTicks(tree fs.FS, pid string) string {
	stat, err := readSmall(tree, "proc/"+pid+"/stat", 4096)
	if err != nil {
		return ""
	}
	// The name of the process, field 2, may hold blanks and parentheses.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const start = 22 - 3 // the first here is field 3
	if len(fields) <= start {
		return ""
	}
	return fields[start]
}
