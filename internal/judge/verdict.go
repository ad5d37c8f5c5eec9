package judge

import (
	"cmp"
	"slices"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

const unsure = "it is not known whether the runtime's configuration is in force, and without it the pull fails"

// verdict says what the judged steps amount to.
func (r *run) verdict(log pull.Log) Result {
	served := slices.IndexFunc(r.sources, func(s pull.Source) bool { return serves(&s) })
	out := Result{Verdict: pull.StatusInconclusive, Served: served, Sources: r.judged(served)}
	open := r.open(log, out.Sources, served)
	failures, warnings, notes := r.findings(served, open)
	out.Findings = slices.Concat(failures, warnings, notes)
	switch {
	case served >= 0 && log.Unsure && open != "":
		out.Inconclusive = open
	case served >= 0:
		out.Settled = true
		out.Verdict, out.Inconclusive = out.Sources[served].Verdict, out.Sources[served].Reason // failed or open only by the caller's checks
		if out.Verdict == pull.StatusFailed {
			r.choose(&out)
		} else if pull.Passes(out.Verdict) {
			r.mindTheRest(&out, len(warnings) > 0)
		}
	case open == "" && len(failures) > 0:
		out.Verdict = pull.StatusFailed
		r.otherReadings(&out)
		r.choose(&out)
	default:
		out.Inconclusive = open
	}
	if out.Verdict == pull.StatusInconclusive {
		out.Inconclusive = cmp.Or(log.Ended, out.Inconclusive)
	}
	out.Decisions = r.decisions
	return out
}

// judged are the sources with their own verdicts.
func (r *run) judged(served int) []Source {
	out := make([]Source, len(r.sources))
	for i := range r.sources {
		s := &r.sources[i]
		out[i].Source = *s
		out[i].Verdict, out[i].Reason = outcome(s, func(*pull.Step) bool { return true })
		if untried(s) && served >= 0 {
			out[i].Verdict, out[i].Reason = pull.StatusSkipped, "an earlier source serves the pull"
		}
	}
	return out
}

// open is why it is not known what the runtime would get; "" = it is.
func (r *run) open(log pull.Log, judged []Source, served int) string {
	for i := range r.sources {
		s, v := &r.sources[i], judged[i].Verdict
		if untried(s) || v == pull.StatusSkipped || serves(s) {
			continue
		}
		if v == pull.StatusInconclusive || served >= 0 && log.Unsure {
			return cmp.Or(judged[i].Reason, unsure)
		}
	}
	return ""
}

// findings are those of all sources. What failed at a source that the pull does
// without, or that is not known to decide, is a warning.
func (r *run) findings(served int, open string) (failures, warnings, notes []classify.Finding) {
	for i := range r.sources {
		fails, warns, infos := found(&r.sources[i])
		why := ""
		switch {
		case served >= 0 && i != served:
			r.rule, why = "another-source-serves", r.sources[served].Host+" serves the pull"
		case served < 0 && open != "":
			r.rule, why = "open-pull-blames-nobody", open
		}
		if why != "" {
			fails, warns = nil, append(r.lowered(fails, classify.SeverityWarn, " of "+r.sources[i].Host, why), warns...)
		}
		failures, warnings, notes = append(failures, fails...), append(warnings, warns...), append(notes, infos...)
	}
	failures, warnings = byLayer(Distinct(failures)), byLayer(Distinct(warnings))
	// What failed needs no warning of the same beside it, from a ping or another way.
	warnings = slices.DeleteFunc(warnings, func(w classify.Finding) bool {
		return slices.ContainsFunc(failures, func(f classify.Finding) bool { return f.Cause == w.Cause && f.Endpoint == w.Endpoint })
	})
	return failures, warnings, byLayer(Distinct(notes))
}

// byLayer sorts the lowest layer first and keeps the order of the walk within one: a
// failure of a lower layer explains those above it.
func byLayer(findings []classify.Finding) []classify.Finding {
	slices.SortStableFunc(findings, func(a, b classify.Finding) int { return cmp.Compare(a.Layer.Rank(), b.Layer.Rank()) })
	return findings
}

// choose takes the first failure of the lowest layer for the root cause.
func (r *run) choose(out *Result) {
	r.rule = "lowest-layer-first"
	out.Primary = &out.Findings[0]
	r.decide("root cause", "", describe(*out.Primary), "nothing failed on a layer below "+string(out.Primary.Layer))
}

func describe(f classify.Finding) string {
	if f.Endpoint == "" {
		return string(f.Cause)
	}
	return string(f.Cause) + " at " + f.Endpoint
}

// mindTheRest degrades a pull that is served where something else is wrong.
func (r *run) mindTheRest(out *Result, warned bool) {
	r.rule = "served-with-warnings"
	missed := slices.ContainsFunc(r.sources, func(s pull.Source) bool { return !untried(&s) && s.Skipped == "" && !serves(&s) })
	why := "there are warnings"
	switch {
	case missed:
		why = "another source that was asked does not serve the pull"
	case !warned:
		return
	}
	if out.Verdict != pull.StatusDegraded {
		r.decide("verdict", string(out.Verdict), string(pull.StatusDegraded), why)
		out.Verdict = pull.StatusDegraded
	}
}

// otherReadings adds to the root cause what the same host makes likely as well.
func (r *run) otherReadings(out *Result) {
	first := out.Findings[0]
	switch first.Layer {
	case classify.LayerRoute, classify.LayerEndpoint, classify.LayerTLS:
		// The address that fails may be doubtful in itself.
		r.rule = "the-name-may-lead-astray"
		r.suspect(out, pull.StepDNS, classify.DNSHostsOverride, classify.DNSPublicAnswer, classify.DNSSearchCapture, classify.DNSBogusAddress, classify.DNSStaleRecord)
	}
	switch first.Cause {
	case classify.EndpointResponseHeaderTimeout, classify.EndpointReadTimeout, classify.EndpointDownloadStalled:
		// The handshake with the host was seen to depend on the size of packets: a
		// request with a long token, or its answer, may be the first that is as large
		// again.
		r.rule = "large-packets-may-vanish"
		r.suspect(out, pull.StepTLS, classify.RouteMTUBlackHole, classify.RouteLargeHelloDropped)
	}
}

// suspect adds those of the causes that a step of the same host found.
func (r *run) suspect(out *Result, id pull.StepID, causes ...classify.Cause) {
	first := &out.Findings[0]
	for e, st := range r.steps() {
		if e.HostPort() != first.Endpoint || st.ID != id {
			continue
		}
		for _, f := range st.Findings {
			if slices.Contains(causes, f.Cause) && addReading(first, f.Cause) {
				r.decide("root cause", string(first.Cause), "or "+string(f.Cause), f.Summary)
			}
		}
	}
}
