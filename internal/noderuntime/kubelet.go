package noderuntime

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

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
	// k3s and RKE2 have a socket of their own, and behind it a containerd, too.
	for _, r := range []struct{ part, name string }{
		{"crio", "crio"}, {"dockerd", "dockerd"}, {"docker", "dockerd"}, {"containerd", "containerd"},
	} {
		if strings.Contains(socket, r.part) {
			return r.name
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
	found := processes(tree)
	for _, name := range []string{kubeletName, "k3s-server", "k3s-agent"} {
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
