package noderuntime

import (
	"io/fs"
	"strings"

	"sigs.k8s.io/yaml"
)

// kubeletConfig is where kubeadm, AKS and most distributions keep the kubelet's
// configuration (KubeletConfiguration, kubelet.config.k8s.io/v1beta1).
const kubeletConfig = "var/lib/kubelet/config.yaml"

// maxKubeletConfig bounds that file.
const maxKubeletConfig = 1 << 20

// askedByKubelet returns the name of the runtime that the kubelet of tree asks for
// images, "" if its configuration does not say. Several runtimes may run on one
// node; the pull is made by the one whose socket the kubelet uses, and
// imageServiceEndpoint wins over containerRuntimeEndpoint for images.
func askedByKubelet(tree fs.FS) string {
	raw, err := readSmall(tree, kubeletConfig, maxKubeletConfig)
	if err != nil {
		return ""
	}
	var config struct {
		ContainerRuntimeEndpoint string `json:"containerRuntimeEndpoint"`
		ImageServiceEndpoint     string `json:"imageServiceEndpoint"`
	}
	if yaml.Unmarshal(raw, &config) != nil {
		return ""
	}
	socket := config.ImageServiceEndpoint
	if socket == "" {
		socket = config.ContainerRuntimeEndpoint
	}
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
