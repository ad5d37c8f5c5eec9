package classify

import (
	"strings"
	"time"
)

// Kind says what a text is.
type Kind string

// The kinds of a [Reading].
const (
	KindFailure Kind = "failure" // the text names a failure
	KindBackoff Kind = "backoff" // the text says only that the kubelet waits, or that a pull failed and not why
	KindOK      Kind = "ok"      // the text reports a success
	KindUnknown Kind = "unknown" // not understood, and nothing guessed
)

// Reading is what a text says. It is never a verdict: a text can only suggest,
// a probe decides.
type Reading struct {
	Kind     Kind      `json:"kind"`
	Attempts []Finding `json:"attempts,omitempty"` // one per mirror or credential, in the order of the text; a pull that only began is one with SeverityInfo
	Best     Finding   `json:"best,omitzero"`      // the attempt that counts; zero unless Kind is KindFailure
	Image    string    `json:"image,omitempty"`    // the reference in the text, if any
	Cached   bool      `json:"cached,omitempty"`   // the text says that no transfer took place
	Decide   []string  `json:"decide,omitempty"`   // the probes that would settle it: "dns@auth.example.com"
}

// EventRecord is one event of a cluster, or one line of a log, see [ParseEvents].
// Message is as the cluster printed it and may hold a signed URL: it goes through
// [Redact] before anybody sees it.
type EventRecord struct {
	Time  time.Time `json:"time,omitzero"`  // last seen; zero = not printed
	First time.Time `json:"first,omitzero"` // first seen; zero = not printed
	// AgeMS and FirstAgeMS are how long ago a table says that it was seen last
	// and first, in milliseconds when it was printed; 0 = not printed.
	AgeMS      int64 `json:"ageMs,omitempty"`
	FirstAgeMS int64 `json:"firstAgeMs,omitempty"`
	// Status says that this is no event but the status of a container in a
	// pod: what holds now, where an event is history. Its Reason is the reason
	// that the container waits for, or "Running".
	Status    bool   `json:"status,omitempty"`
	Count     int    `json:"count,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Node      string `json:"node,omitempty"`
	Image     string `json:"image,omitempty"`
	ImageID   string `json:"imageID,omitempty"` // of a status: what the runtime has, perhaps from another registry
}

// boundName keeps a name of the API, which has at most 253 characters.
func boundName(s string) string { return Redact(strings.TrimSpace(s), 256) }

func boundMessage(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "\uFFFD")
}

// maxText is how much of a message is read. Kubelets cut an event at 1 KiB; log
// excerpts are longer.
const maxText = 64 << 10

const (
	maxEventsInput  = 64 << 20
	maxEventRecords = 10_000
)
