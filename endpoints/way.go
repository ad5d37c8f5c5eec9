package endpoints

import (
	"net/http"
	"strings"

	"github.com/pullwalk/pullwalk/internal/registry"
)

// Way is how a runtime walks a pull. The same registry can please one runtime
// and not the other, because they ask different things first.
type Way string

// The ways. The zero Way is containerd's, and claims nothing about which runtime
// there is: what only another one needs is a warning then too.
const (
	// WayContainerd never asks for /v2/ itself, resolves by HEAD, offers a
	// password by POST, and asks for everything with ns= at a mirror.
	WayContainerd Way = "containerd"
	// WayCRIO is CRI-O and podman: an anonymous GET of /v2/ first, whose challenge
	// holds for everything after it, and GET only.
	WayCRIO Way = "crio"
	// WayDocker is the docker engine with its own store: the same ping, HEAD of the
	// manifest and GET after any failure of it.
	WayDocker Way = "docker"
)

// WayOf returns the way of a runtime by the name of its process. "" means that
// none is known.
func WayOf(runtime string) Way {
	switch {
	case runtime == "crio" || runtime == "podman":
		return WayCRIO
	case runtime == "dockerd":
		return WayDocker
	case runtime == "containerd", strings.HasPrefix(runtime, "k3s"), strings.HasPrefix(runtime, "rke2"):
		return WayContainerd
	}
	return ""
}

// Pings says whether the runtime asks for /v2/ before anything else.
func (w Way) Pings() bool { return w == WayCRIO || w == WayDocker }

// Method is the method by which a tag is resolved.
func (w Way) Method() string {
	if w == WayCRIO {
		return http.MethodGet
	}
	return http.MethodHead
}

// Token is how a token is asked for with a password, a value for the Way field of a token
// request.
func (w Way) Token() string {
	if w.Pings() {
		return registry.WayGet
	}
	return registry.WayPostGet
}

// Client is how the runtime asks a registry.
func (w Way) Client() registry.Client {
	other := w.Pings()
	c := registry.Client{Name: w.Name(), Pings: other, Resolves: w.Method(), Token: w.Token(), IgnoresTargets: other, ForeignSettings: other, ResumesResets: other}
	switch w {
	case WayDocker:
		c.Returns = registry.ReturnsAPI
	case WayCRIO:
		c.Returns = registry.ReturnsNever
	}
	return c
}

// Parallel is how many blobs are fetched at once by default.
func (w Way) Parallel() int {
	if w == WayCRIO {
		return 6
	}
	return 3
}

// Name is how a sentence calls the runtime.
func (w Way) Name() string {
	switch w {
	case WayCRIO:
		return "CRI-O"
	case WayDocker:
		return "the docker engine"
	}
	return "containerd"
}
