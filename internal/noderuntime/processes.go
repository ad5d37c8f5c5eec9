package noderuntime

import (
	"cmp"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// maxCommandLine bounds a command line; Linux itself allows a few MiB.
const maxCommandLine = 1 << 20

// process is one of those that have to do with a pull.
type process struct {
	pid  int
	name string // /proc/PID/comm
}

// args are those that the process was started with, its own name first; nil if
// they cannot be read.
func (p process) args(tree fs.FS) []string {
	raw, err := readSmall(tree, "proc/"+strconv.Itoa(p.pid)+"/cmdline", maxCommandLine)
	if err != nil || len(raw) == 0 {
		return nil
	}
	return splitArgs(raw)
}

// processes lists kubelet and runtimes in the network namespace of this process,
// and in the process namespace of process 1 where that can be read; the lowest
// number first.
func processes(tree fs.FS) []process {
	entries, err := fs.ReadDir(tree, "proc")
	if err != nil {
		return nil
	}
	net, pid := namespace(tree, "self", "net"), namespace(tree, "1", "pid")
	if net == "" {
		return nil
	}
	var out []process
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n <= 0 {
			continue
		}
		comm, err := readSmall(tree, "proc/"+e.Name()+"/comm", 64)
		if err != nil {
			continue
		}
		name := strings.TrimSuffix(string(comm), "\n")
		if name != kubeletName && rankOf(name, "") == unranked {
			continue
		}
		if namespace(tree, e.Name(), "net") != net || pid != "" && namespace(tree, e.Name(), "pid") != pid {
			continue
		}
		out = append(out, process{n, name})
	}
	slices.SortFunc(out, func(a, b process) int { return cmp.Compare(a.pid, b.pid) })
	return out
}
