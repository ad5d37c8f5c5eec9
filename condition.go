package pullwalk

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// Bounds of a condition. Kubernetes takes reasons of up to 1,024 bytes; nobody
// reads as much.
const (
	maxReason  = 128
	maxMessage = 512
)

// Condition returns the result as reason and message of a Kubernetes condition.
// The condition's status is the caller's to choose from the verdict.
//
// The reason is the code of the root cause in camel case, RouteConnectTimeout for
// route.connect-timeout, or that of the first warning of a degraded result. Without
// either it is ImageDownloaded (with a [Proof]), RegistryAnswers (after [Connect]),
// EveryHopHeld, or Inconclusive. The message is one line of at most 512 bytes: the
// owner, what was seen, and where to look.
func (r *Result) Condition() (reason, message string) {
	switch r.Verdict {
	case StatusFailed:
		if r.Primary == nil { // not from Diagnose
			return "Failed", "the pull fails; the result names no cause"
		}
		return camelCase(r.Primary.Cause), conditionMessage("", *r.Primary)
	case StatusOK, StatusDegraded:
		isWarning := func(f classify.Finding) bool { return f.Severity == classify.SeverityWarn }
		if i := slices.IndexFunc(r.Findings, isWarning); i >= 0 && r.Verdict == StatusDegraded {
			return camelCase(r.Findings[i].Cause), conditionMessage("it works, with a warning: ", r.Findings[i])
		}
		switch {
		case r.Proof != nil:
			reason = "ImageDownloaded"
		case r.Pull == Connect:
			reason = "RegistryAnswers"
		default:
			reason = "EveryHopHeld"
		}
		return reason, classify.Redact(r.headline(), maxMessage)
	}
	return "Inconclusive", classify.Redact("not known: "+r.Inconclusive, maxMessage)
}

func conditionMessage(prefix string, f classify.Finding) string {
	message := prefix
	if f.Owner != "" {
		message += "owner " + classify.Redact(string(f.Owner), 32) + ": "
	}
	message += classify.Redact(f.Error(), maxMessage/2) // leaves room for where to look
	if info, ok := classify.Lookup(f.Cause); ok {
		message += " Look: " + info.Look
	}
	return classify.Redact(message, maxMessage)
}

// camelCase makes a reason of a code. What no reason may hold is left out: a
// caller's own code, or one from elsewhere, may hold anything.
func camelCase(code classify.Cause) string {
	var b strings.Builder
	up := true
	for _, c := range string(code) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		digit := '0' <= c && c <= '9'
		switch {
		case b.Len() == maxReason:
			return b.String()
		case letter && up:
			b.WriteString(strings.ToUpper(string(c)))
		case letter, digit && b.Len() > 0: // a reason begins with a letter
			b.WriteRune(c)
		}
		up = !letter && !digit
	}
	if b.Len() == 0 {
		return "Failed"
	}
	return b.String()
}

// Fingerprint returns 32 hexadecimal digits that change when something changed
// that is worth telling: a controller that looks again every minute updates its
// condition only then. A Result that was stored as JSON keeps its fingerprint.
// Compare only those that one version of this module made.
//
// In it are the image, its platform and digest, how much of the pull was asked
// for, the verdict, whether a [Proof] is there and what makes it worthless, the
// verdict of each source and of the sandbox image, severity, cause and endpoint of every finding, and what
// did not hold: each endpoint-wide step that is degraded, failed, blocked or
// inconclusive.
//
// Not in it are times, rates and bytes; who looked (two nodes that share a cause
// share the fingerprint, so keep it per node); the words of summaries and
// reasons; and what rotates while nothing is wrong: steps that held or were
// skipped, whatever host they were at, and single addresses. One dead address of
// two still counts, because the endpoint-wide step is then degraded; which of the
// two it is does not. A nameserver is named by its address and is no such address.
func (r *Result) Fingerprint() string {
	var lines []string
	// Quoted, so that no text can pass for another line.
	add := func(parts ...string) { lines = append(lines, fmt.Sprintf("%q", parts)) }
	add("image", r.Image.Reference, r.Image.Platform, r.Image.Digest, string(r.Pull), string(r.Verdict))
	if p := r.Primary; p != nil {
		add("primary", string(p.Cause), p.Endpoint)
	}
	for _, f := range r.Findings {
		add("finding", string(f.Severity), string(f.Cause), f.Endpoint)
	}
	if p := r.Proof; p != nil {
		add(append([]string{"proof", p.Digest}, p.HandEdits...)...)
	}
	if s := r.Sandbox; s != nil {
		add("sandbox", s.Image, string(s.Verdict))
	}
	for _, s := range r.Sources {
		add("source", s.Kind, s.Host, string(s.Verdict))
		for _, e := range s.Endpoints {
			for _, st := range e.Steps {
				one := st.Addr.IsValid() && e.Scheme != pull.SchemeDNS
				if !one && st.Status != StatusOK && st.Status != StatusSkipped {
					add("step", s.Host, e.Scheme, e.HostPort(), string(st.ID), string(st.Status))
				}
			}
		}
	}
	// Requests run side by side: their order says nothing, nor how many layers met
	// the same obstacle at one host.
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(lines), "\n")))
	return hex.EncodeToString(sum[:16]) // short enough for the value of a label
}

// DiagnosisError is a Result that is not good, as an error.
type DiagnosisError struct {
	Verdict  Status
	Primary  *classify.Finding // nil if inconclusive
	Findings []classify.Finding
	report   string
}

// Error returns the whole text report: in a test the message is all one sees.
func (e *DiagnosisError) Error() string { return e.report }

// Unwrap returns the findings, root causes first; the Go error behind each is
// found by errors.As.
func (e *DiagnosisError) Unwrap() []error {
	out := make([]error, len(e.Findings))
	for i, f := range e.Findings {
		out[i] = f
	}
	return out
}

// Err returns nil if the verdict is ok or degraded, else a [*DiagnosisError].
func (r *Result) Err() error {
	if pull.Passes(r.Verdict) && r.Verdict != StatusSkipped {
		return nil
	}
	return &DiagnosisError{Verdict: r.Verdict, Primary: r.Primary, Findings: r.Findings, report: strings.TrimSpace(r.String())}
}
