package tlsauth

import (
	"strings"
)

// ForRuntime returns the offer as a runtime sends it: kinds of credentials that
// it ignores are taken out and named in Info.Ignored. runtime is the name of the
// process ("containerd", "k3s", "rke2", "crio", "dockerd"); any other name, and
// "", changes nothing.
//
//	                   containerd        CRI-O     cri-dockerd
//	user and password  sent              sent      sent
//	identity token     refresh by POST   ignored   refresh by POST
//	registry token     ignored           ignored   sent
func (o Offer) ForRuntime(runtime string) Offer {
	identity, registry := true, true
	switch runtime {
	case "containerd", "k3s", "k3s-server", "k3s-agent", "rke2":
		registry = false
	case "crio":
		identity, registry = false, false
	default:
		return o
	}
	if o.Secret.IdentityToken != "" && !identity {
		o.Secret.IdentityToken = ""
		o.Info.Ignored = append(o.Info.Ignored[:len(o.Info.Ignored):len(o.Info.Ignored)], "identity token")
	}
	if o.Secret.RegistryToken != "" && !registry {
		o.Secret.RegistryToken = ""
		o.Info.Ignored = append(o.Info.Ignored[:len(o.Info.Ignored):len(o.Info.Ignored)], "registry token")
	}
	return o
}

// SentTo tells whether a runtime sends a credential that the kubelet chose for
// the registry imageHost also to host, a mirror of it, and by which rule. Both
// are host[:port]. The kubelet chooses by the image's host alone, whatever the
// mirror is called.
//
// containerd offers it to whatever host it talks to, because the kubelet names
// no server in it. CRI-O's library gives a mirror only what is meant for its own
// host. Docker's mirrors are for Docker Hub alone and get none.
func SentTo(runtime, imageHost, host string) (sent bool, rule string) {
	if strings.EqualFold(imageHost, host) {
		return true, "the image's own registry"
	}
	switch runtime {
	case "containerd", "k3s", "k3s-server", "k3s-agent", "rke2":
		return true, "containerd offers the credential of the image's host to every mirror"
	case "crio":
		return false, "CRI-O does not offer the credential of the image's host to a mirror on another host"
	case "dockerd":
		return false, "Docker offers no credential to its mirrors"
	}
	return false, "not known for this runtime"
}
