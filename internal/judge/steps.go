package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// stalledShare of a limit is what this process may have lost before that the limit
// passed says nothing.
const stalledShare = 5

// machineStalled takes back a failure that hangs on a limit which passed while this
// process did not run.
func machineStalled(r *run) {
	for e, st := range r.steps() {
		if longest := longestWait(st.Findings); longest > 0 && st.Stalled > longest/stalledShare {
			r.takeBack(e, st, fmt.Sprintf("this machine was too busy to judge it: for up to %v nothing ran here that was due", st.Stalled.Round(time.Millisecond)))
		}
	}
}

// limitCutByBudget takes back a failure that hangs on a limit which a small budget
// cut short: a runtime would have waited longer.
func limitCutByBudget(r *run) {
	for e, st := range r.steps() {
		if longest := longestWait(st.Findings); longest > 0 && st.Hurried {
			r.takeBack(e, st, "the budget left no more than "+longest.String()+" for this step")
		}
	}
}

// longestWait is the longest limit that made a finding; 0 = none did.
func longestWait(findings []classify.Finding) (longest time.Duration) {
	for _, f := range findings {
		if f.Severity != classify.SeverityInfo {
			longest = max(longest, pull.Waited(f))
		}
	}
	return longest
}

// takeBack leaves of a failure that hangs on a limit what may be. What else the step
// found was found without the answer that was missed.
func (r *run) takeBack(e *pull.Endpoint, st *pull.Step, why string) {
	if !pull.HasSeverity(st.Findings, classify.SeverityFail) {
		return
	}
	r.lower(e, st, classify.SeverityWarn, why)
	for i := range st.Findings {
		if pull.Waited(st.Findings[i]) > 0 {
			st.Findings[i].Certainty = classify.CertaintyPossible
		}
	}
	if st.Status == pull.StatusFailed {
		r.become(e, st, pull.StatusInconclusive, why)
		st.Reason = why
	}
}

// callersCodePanicked takes back a failure that a panic of the caller's code may
// have made.
func callersCodePanicked(r *run) {
	for e, st := range r.steps() {
		if st.Panicked != "" && st.Status == pull.StatusFailed {
			r.lower(e, st, classify.SeverityWarn, st.Panicked)
			r.become(e, st, pull.StatusInconclusive, st.Panicked)
			st.Reason = st.Panicked
		}
	}
}

// proxyMayHaveAnswered adds the other reading of an answer to a request in the
// absolute form: a proxy that is forbidden the host, or does not reach it, answers in
// its place, and few mark such an answer as theirs.
func proxyMayHaveAnswered(r *run) {
	const other = classify.EndpointProxyRefusedConnect
	for e, st := range r.steps() {
		if !e.Forwarded {
			continue
		}
		for i, f := range st.Findings {
			switch f.Fact(classify.FactStatus) {
			case "403", "502", "503", "504":
				if f.Severity == classify.SeverityFail && f.Cause != other {
					st.Findings = slices.Clone(st.Findings)
					addReading(&st.Findings[i], other)
				}
			}
		}
	}
}

// addReading adds a cause to what a finding may mean as well.
func addReading(f *classify.Finding, c classify.Cause) bool {
	if slices.Contains(f.Alternatives, c) {
		return false
	}
	f.Alternatives = append(slices.Clone(f.Alternatives), c)
	return true
}
