package judge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// addressesAreAlternatives sums up what the addresses of an endpoint came to: one
// that passes turns the failures of the others into warnings.
func addressesAreAlternatives(r *run) {
	for e, sum := range r.steps() {
		if !sum.Sum {
			continue
		}
		var each []*pull.Step
		for i := range e.Steps {
			if st := &e.Steps[i]; st.ID == sum.ID && st.Addr.IsValid() {
				each = append(each, st)
			}
		}
		slices.SortStableFunc(each, func(a, b *pull.Step) int { return cmp.Compare(a.Index, b.Index) })
		r.sum(e, sum, each)
	}
}

func (r *run) sum(e *pull.Endpoint, s *pull.Step, each []*pull.Step) {
	var passed, tried, failed, open, skipped int
	blockedBy, reason := "", ""
	for _, st := range each {
		if st.Status == pull.StatusBlocked {
			blockedBy = cmp.Or(blockedBy, st.BlockedBy)
			continue
		}
		tried++
		s.ElapsedMS = max(s.ElapsedMS, st.ElapsedMS)
		switch {
		case st.Status == pull.StatusSkipped:
			passed, skipped = passed+1, skipped+1
		case pull.Passes(st.Status):
			passed++
		case st.Status == pull.StatusFailed:
			failed++
		default:
			open, reason = open+1, st.Reason
		}
		s.Findings = append(s.Findings, st.Findings...)
	}
	switch {
	case passed == 0 && failed > 0:
		s.Status = pull.StatusFailed
	case passed == 0 && open > 0:
		s.Status, s.Reason = pull.StatusInconclusive, reason
	case passed == 0:
		s.Status, s.BlockedBy = pull.StatusBlocked, blockedBy
	case passed < tried:
		s.Status = pull.StatusInconclusive
		if failed > 0 {
			s.Status = pull.StatusFailed
		}
		r.alternatives(e, s, fmt.Sprintf("%d of %d addresses held", passed, tried))
	case pull.HasSeverity(s.Findings, classify.SeverityWarn):
		s.Status = pull.StatusDegraded
	case skipped == len(each):
		s.Status, s.Reason = pull.StatusSkipped, each[0].Reason
	default:
		s.Status = pull.StatusOK
	}
	s.Findings = Distinct(s.Findings)
}

// alternatives makes warnings of the failures of addresses that another makes up
// for. A node without IPv6 that reaches the registry over IPv4 lacks nothing: that is
// only a note.
func (r *run) alternatives(e *pull.Endpoint, s *pull.Step, why string) {
	if s.ID == pull.StepTLS && s.Status == pull.StatusFailed {
		// An address that connects is the one that a runtime goes on with: that
		// another would be trusted does not help it.
		s.Reason = "it depends on which of the addresses is taken"
		r.lower(e, s, classify.SeverityWarn, why)
		r.become(e, s, pull.StatusInconclusive, why+", and "+s.Reason)
		return
	}
	to := pull.StatusOK
	for i, f := range s.Findings {
		severity := classify.SeverityWarn
		if f.Cause == classify.RouteIPv6Unreachable {
			severity = classify.SeverityInfo
		}
		s.Findings[i] = r.lowered([]classify.Finding{f}, severity, " in "+nameOf(e, s), why)[0]
	}
	if pull.HasSeverity(s.Findings, classify.SeverityWarn) {
		to = pull.StatusDegraded
	}
	r.become(e, s, to, why)
}

// plainHTTPRegistry skips what was tried over https where plain http is spoken: the
// runtime tries both at such a registry.
func plainHTTPRegistry(r *run) {
	const why = "plain http is spoken here"
	for e, st := range r.steps() {
		if e.BeforePlain && slices.ContainsFunc(st.Findings, isPlain) {
			r.become(e, st, pull.StatusSkipped, why)
			st.Reason, st.Findings = why, nil
		}
	}
}

func isPlain(f classify.Finding) bool {
	return f.Cause == classify.TLSHTTPResponseToHTTPSClient || f.Cause == classify.TLSNotTLS
}

// SpeaksPlainHTTP reports whether no TLS is spoken at an endpoint.
func SpeaksPlainHTTP(e pull.Endpoint) bool {
	return slices.ContainsFunc(e.Steps, func(st pull.Step) bool { return slices.ContainsFunc(st.Findings, isPlain) })
}

// Distinct drops findings that say the same in the same words: of one place, or of
// the node, which each host of the pull meets again.
func Distinct(findings []classify.Finding) []classify.Finding {
	var out []classify.Finding
	for _, f := range findings {
		same := func(g classify.Finding) bool { return f.Cause == g.Cause && f.Summary == g.Summary }
		if !slices.ContainsFunc(out, same) {
			out = append(out, f)
		}
	}
	return out
}
