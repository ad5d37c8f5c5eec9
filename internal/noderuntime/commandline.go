package noderuntime

import (
	"bytes"
	"strings"
)

// splitArgs reads /proc/PID/cmdline: arguments ended by NUL.
func splitArgs(raw []byte) []string {
	return strings.Split(string(bytes.TrimRight(raw, "\x00")), "\x00")
}

// configFile returns the configuration file that a command line names, "" if it
// names none: "-c FILE", "--config FILE" or "--config=FILE", as containerd,
// CRI-O and k3s take it.
func configFile(args []string) string {
	for _, name := range []string{"c", "config"} {
		if file, ok := flagOf(args, name); ok {
			return file
		}
	}
	return ""
}

// flagOf returns the value of a flag in any of its forms, of several the first.
func flagOf(args []string, name string) (value string, ok bool) {
	for i, arg := range args {
		if i == 0 || !strings.HasPrefix(arg, "-") {
			continue
		}
		key, value, equals := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case key != name:
		case equals:
			return value, true
		case i+1 < len(args):
			return args[i+1], true
		}
	}
	return "", false
}
