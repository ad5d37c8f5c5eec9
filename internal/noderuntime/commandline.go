package noderuntime

import (
	"bytes"
	"strings"
)

// configFile returns the configuration file that a command line names, "" if it
// names none: "-c FILE", "--config FILE" or "--config=FILE", as containerd,
// CRI-O and k3s take it. raw is /proc/PID/cmdline, arguments ended by NUL.
func configFile(raw []byte) string {
	args := strings.Split(string(bytes.TrimRight(raw, "\x00")), "\x00")
	for i, arg := range args {
		if i == 0 {
			continue
		}
		for _, flag := range []string{"-c", "--config", "-config"} {
			if arg == flag && i+1 < len(args) {
				return args[i+1]
			}
			if value, ok := strings.CutPrefix(arg, flag+"="); ok {
				return value
			}
		}
	}
	return ""
}
