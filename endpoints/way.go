package endpoints

import (
	"net/http"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/internal/wire"
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

// Token is how a token is asked for with a password, a value for the Way field
// of a token request.
func (w Way) Token() string {
	if w.Pings() {
		return wire.WayGet
	}
	return wire.WayPostGet
}

// Parallel is how many blobs are fetched at once by default.
func (w Way) Parallel() int {
	if w == WayCRIO {
		return 6
	}
	return 3
}

// name is how a sentence calls the runtime.
func (w Way) name() string {
	switch w {
	case WayCRIO:
		return "CRI-O"
	case WayDocker:
		return "the docker engine"
	}
	return "containerd"
}

// runtimeDial is the connect limit of all runtimes, unless configured.
const runtimeDial = 30 * time.Second

// Delay is how long a pull of an image with so many layers waits for a source
// that answers nothing, before it comes to the next one: a dead mirror costs time
// and no error. Containerd tries a source anew for every request that it makes,
// CRI-O and docker once for the pull (core/remotes/docker/fetcher.go;
// containers/image, docker_image_src.go). It is the least that is to be
// expected: each further address of the host costs the same once more. A source
// that refuses costs nothing worth mentioning.
func (w Way) Delay(s Source, layers int) time.Duration {
	dial := time.Duration(s.DialTimeoutMS) * time.Millisecond
	if dial <= 0 {
		dial = runtimeDial
	}
	if w.Pings() {
		return dial
	}
	// Resolve, index, manifest of the platform, config, and the layers in rounds.
	rounds := 1 + 3 + (max(layers, 0)+w.Parallel()-1)/w.Parallel()
	return time.Duration(rounds) * dial
}
