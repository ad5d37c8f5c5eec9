package pullwalk

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/endpoints"
)

// distinct drops findings that say the same in the same words: of one place, or
// of the node, which each host of the pull meets again.
func distinct(findings []classify.Finding) []classify.Finding {
	var out []classify.Finding
	for _, f := range findings {
		same := func(g classify.Finding) bool {
			return f.Cause == g.Cause && f.Summary == g.Summary
		}
		if !slices.ContainsFunc(out, same) {
			out = append(out, f)
		}
	}
	return out
}

// byLayer sorts the lowest layer first and keeps the order of the walk within
// one: a failure of a lower layer explains those above it.
func byLayer(findings []classify.Finding) []classify.Finding {
	slices.SortStableFunc(findings, func(a, b classify.Finding) int { return cmp.Compare(a.Layer.Rank(), b.Layer.Rank()) })
	return findings
}

// sorted returns the steps of e in the order of the ladder, whatever the order
// in which they ended.
func (e *endpoint) sorted() []step {
	e.mu.Lock()
	defer e.mu.Unlock()
	steps := slices.Clone(e.steps)
	slices.SortStableFunc(steps, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.rung, b.rung), cmp.Compare(a.index, b.index))
	})
	return steps
}

// counts says whether a step decides about the endpoint: the lanes of single
// addresses are summed up by the endpoint-wide step.
// Rates only warn.
func (e *endpoint) counts(s Step) bool {
	if s.ID == StepRounds {
		return s.Status == StatusDegraded
	}
	return !s.Addr.IsValid() || e.scheme == schemeDNS
}

// serves says whether a runtime gets the pull from s: one that is passed over
// serves nothing.
func (s *source) serves() bool {
	v, _ := s.served()
	return v == StatusOK || v == StatusDegraded
}

// served is the outcome of one source as a runtime would meet it: what the caller's
// own checks say no runtime knows.
func (s *source) served() (Status, string) {
	return s.outcome(func(st Step) bool { return !st.ID.isOwn() })
}

// untried says that the pull never came to this source.
func (s *source) untried() bool {
	return s.skipped == "" && !s.finished && !slices.ContainsFunc(s.snapshot(), func(e *endpoint) bool {
		return !e.isHint() && slices.ContainsFunc(e.sorted(), func(st step) bool { return st.ID != StepSettings })
	})
}

// judgeSteps is the outcome of one source, and why it is inconclusive or skipped.
func (s *source) judgeSteps() (Status, string) {
	return s.outcome(func(Step) bool { return true })
}

func (s *source) outcome(wanted func(Step) bool) (Status, string) {
	var failed, degraded bool
	reason, blocked := "", ""
	unknown := func(why string) {
		if reason == "" {
			reason = why
		}
	}
	for _, e := range s.snapshot() {
		for _, st := range e.sorted() {
			if !e.counts(st.Step) || !wanted(st.Step) {
				continue
			}
			if e.isAside() {
				continue
			}
			if e.isHint() {
				if e.known && s.sawAll() {
					continue // nothing was lacking
				}
				degraded = degraded || hasSeverity(st.Findings, classify.SeverityWarn) || hasSeverity(st.Findings, classify.SeverityFail)
				continue
			}
			switch st.Status {
			case StatusFailed:
				failed = true
			case StatusDegraded:
				degraded = true
			case StatusInconclusive:
				unknown(stepName(st.ID, e.hostPort(), st.Addr) + ": " + st.Reason)
			case StatusBlocked:
				if !st.ID.isOwn() {
					blocked = cmp.Or(blocked, stepName(st.ID, e.hostPort(), st.Addr)+" was not tried")
				}
			}
		}
	}
	switch {
	case s.contradicted != "":
		return StatusInconclusive, s.contradicted
	case failed:
		return StatusFailed, ""
	case s.skipped != "":
		return StatusSkipped, s.skipped
	case s.overflow:
		return StatusInconclusive, fmt.Sprintf("the pull names more than %d hosts", maxEndpoints)
	case reason != "":
		return StatusInconclusive, reason
	case !s.finished:
		return StatusInconclusive, "the walk did not come to its end"
	case blocked != "": // by nothing that failed here: it was not seen to hold all the same
		return StatusInconclusive, blocked
	case degraded:
		return StatusDegraded, ""
	}
	return StatusOK, ""
}

// result gathers what was seen. It is called when nothing of this image runs any
// more.
func (d *pull) result(ctx context.Context, sources []*source) *Result {
	d.blameResolverRoute(sources)
	compareHosts(sources)
	settleHints(sources)
	r := &Result{
		Schema: Schema, Pull: d.opts.Pull, ManifestRequests: d.manifestsSent(),
		Image:   d.imageRef(),
		Vantage: d.view.vantage(d.settings),
		Verdict: StatusInconclusive,
	}
	r.Vantage.Identity = d.identity
	served := slices.IndexFunc(sources, (*source).serves)
	open := "" // why it is not known what the runtime would get
	for _, s := range sources {
		v, why := s.judgeSteps()
		if s.untried() || v == StatusSkipped || s.serves() {
			continue
		}
		if v == StatusInconclusive || served >= 0 && d.unsure {
			open = cmp.Or(open, why, "it is not known whether the runtime's configuration is in force, and without it the pull fails")
		}
	}
	var failures, warnings, notes []classify.Finding
	for i, s := range sources {
		out := s.export()
		if s.untried() && served >= 0 {
			out.Verdict, out.Reason = StatusSkipped, "an earlier source serves the pull"
		}
		r.Sources = append(r.Sources, out)
		fails, warns, infos := s.findings()
		notes = append(notes, infos...)
		if served >= 0 && i != served || served < 0 && open != "" {
			fails, warns = nil, append(warned(fails), warns...)
		}
		failures, warnings = append(failures, fails...), append(warnings, warns...)
		if s.digest != "" && (served < 0 || i == served) {
			r.Image.Digest = s.digest
		}
	}
	failures, warnings = byLayer(distinct(failures)), byLayer(distinct(warnings))
	// What failed needs no warning of the same beside it, from a ping or another way.
	warnings = slices.DeleteFunc(warnings, func(w classify.Finding) bool {
		return slices.ContainsFunc(failures, func(f classify.Finding) bool { return f.Cause == w.Cause && f.Endpoint == w.Endpoint })
	})
	r.Findings = slices.Concat(failures, warnings, byLayer(distinct(notes)))
	switch {
	case served >= 0 && d.unsure && open != "":
		r.Inconclusive = open
	case served >= 0:
		r.Verdict, r.Inconclusive = sources[served].judgeSteps() // failed or open only by the caller's checks
		missed := func(s *source) bool { return !s.untried() && s.skipped == "" && !s.serves() }
		switch {
		case r.Verdict == StatusFailed:
			r.Primary = &r.Findings[0]
		case r.Verdict.passes() && (slices.ContainsFunc(sources, missed) || len(warnings) > 0):
			r.Verdict = StatusDegraded
		}
		if p := sources[served].proof; p != nil {
			p.HandEdits = handEdits(r.Sources, served)
			r.Proof = p
		}
	case open == "" && len(failures) > 0:
		r.Verdict = StatusFailed
		r.suspectName()
		r.suspectSize()
		r.Primary = &r.Findings[0]
	default:
		r.Inconclusive = open
	}
	if r.Verdict == StatusInconclusive && ctx.Err() != nil {
		r.Inconclusive = reasonOf(ctx)
	}
	r.Reported = d.compare(r)
	return r
}

// blameResolverRoute makes the route to the nameservers the cause when a name
// could not be resolved and there is a way to none of them: DNS was never asked.
func (d *pull) blameResolverRoute(sources []*source) {
	dnsFailed, resolvers, refused := false, []*endpoint(nil), 0
	for _, s := range sources {
		for _, e := range s.snapshot() {
			for _, st := range e.sorted() {
				if st.ID.isOwn() {
					continue
				}
				dnsFailed = dnsFailed || st.ID == StepDNS && st.Status == StatusFailed && !e.isHint()
				if e.scheme == schemeDNS {
					resolvers = append(resolvers, e)
					if st.Status == StatusFailed {
						refused++
					}
				}
			}
		}
	}
	if !dnsFailed || refused == 0 || refused < len(resolvers) {
		return
	}
	for _, e := range resolvers {
		e.onlyHint = false
	}
}

// settleHints turns what failed at hosts that the pull did not come to into
// warnings, and where it came to its end without a host that is only known to be
// usual, into notes. Only now it is known which these are.
func settleHints(sources []*source) {
	for _, s := range sources {
		for _, e := range s.endpoints {
			if !e.onlyHint {
				continue
			}
			for i := range e.steps {
				e.steps[i].Findings = warned(e.steps[i].Findings)
				if e.onlyTold || e.known && s.sawAll() {
					e.steps[i].Findings = mentioned(e.steps[i].Findings)
				}
			}
		}
	}
}

// findings splits what the deciding steps of a source found, in the order of the
// walk: a token comes before the request that carries it, wherever each is.
func (s *source) findings() (failures, warnings, notes []classify.Finding) {
	var steps []step
	for _, e := range s.snapshot() {
		for _, st := range e.sorted() {
			if e.counts(st.Step) {
				steps = append(steps, st)
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.rung, b.rung) })
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
	if s.overflow {
		f := classify.New(classify.EndpointTooManyHosts, fmt.Sprintf("The pull names more than %d hosts; the rest was not looked at.", maxEndpoints))
		f.Severity = classify.SeverityWarn
		warnings = append(warnings, f)
	}
	return failures, warnings, notes
}

// export is the source as it stands in the result.
func (s *source) export() Source {
	out := Source{Host: s.cfg.Host, Kind: s.cfg.Kind}
	out.Verdict, out.Reason = s.judgeSteps()
	for _, e := range s.snapshot() {
		x := Endpoint{Scheme: e.scheme, Host: e.host, Port: e.port, Roles: e.roles, FoundBy: e.foundBy, Hint: e.expected()}
		if e.via != nil {
			x.Via = e.via.hostPort()
		}
		for _, st := range e.sorted() {
			x.Steps = append(x.Steps, st.Step)
		}
		out.Endpoints = append(out.Endpoints, x)
	}
	return out
}

// sawAll says that every host of the pull was met, so that a hint which is none of
// them was not needed.
func (s *source) sawAll() bool { return s.finished && s.d.opts.Pull != Connect }

// expected says that the pull was only said to touch the endpoint, by the caller or
// by what is known, and was not seen to.
func (e *endpoint) expected() bool {
	return e.isHint() && (e.known || e.role == endpoints.RoleExpected)
}

// compareHosts adds what only the names of one pull together show to the lookups
// that it is about.
func compareHosts(sources []*source) {
	for _, s := range sources {
		var reports []*dnscheck.Report
		for _, e := range s.endpoints {
			for _, st := range e.steps {
				if st.DNS != nil {
					reports = append(reports, st.DNS)
				}
			}
		}
		for _, f := range dnscheck.CompareHosts(reports) {
			for _, e := range s.endpoints {
				for i := range e.steps {
					st := &e.steps[i]
					if st.DNS == nil || e.host != f.Endpoint {
						continue
					}
					st.Findings = append(slices.Clone(st.Findings), f)
					if st.Status == StatusOK {
						st.Status = StatusDegraded
					}
				}
			}
		}
	}
}
