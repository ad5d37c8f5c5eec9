// Package noderuntime finds the container runtime that pulls on this node, and
// reads what only its process knows. It is the one place that reads an
// environment.
package noderuntime

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Runtime is a container runtime's process.
type Runtime struct {
	Name string // "containerd", "crio", "dockerd", "k3s", "rke2"
	PID  int
	// Environ is the process's environment. nil = it could not be read.
	Environ map[string]string
}

// names are the process names (/proc/PID/comm) that pull images, the ones that
// a kubelet talks to first. k3s and rke2 start a containerd of their own.
var names = []string{"containerd", "crio", "dockerd", "k3s-server", "k3s-agent", "rke2"}

// maxEnviron bounds an environment; Linux itself allows a few MiB.
const maxEnviron = 1 << 20

// Find looks for a runtime in the proc directory of tree that shares the network
// namespace of this process: a machine may run several. It reports false if
// there is none, or if the processes cannot be seen.
func Find(tree fs.FS) (Runtime, bool) {
	entries, err := fs.ReadDir(tree, "proc")
	if err != nil {
		return Runtime{}, false
	}
	own, _ := fs.ReadLink(tree, "proc/self/ns/net")
	best, rank := Runtime{}, len(names)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		comm, err := readSmall(tree, "proc/"+e.Name()+"/comm", 64)
		if err != nil {
			continue
		}
		name := strings.TrimSpace(string(comm))
		i := slices.Index(names, name)
		if i < 0 || i >= rank {
			continue
		}
		if ns, err := fs.ReadLink(tree, "proc/"+e.Name()+"/ns/net"); own == "" || err != nil || ns != own {
			continue
		}
		best, rank = Runtime{Name: name, PID: pid}, i
	}
	if best.PID == 0 {
		return Runtime{}, false
	}
	if raw, err := readSmall(tree, "proc/"+strconv.Itoa(best.PID)+"/environ", maxEnviron); err == nil {
		best.Environ = parseEnviron(raw)
	}
	return best, true
}

// OwnEnviron returns the environment of this process.
func OwnEnviron() map[string]string {
	return parseEnviron([]byte(strings.Join(os.Environ(), "\x00")))
}

// NetworkNamespace compares the network namespace of this process with that of
// process 1 in the proc directory of tree: "host" where they are the same and
// process 1 is an init of its own PID namespace's root as far as can be seen,
// "other" where they differ, "unknown" where either cannot be read.
func NetworkNamespace(tree fs.FS) string {
	own, err1 := fs.ReadLink(tree, "proc/self/ns/net")
	first, err2 := fs.ReadLink(tree, "proc/1/ns/net")
	if err1 != nil || err2 != nil {
		return "unknown"
	}
	if own != first {
		return "other"
	}
	// In a container process 1 is the container's own: the kernel's threads, which
	// only the first PID namespace shows, tell the two apart.
	if comm, err := readSmall(tree, "proc/2/comm", 64); err == nil && strings.TrimSpace(string(comm)) == "kthreadd" {
		return "host"
	}
	return "unknown"
}

func parseEnviron(raw []byte) map[string]string {
	env := map[string]string{}
	for entry := range bytes.SplitSeq(raw, []byte{0}) {
		if key, value, ok := strings.Cut(string(entry), "="); ok && key != "" {
			env[key] = value
		}
	}
	return env
}

// readSmall reads at most limit bytes. Files of /proc have no size, so they are
// read to the end and not by their size.
func readSmall(tree fs.FS, name string, limit int64) ([]byte, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
