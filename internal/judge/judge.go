// Package judge says what the steps of a pull amount to. It is pure: the same log
// gives the same result, and nothing of the log is changed. What it decides are
// rules with a name, which run in order; each change of a status or a severity and
// the choice of the root cause is a [Decision].
package judge

import (
	"cmp"
	"iter"
	"slices"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// Decision is one thing that a rule decided.
type Decision struct {
	Rule    string `json:"rule"`
	Subject string `json:"subject"`        // the step, the finding, the source or the pull that is judged
	From    string `json:"from,omitempty"` // status or severity before
	To      string `json:"to"`             // status, severity or root cause after
	Why     string `json:"why"`
}

// Result is what a log amounts to.
type Result struct {
	Verdict      pull.Status
	Inconclusive string
	Primary      *classify.Finding  // points into Findings
	Findings     []classify.Finding // root causes, warnings, notes
	Sources      []Source
	Served       int  // the source that a runtime gets the pull from; -1 = none
	Settled      bool // what was seen at Served holds: nothing is open that could keep a runtime from it
	Decisions    []Decision
}

// Source is a source of the log as it is judged: its steps in the order in which
// they are reported.
type Source struct {
	pull.Source
	Verdict pull.Status
	Reason  string // why it was skipped or is inconclusive
}

// rule is a sentence about pulls.
type rule struct {
	name  string
	apply func(*run)
}

// stepRules judge steps by themselves. They hold as soon as a step has ended.
var stepRules = []rule{
	{"machine-stalled", machineStalled},
	{"limit-cut-by-budget", limitCutByBudget},
	{"callers-code-panicked", callersCodePanicked},
	{"proxy-may-have-answered", proxyMayHaveAnswered},
}

// sourceRules judge steps by others of the same source.
var sourceRules = []rule{
	{"addresses-are-alternatives", addressesAreAlternatives},
	{"plain-http-registry", plainHTTPRegistry},
	{"registry-asks-for-no-credential", registryAsksForNoCredential},
	{"later-credential-was-accepted", laterCredentialWasAccepted},
	{"kubelet-offered-nothing", kubeletOfferedNothing},
}

// hintRules judge steps where the pull was not seen to come.
var hintRules = []rule{
	{"hint-only-warns", hintOnlyWarns},
	{"hint-was-not-needed", hintWasNotNeeded},
}

// pullRules judge steps by those of all sources.
var pullRules = []rule{
	{"no-way-to-any-nameserver", noWayToAnyNameserver},
	{"names-of-one-pull-contradict", namesOfOnePullContradict},
}

// run is one judgement under way.
type run struct {
	sources   []pull.Source // a copy
	decisions []Decision
	rule      string // the name of the one that decides
}

func begin(sources ...pull.Source) *run { return &run{sources: pull.CopyOf(sources)} }

func (r *run) apply(rules ...[]rule) *run {
	for _, list := range rules {
		for _, x := range list {
			r.rule = x.name
			x.apply(r)
		}
	}
	return r
}

// steps are all of the log, each with its endpoint, in the order of the log.
func (r *run) steps() iter.Seq2[*pull.Endpoint, *pull.Step] {
	return func(yield func(*pull.Endpoint, *pull.Step) bool) {
		for i := range r.sources {
			for e, st := range stepsOf(&r.sources[i]) {
				if !yield(e, st) {
					return
				}
			}
		}
	}
}

func stepsOf(s *pull.Source) iter.Seq2[*pull.Endpoint, *pull.Step] {
	return func(yield func(*pull.Endpoint, *pull.Step) bool) {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			for j := range e.Steps {
				if !yield(e, &e.Steps[j]) {
					return
				}
			}
		}
	}
}

func nameOf(e *pull.Endpoint, st *pull.Step) string {
	return pull.StepName(st.ID, e.HostPort(), st.Addr)
}

func (r *run) decide(subject, from, to, why string) {
	r.decisions = append(r.decisions, Decision{r.rule, subject, from, to, why})
}

// become changes the status of a step.
func (r *run) become(e *pull.Endpoint, st *pull.Step, to pull.Status, why string) {
	if st.Status != to {
		r.decide(nameOf(e, st), string(st.Status), string(to), why)
		st.Status = to
	}
}

// lower changes the findings of a step that are graver than a severity.
func (r *run) lower(e *pull.Endpoint, st *pull.Step, to classify.Severity, why string) {
	st.Findings = r.lowered(st.Findings, to, " in "+nameOf(e, st), why)
}

func (r *run) lowered(findings []classify.Finding, to classify.Severity, where, why string) []classify.Finding {
	out := slices.Clone(findings)
	for i, f := range out {
		if gravity(f.Severity) < gravity(to) {
			r.decide(string(f.Cause)+where, string(f.Severity), string(to), why)
			out[i].Severity = to
		}
	}
	return out
}

func gravity(s classify.Severity) int {
	return slices.Index([]classify.Severity{classify.SeverityFail, classify.SeverityWarn, classify.SeverityInfo}, s)
}

// Step judges a step by itself, as it stands when it has ended: e says where. A sum
// is judged by the steps of e.
func Step(e pull.Endpoint, st pull.Step) pull.Step {
	e.Steps = append(slices.Clip(e.Steps), st)
	if !st.Sum {
		e.Steps = []pull.Step{st}
	}
	r := begin(pull.Source{Endpoints: []pull.Endpoint{e}}).apply(stepRules, sourceRules[:1], hintRules)
	return r.sources[0].Endpoints[0].Steps[len(e.Steps)-1]
}

// SourceSoFar judges the steps of a source by themselves and by each other, while
// there may come more.
func SourceSoFar(s pull.Source) pull.Source {
	return begin(s).apply(stepRules, sourceRules).sources[0]
}

// EndpointSoFar judges the steps of an endpoint by themselves and by each other,
// while there may come more, and returns them in the order in which they are reported.
func EndpointSoFar(e pull.Endpoint) []pull.Step {
	s := SourceSoFar(pull.Source{Endpoints: []pull.Endpoint{e}})
	return sorted(s.Endpoints[0].Steps)
}

// Judge says what a log amounts to. In which order steps ended makes no difference.
func Judge(log pull.Log) Result {
	r := begin(log.Sources...)
	for i := range r.sources {
		for j := range r.sources[i].Endpoints {
			sorted(r.sources[i].Endpoints[j].Steps)
		}
	}
	return r.apply(stepRules, sourceRules, pullRules, hintRules).verdict(log)
}

func sorted(steps []pull.Step) []pull.Step {
	slices.SortStableFunc(steps, func(a, b pull.Step) int {
		return cmp.Or(cmp.Compare(pull.Place(a.ID), pull.Place(b.ID)), cmp.Compare(a.Index, b.Index))
	})
	return steps
}
