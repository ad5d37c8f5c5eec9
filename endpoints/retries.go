package endpoints

import (
	"net/http"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// Retry is what a runtime repeats.
type Retry = registry.Retry

// Retries returns what the runtime does after this report, at the last of its
// sources; the zero Retry where it asks once. The rules are those of containerd
// 2.x (core/remotes/docker/resolver.go), of containers/image (docker_client.go)
// and of the docker engine's distribution package; older releases do less.
func (w Way) Retries(r *RequestReport) Retry {
	if r == nil || r.Outcome != OutcomeFailed {
		return Retry{}
	}
	blob := r.Role == RoleBlob
	switch w {
	case WayCRIO:
		if r.Status == http.StatusTooManyRequests {
			wait := 2 * time.Second
			var total time.Duration
			for range 4 {
				total += wait
				wait = min(2*wait, time.Minute)
			}
			return retry(5, total, "CRI-O asks up to 5 times, with pauses from 2 s that double, or as long as Retry-After says")
		}
	case WayDocker:
		if blob {
			return retry(5, 50*time.Second, "docker asks 5 times for a blob, with pauses of 5, 10, 15 and 20 s")
		}
	default:
		switch r.Status {
		case http.StatusRequestTimeout, http.StatusTooManyRequests:
			return retry(6, 0, "containerd asks up to 6 times at once, without a pause and whatever Retry-After says")
		case http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return since(retry(2, 0, "containerd since 2.1 asks once more"), "2.1.0")
		case 0:
			if !slices.ContainsFunc(r.Found, func(f classify.Finding) bool { return slices.Contains(brokenOff, f.Cause) }) {
				return Retry{}
			}
			return since(retry(5, 200*time.Millisecond, "containerd since 2.3.2 asks up to 5 times, 50 ms apart, after a timeout or a connection that ended"), "2.3.2")
		}
	}
	return Retry{}
}

// brokenOff are timeouts and connections that ended, of what can happen to a
// request that gets no answer.
var brokenOff = []classify.Cause{
	classify.RouteConnectTimeout, classify.EndpointTLSHandshakeTimeout, classify.EndpointResponseHeaderTimeout, classify.EndpointReadTimeout,
	classify.EndpointConnectionClosedEOF, classify.EndpointConnectionReset,
}

func since(r Retry, release string) Retry {
	r.Since = release
	return r
}

func retry(n int, wait time.Duration, what string) Retry {
	return Retry{Requests: n, WaitMS: wait.Milliseconds(), What: what}
}
