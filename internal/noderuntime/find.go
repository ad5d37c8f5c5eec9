// Package noderuntime knows the container runtimes: a [Profile] has every way in
// which one differs from the others, [Files] reads a node's files as it does, and
// [Find] looks for its process. It is the one place that reads an environment.
package noderuntime

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

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

// Find looks for a runtime in the proc directory of tree that shares the network
// namespace of this process, because a machine may run several, and the process
// namespace of process 1 where that can be read, because any container may run a
// program of that name. It is a process of root, or of the user of this process,
// with a program that no other user can change: a name alone is anybody's. The
// runtime that the kubelet names comes first, else one that a kubelet talks to; of
// equals the one that k3s started, then the lowest process
// number wins, and Rivals names the others. A containerd
// that dockerd started for itself pulls nothing, and is none. It reports false if
// there is no runtime, or if the processes cannot be seen, which takes the rights
// of a debugger (proc_pid_ns(5)).
func Find(tree fs.FS) (Runtime, bool) { return FindNamed(tree, "") }

// FindNamed is [Find] for the runtime of one name, "k3s" and "rke2" among them
// also for the containerd that these start; "" = any.
func FindNamed(tree fs.FS, name string) (Runtime, bool) {
	found := processes(tree, isPuller)
	var kubelet []string
	if i := slices.IndexFunc(found, func(p process) bool { return p.name == kubeletName }); i >= 0 {
		kubelet = found[i].args
	}
	asked := askedByKubelet(tree, kubelet)
	var best []Runtime // of the same rank
	rank := 2 * len(processNames())
	for _, p := range found {
		i := rankOf(p.name, asked)
		r := Runtime{Name: known(p.name), PID: p.pid, ConfigFile: configFile(p.args), Environ: p.environ, id: p.id}
		if Of(r.Name, "").Wraps {
			r.ConfigFile = "" // it is not that of the containerd inside
		}
		if i == unranked || r.onlyRuns() || name != "" && name != r.Name && name != r.Profile().Name {
			continue
		}
		if i = 2 * i; r.startedBy(found) {
			i-- // before one that docker, or nobody, uses beside it
		}
		if i > rank {
			continue
		}
		if i < rank {
			best, rank = nil, i
		}
		best = append(best, r)
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

// Profile is that of the runtime, or of the one that its process starts.
func (r Runtime) Profile() *Profile { return Of(r.Name, r.ConfigFile) }

// onlyRuns reports whether it is a containerd that dockerd keeps for running
// containers: dockerd itself pulls, by other settings.
func (r Runtime) onlyRuns() bool {
	return slices.ContainsFunc(profiles(), func(p Profile) bool { return p.Runner != "" && strings.HasSuffix(r.ConfigFile, p.Runner) })
}

// startedBy reports whether it is the containerd of a k3s that runs here, and so of
// the kubelet inside that.
func (r Runtime) startedBy(found []process) bool {
	inside := r.Profile()
	return inside.Kubelet && !slices.Contains(inside.Processes, r.Name) &&
		slices.ContainsFunc(found, func(p process) bool { return slices.Contains(inside.Processes, known(p.name)) })
}

// Agent is what it calls itself, "" = not known.
func (r Runtime) Agent() string {
	if Of(r.Name, "").Wraps { // the release is not that of the containerd inside
		return r.Profile().Agent("")
	}
	return r.Profile().Agent(r.Version)
}

func isPuller(name string) bool { return name == kubeletName || known(name) != "" }

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

// known is the name of a runtime's process without a version: a containerd-2.4
// beside the distribution's own is one, too. The shims (containerd-shim) are none,
// and so "".
func known(name string) string {
	for _, name := range []string{name, strings.TrimRight(name, "0123456789.-")} {
		if slices.Contains(processNames(), name) {
			return name
		}
	}
	return ""
}

// processNames are those of all runtimes, in the order of the profiles.
func processNames() (names []string) {
	for _, p := range profiles() {
		names = append(names, p.Processes...)
	}
	return names
}

const unranked = -2

// rankOf is how well a process fits, the lowest best: -1 for the runtime that the
// kubelet names.
func rankOf(name, asked string) int {
	i := slices.Index(processNames(), known(name))
	switch {
	case i < 0:
		return unranked
	case asked != "" && Of(known(name), "").Name == asked:
		return -1
	}
	return i
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

// kubeletConfig is where kubeadm, AKS and most distributions keep the kubelet's
// configuration (KubeletConfiguration, kubelet.config.k8s.io/v1beta1).
const kubeletConfig = "var/lib/kubelet/config.yaml"

// kubeletName is the name of its process.
const kubeletName = "kubelet"

// maxKubeletConfig bounds that file.
const maxKubeletConfig = 1 << 20

// askedByKubelet returns the name of the runtime that the kubelet of tree asks for
// images, "" if neither its command line nor its configuration says. Several
// runtimes may run on one node; the pull is made by the one whose socket the
// kubelet uses, and the socket for images wins over the one for containers. Flags
// win over the file.
func askedByKubelet(tree fs.FS, args []string) string {
	file := kubeletConfig
	if named, ok := flagOf(args, "config"); ok && path.IsAbs(named) {
		file = path.Clean(named)[1:]
	}
	var config struct {
		ContainerRuntimeEndpoint string `json:"containerRuntimeEndpoint"`
		ImageServiceEndpoint     string `json:"imageServiceEndpoint"`
	}
	if raw, err := readSmall(tree, file, maxKubeletConfig); err == nil {
		_ = yaml.Unmarshal(raw, &config) // a kubelet that runs was not started with a file that is none
	}
	images, _ := flagOf(args, "image-service-endpoint")
	containers, _ := flagOf(args, "container-runtime-endpoint")
	socket := cmp.Or(images, config.ImageServiceEndpoint, containers, config.ContainerRuntimeEndpoint)
	// k3s and RKE2 have a socket of their own, and behind it a containerd, too; docker
	// stands in paths of a containerd, and not the other way.
	for _, p := range slices.Backward(profiles()) {
		if slices.ContainsFunc(p.Sockets, func(part string) bool { return strings.Contains(socket, part) }) {
			return p.Name
		}
	}
	return ""
}

// Kubelet is the kubelet's process, or that of k3s, which is one.
type Kubelet struct {
	PID int
	// Args is the command line with the program itself, with the flags that k3s
	// hands to the kubelet inside it as the kubelet's own.
	Args []string
	// Environ is the environment that the process was started with. nil = it could
	// not be read.
	Environ map[string]string
	// SameFiles says that it was seen to share the mount namespace of this process.
	SameFiles bool
	// Rivals names the other kubelets, which were started in another way; nil = none.
	Rivals []string
}

// rancherProviders is where k3s and RKE2 look for credential providers unless
// told otherwise; they use it only if it is there.
const rancherProviders = "/var/lib/rancher/credentialprovider"

// FindKubelet looks for the kubelet as [Find] looks for a runtime. It reports
// false if there is none, or if its command line cannot be seen.
func FindKubelet(tree fs.FS) (Kubelet, bool) {
	found := processes(tree, isPuller)
	names := []string{kubeletName}
	for _, p := range profiles() {
		if p.Kubelet {
			names = append(names, p.Processes...)
		}
	}
	for _, name := range names {
		var best Kubelet
		for _, p := range found {
			if p.name != name || p.args == nil {
				continue
			}
			k := Kubelet{PID: p.pid, Args: p.args, Environ: p.environ}
			if name != kubeletName {
				k.Args = innerArgs(tree, p.args)
			}
			switch own := namespace(tree, "self", "mnt"); {
			case best.PID == 0:
				k.SameFiles = own != "" && own == namespace(tree, strconv.Itoa(p.pid), "mnt")
				best = k
			case !slices.Equal(k.Args, best.Args) || k.Environ["HOME"] != best.Environ["HOME"]:
				best.Rivals = append(best.Rivals, fmt.Sprintf("%s (pid %d)", name, p.pid))
			}
		}
		if best.PID != 0 {
			return best, true
		}
	}
	return Kubelet{}, false
}

// innerArgs is the command line of the kubelet inside k3s.
func innerArgs(tree fs.FS, args []string) []string {
	out := args[:1:1]
	if _, err := fs.Stat(tree, rancherProviders[1:]+"/config.yaml"); err == nil {
		out = append(out, "--image-credential-provider-config="+rancherProviders+"/config.yaml", "--image-credential-provider-bin-dir="+rancherProviders+"/bin")
	}
	out = append(out, args[1:]...)
	for i, arg := range args {
		value, ok := strings.CutPrefix(arg, "--kubelet-arg=")
		if !ok && arg == "--kubelet-arg" && i+1 < len(args) {
			value, ok = args[i+1], true
		}
		if ok {
			out = append(out, "--"+value)
		}
	}
	return out
}
