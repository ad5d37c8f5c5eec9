package registry

import (
	"go/version"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Retry is what a runtime does by itself after a request that failed, before the
// failure shows. A walk here repeats nothing: this says how the pull differs.
type Retry struct {
	// Requests is how many requests there are in all at most, the first included.
	Requests int `json:"requests"`
	// WaitMS is how long the runtime waits between them, all pauses together, in
	// milliseconds; 0 = it asks again at once.
	WaitMS int64  `json:"waitMs"`
	What   string `json:"what"` // in a sentence
	// Since is the release of the runtime that began with it, "2.1.0"; "" = older
	// than any that is met.
	Since string `json:"since,omitempty"`
}

// Retries returns what the runtime does after this report, at the last of its
// sources; the zero Retry where it asks once. The rules are those of containerd
// 2.x (core/remotes/docker/resolver.go), of containers/image (docker_client.go)
// and of the docker engine's distribution package; older releases do less.
func (w Way) Retries(r *Report) Retry {
	if r == nil || r.Outcome != OutcomeFailed {
		return Retry{}
	}
	blob := r.asked.kind == askBlob
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
			return retry(2, 0, "containerd since 2.1 asks once more").since("2.1.0")
		case 0:
			if !slices.ContainsFunc(r.Found, func(f classify.Finding) bool { return slices.Contains(brokenOff, f.Cause) }) {
				return Retry{}
			}
			return retry(5, 200*time.Millisecond, "containerd since 2.3.2 asks up to 5 times, 50 ms apart, after a timeout or a connection that ended").since("2.3.2")
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

// Done says whether a runtime of this release does it. An unknown one, "" or not of
// the form 2.1.4, does: what it would do is told with its release.
func (r Retry) Done(release string) bool {
	number := strings.TrimPrefix(release, "v")
	if i := strings.IndexFunc(number, func(c rune) bool { return c != '.' && (c < '0' || c > '9') }); i >= 0 {
		number = number[:i] // "1.6.20~ds1", as distributions write it
	}
	have, since := "go"+number, "go"+r.Since // releases of Go are compared part by part, too
	return r.Since == "" || !version.IsValid(have) || version.Compare(have, since) >= 0
}

func (r Retry) since(release string) Retry {
	r.Since = release
	return r
}

func retry(n int, wait time.Duration, what string) Retry {
	return Retry{Requests: n, WaitMS: wait.Milliseconds(), What: what}
}
