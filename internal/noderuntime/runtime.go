// Package noderuntime finds the container runtime that pulls on this node, and
// reads what only its process knows. It is the one place that reads an
// environment.
package noderuntime

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/internal/nodefs"
)

// Runtime is a container runtime's process.
type Runtime struct {
	Name string // "containerd", "crio", "dockerd", "k3s", "rke2"
	PID  int
	// Environ is the environment that the process was started with. nil = it could
	// not be read.
	Environ map[string]string
	// ConfigFile is the configuration file that the process was started with,
	// "" = its default one.
	ConfigFile string
	// Started is when the process began, to a hundredth of a second. Zero = it could
	// not be read.
	Started time.Time
	// Version is the program's own, as its build says, GoVersion that of the Go it
	// was built with, GODEBUG the defaults it was built with; "" = not known.
	Version, GoVersion, GODEBUG string
	// Rivals names the other processes that could as well be the one that pulls, and
	// were started in another way; nil = none.
	Rivals []string

	id identity
}

// String names the process, and no value of its environment.
func (r Runtime) String() string {
	if r.ConfigFile == "" {
		return fmt.Sprintf("%s (pid %d)", r.Name, r.PID)
	}
	return fmt.Sprintf("%s (pid %d, configuration %s)", r.Name, r.PID, r.ConfigFile)
}

// GoString keeps %#v from printing the environment.
func (r Runtime) GoString() string { return r.String() }

// like reports whether both would make the same pull.
func (r Runtime) like(o Runtime) bool {
	for _, name := range []string{
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "GODEBUG", "REQUEST_METHOD",
	} {
		if r.Environ[name] != o.Environ[name] {
			return false
		}
	}
	return r.Name == o.Name && r.ConfigFile == o.ConfigFile && r.id.program == o.id.program
}

// Root is the file tree that the process sees, below the node's tree at root. It
// is an error if the process is another one by now.
func (r Runtime) Root(tree fs.FS, root string) (*nodefs.FS, error) {
	own, err := nodefs.New(filepath.Join(root, "proc", strconv.Itoa(r.PID), "root"))
	if err == nil && !r.id.holds(tree, r.PID) {
		return nil, fmt.Errorf("process %d is not %s any more", r.PID, r.Name)
	}
	return own, err
}

// names are the process names (/proc/PID/comm) that pull images, the ones that
// a kubelet talks to first. k3s and rke2 start a containerd of their own.
var names = []string{"containerd", "crio", "dockerd", "k3s-server", "k3s-agent", "rke2"}

// maxEnviron bounds an environment; Linux itself allows a few MiB.
const maxEnviron = 1 << 20

// Find looks for a runtime in the proc directory of tree that shares the network
// namespace of this process, because a machine may run several, and the process
// namespace of process 1 where that can be read, because any container may run a
// program of that name. It is a process of root, or of the user of this process,
// with a program that no other user can change: a name alone is anybody's. The
// runtime that the kubelet names comes first, else one that a kubelet talks to; of
// equals the lowest process number wins, and Rivals names the others. A containerd
// that dockerd started for itself pulls nothing, and is none. It reports false if
// there is no runtime, or if the processes cannot be seen, which takes the rights
// of a debugger (proc_pid_ns(5)).
func Find(tree fs.FS) (Runtime, bool) { return FindNamed(tree, "") }

// FindNamed is [Find] for the runtime of one name, "k3s" and "rke2" among them
// also for the containerd that these start; "" = any.
func FindNamed(tree fs.FS, name string) (Runtime, bool) {
	found := processes(tree)
	var kubelet []string
	if i := slices.IndexFunc(found, func(p process) bool { return p.name == kubeletName }); i >= 0 {
		kubelet = found[i].args
	}
	asked := askedByKubelet(tree, kubelet)
	var best []Runtime // of the same rank
	rank := len(names)
	for _, p := range found {
		i := rankOf(p.name, asked)
		config := configFile(p.args)
		if i == unranked || i > rank || ofDocker(p.name, config) || !answersTo(p.name, config, name) {
			continue
		}
		if i < rank {
			best, rank = nil, i
		}
		best = append(best, Runtime{Name: known(p.name), PID: p.pid, ConfigFile: config, Environ: p.environ, id: p.id})
	}
	if len(best) == 0 {
		return Runtime{}, false
	}
	r := best[0]
	for _, other := range best[1:] {
		if !r.like(other) {
			r.Rivals = append(r.Rivals, other.String())
		}
	}
	pid := strconv.Itoa(r.PID)
	r.GoVersion, r.Version, r.GODEBUG = build(tree, pid)
	r.Started = started(tree, pid, time.Now())
	return r, r.id.holds(tree, r.PID)
}

// ofDocker recognises the containerd that dockerd keeps for running containers:
// dockerd itself pulls, by other settings.
func ofDocker(name, config string) bool {
	return known(name) == "containerd" && strings.HasSuffix(config, "/docker/containerd/containerd.toml")
}

// answersTo says whether a process is the runtime that is asked for by name.
func answersTo(name, config, want string) bool {
	name = known(name)
	switch want {
	case "", name:
		return true
	case "k3s", "rke2":
		return strings.HasPrefix(name, want) || name == "containerd" && strings.Contains(config, "/"+want+"/")
	}
	return false
}

// environ is the environment that a process was started with, nil if it cannot be
// read.
func environ(tree fs.FS, pid string) map[string]string {
	raw, err := readSmall(tree, "proc/"+pid+"/environ", maxEnviron+1)
	if err != nil {
		return nil
	}
	return parseEnviron(raw)
}

// known is the name without a version.
func known(name string) string {
	if slices.Contains(names, name) {
		return name
	}
	return strings.TrimRight(name, "0123456789.-")
}

const unranked = -2

// rankOf says how well a process name fits, the lowest best. A version behind the
// name does not count: a containerd-2.4 beside the distribution's own is one, too.
// The shims (containerd-shim) are none.
func rankOf(name, asked string) int {
	i := slices.Index(names, known(name))
	switch {
	case i < 0:
		return unranked
	case asked != "" && strings.HasPrefix(names[i], asked):
		return -1
	}
	return i
}

// OwnEnviron returns the environment of this process.
func OwnEnviron() map[string]string {
	return parse(os.Environ())
}

// The kernel gives the namespaces it boots with numbers that no other one can
// get, since those begin at 0xF0000000: include/linux/proc_ns.h, since Linux 3.8;
// for the network namespace include/uapi/linux/nsfs.h, since 6.18.
const (
	firstPID = "pid:[4026531836]" // PROC_PID_INIT_INO 0xEFFFFFFC
	firstNet = "net:[4026531833]" // NET_NS_INIT_INO 0xEFFFFFF9
)

// NetworkNamespace compares the network namespace of this process with that of
// process 1 in the proc directory of tree: "host" where it is the machine's own,
// "other" where the two differ, "unknown" where either cannot be read, or where
// process 1 is not the machine's (in a container it is the container's; a node
// that itself is a container looks the same).
func NetworkNamespace(tree fs.FS) string {
	own, first := namespace(tree, "self", "net"), namespace(tree, "1", "net")
	switch {
	case own == firstNet:
		return "host"
	case own == "" || first == "":
		return "unknown"
	case own != first:
		return "other"
	}
	if namespace(tree, "1", "pid") == firstPID {
		return "host"
	}
	return "unknown"
}

// namespace names a namespace of a process, "" if that cannot be read.
func namespace(tree fs.FS, process, kind string) string {
	link, err := fs.ReadLink(tree, "proc/"+process+"/ns/"+kind)
	if err != nil {
		return ""
	}
	return link
}

// parseEnviron reads what /proc/PID/environ holds. Of an environment over the
// bound the last entry is left out: half a value would be another value.
func parseEnviron(raw []byte) map[string]string {
	if len(raw) > maxEnviron {
		raw = raw[:bytes.LastIndexByte(raw, 0)+1]
	}
	return parse(strings.Split(string(raw), "\x00"))
}

// parse reads "name=value" entries. Of a name that stands there twice the first
// counts, as for getenv(3) and os.Getenv.
func parse(entries []string) map[string]string {
	env := map[string]string{}
	for _, entry := range entries {
		key, value, ok := strings.Cut(entry, "=")
		if _, twice := env[key]; ok && key != "" && !twice {
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
