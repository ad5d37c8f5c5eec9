package pullwalk

import (
	"strings"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

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
