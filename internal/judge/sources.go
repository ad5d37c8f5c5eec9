package judge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// decides reports whether a step counts for its endpoint: those of single addresses
// are summed up, and rates only warn.
func decides(e *pull.Endpoint, st *pull.Step) bool {
	if st.ID == pull.StepRounds {
		return st.Status == pull.StatusDegraded
	}
	return !st.Addr.IsValid() || e.Scheme == pull.SchemeDNS
}

// Serves reports whether a runtime gets the pull from a source, by what was seen so
// far: one that it passes over serves nothing, and of the caller's own checks it
// knows nothing.
func Serves(s pull.Source) bool { return serves(new(SourceSoFar(s))) }

func serves(s *pull.Source) bool {
	v, _ := outcome(s, func(st *pull.Step) bool { return !pull.IsOwn(st.ID) })
	return v == pull.StatusOK || v == pull.StatusDegraded
}

// untried reports whether the pull never came to a source.
func untried(s *pull.Source) bool {
	if s.Skipped != "" || s.Finished {
		return false
	}
	for e, st := range stepsOf(s) {
		if !e.Expected && st.ID != pull.StepSettings {
			return false
		}
	}
	return true
}

// outcome is the outcome of a source by some of its steps, and why it is
// inconclusive or skipped.
func outcome(s *pull.Source, wanted func(*pull.Step) bool) (pull.Status, string) {
	var failed, degraded bool
	unknown, blocked := "", ""
	for e, st := range stepsOf(s) {
		switch {
		case !decides(e, st) || !wanted(st) || e.Expected && unneeded(s, e):
		case e.Expected:
			degraded = degraded || pull.HasSeverity(st.Findings, classify.SeverityWarn)
		case st.Status == pull.StatusFailed:
			failed = true
		case st.Status == pull.StatusDegraded:
			degraded = true
		case st.Status == pull.StatusInconclusive:
			unknown = cmp.Or(unknown, nameOf(e, st)+": "+st.Reason)
		case st.Status == pull.StatusBlocked && !pull.IsOwn(st.ID):
			blocked = cmp.Or(blocked, nameOf(e, st)+" was not tried")
		}
	}
	switch {
	case s.Doubt != "":
		return pull.StatusInconclusive, s.Doubt
	case failed:
		return pull.StatusFailed, ""
	case s.Skipped != "":
		return pull.StatusSkipped, s.Skipped
	case s.Overflow > 0:
		return pull.StatusInconclusive, fmt.Sprintf("the pull names more than %d hosts", s.Overflow)
	case unknown != "":
		return pull.StatusInconclusive, unknown
	case !s.Finished:
		return pull.StatusInconclusive, "the walk did not come to its end"
	case blocked != "": // by nothing that failed here: it was not seen to hold all the same
		return pull.StatusInconclusive, blocked
	case degraded:
		return pull.StatusDegraded, ""
	}
	return pull.StatusOK, ""
}

// FirstFailure names what stopped the walk, by what was seen so far: the first
// request that failed or is inconclusive, else the first step on the way to one.
// Which of the two ended first says nothing: steps of other addresses may end later.
func FirstFailure(s pull.Source) string {
	s = SourceSoFar(s)
	request, way := "", ""
	for e, st := range stepsOf(&s) {
		bad := st.Status == pull.StatusFailed || st.Status == pull.StatusInconclusive
		switch {
		case !bad || st.Addr.IsValid() || e.Expected || pull.IsOwn(st.ID) || st.ID == pull.StepRounds:
		case pull.Place(st.ID) > pull.Place(pull.StepTLS):
			request = cmp.Or(request, nameOf(e, st))
		default:
			way = cmp.Or(way, nameOf(e, st))
		}
	}
	return cmp.Or(request, way)
}

// found are the findings of the steps that decide, in the order of the walk: a token
// comes before the request that carries it, wherever each is.
func found(s *pull.Source) (failures, warnings, notes []classify.Finding) {
	var steps []*pull.Step
	for e, st := range stepsOf(s) {
		if decides(e, st) {
			steps = append(steps, st)
		}
	}
	slices.SortStableFunc(steps, func(a, b *pull.Step) int { return cmp.Compare(pull.Place(a.ID), pull.Place(b.ID)) })
	for _, st := range steps {
		for _, f := range st.Findings {
			switch f.Severity {
			case classify.SeverityFail:
				failures = append(failures, f)
			case classify.SeverityWarn:
				warnings = append(warnings, f)
			default:
				notes = append(notes, f)
			}
		}
	}
	if s.Overflow > 0 {
		f := classify.New(classify.EndpointTooManyHosts, fmt.Sprintf("The pull names more than %d hosts; the rest was not looked at.", s.Overflow))
		f.Severity = classify.SeverityWarn
		warnings = append(warnings, f)
	}
	return failures, warnings, notes
}
