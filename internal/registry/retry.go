package registry

import (
	"go/version"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Retry is what a runtime does by itself after a request that failed, before the failure
// shows. A walk here repeats nothing: this says how the pull differs.
type Retry struct {
	// Requests is how many requests there are in all at most, the first included.
	Requests int `json:"requests"`
	// WaitMS is how long the runtime waits between them, all pauses together, in
	// milliseconds; 0 = it asks again at once.
	WaitMS int64  `json:"waitMs"`
	What   string `json:"what"` // in a sentence
	// Since is the release of the runtime that began with it, "2.1.0"; "" = older than any
	// that is met.
	Since string `json:"since,omitempty"`
}

// RetryRule is a failure after which a runtime asks again.
type RetryRule struct {
	Blobs    bool  // only where a blob was asked for
	Statuses []int // of the answer; nil = any failure
	Broken   bool  // no answer, after a timeout or a connection that ended
	Retry    Retry
}

// Retry returns what the runtime does after this report, at the last of its sources; the
// zero Retry where it asks once.
func (c Client) Retry(r *Report) Retry {
	if r == nil || r.Outcome != OutcomeFailed {
		return Retry{}
	}
	for _, rule := range c.Retries {
		switch {
		case rule.Blobs && r.spec.kind != kindBlob:
		case rule.Statuses != nil && !slices.Contains(rule.Statuses, r.Status):
		case rule.Broken && (r.Status != 0 || !slices.ContainsFunc(r.Found, func(f classify.Finding) bool { return slices.Contains(brokenOff, f.Cause) })):
		default:
			return rule.Retry
		}
	}
	return Retry{}
}

// brokenOff are timeouts and connections that ended, of what can happen to a request that
// gets no answer.
var brokenOff = []classify.Cause{
	classify.RouteConnectTimeout, classify.EndpointTLSHandshakeTimeout, classify.EndpointResponseHeaderTimeout, classify.EndpointReadTimeout,
	classify.EndpointConnectionClosedEOF, classify.EndpointConnectionReset,
}

// Done reports whether a runtime of this release does it. An unknown one, "" or not of the
// form 2.1.4, does: what it would do is told with its release.
func (r Retry) Done(release string) bool {
	number := strings.TrimPrefix(release, "v")
	if i := strings.IndexFunc(number, func(c rune) bool { return c != '.' && (c < '0' || c > '9') }); i >= 0 {
		number = number[:i] // "1.6.20~ds1", as distributions write it
	}
	have, since := "go"+number, "go"+r.Since // releases of Go are compared part by part, too
	return r.Since == "" || !version.IsValid(have) || version.Compare(have, since) >= 0
}
