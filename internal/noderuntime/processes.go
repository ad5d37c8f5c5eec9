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

// process is one of those that have to do with a pull, and may be believed.
type process struct {
	pid     int
	name    string            // /proc/PID/comm
	args    []string          // its own name first; nil = they cannot be read
	environ map[string]string // nil = it cannot be read
	id      identity
}

// processes lists kubelet and runtimes in the network namespace of this process,
// and in the process namespace of process 1 where that can be read; the lowest
// number first. Any user may call a program containerd: see [identify].
func processes(tree fs.FS) []process {
	entries, err := fs.ReadDir(tree, "proc")
	if err != nil {
		return nil
	}
	net, pidns := namespace(tree, "self", "net"), namespace(tree, "1", "pid")
	if net == "" {
		return nil
	}
	var out []process
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n <= 0 || !isPuller(nameOf(tree, e.Name())) {
			continue
		}
		pid := e.Name()
		// The number may go to another process, and the process may run another program,
		// between two reads: what was read counts if the identity is the same after it.
		id, err := identify(tree, pid)
		if err != nil {
			continue
		}
		p := process{n, nameOf(tree, pid), args(tree, pid), environ(tree, pid), id}
		if !isPuller(p.name) || namespace(tree, pid, "net") != net || pidns != "" && namespace(tree, pid, "pid") != pidns || !id.holds(tree, n) {
			continue
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b process) int { return cmp.Compare(a.pid, b.pid) })
	return out
}

// nameOf is the name of a process, "" if it cannot be read.
func nameOf(tree fs.FS, pid string) string {
	comm, err := readSmall(tree, "proc/"+pid+"/comm", 64)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(comm), "\n")
}

func isPuller(name string) bool { return name == kubeletName || rankOf(name, "") != unranked }

// args are those that a process was started with.
func args(tree fs.FS, pid string) []string {
	raw, err := readSmall(tree, "proc/"+pid+"/cmdline", maxCommandLine)
	if err != nil || len(raw) == 0 {
		return nil
	}
	return splitArgs(raw)
}
