package judge

import (
	"slices"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// Sandbox is what became of the sandbox image.
type Sandbox struct {
	Image     string
	Verdict   pull.Status
	Doubt     string // why its pull does not matter as it fails; "" = it does
	Findings  []classify.Finding
	Decisions []Decision // of its own walk
}

// JoinSandbox adds the sandbox image to the result of the image itself, which can be
// pulled without it: what is wrong with it is a warning, or a note where the node may
// have the image.
func JoinSandbox(res *Result, s Sandbox) {
	r := &run{rule: "node-may-have-the-sandbox-image"}
	for _, d := range s.Decisions {
		d.Subject = "sandbox image: " + d.Subject
		r.decisions = append(r.decisions, d)
	}
	if s.Doubt != "" {
		r.decide("sandbox image: verdict", string(pull.StatusFailed), string(s.Verdict), s.Doubt)
	}
	r.rule = "sandbox-image-only-warns"
	severity, why := classify.SeverityWarn, "the image itself can be pulled without the sandbox image"
	at := slices.IndexFunc(res.Findings, func(f classify.Finding) bool { return f.Severity == classify.SeverityInfo })
	if s.Verdict == pull.StatusInconclusive {
		severity, why, at = classify.SeverityInfo, "it is not known that the sandbox image is lacking", -1
	}
	if at < 0 {
		at = len(res.Findings)
	}
	var more []classify.Finding
	for _, f := range s.Findings {
		same := func(g classify.Finding) bool {
			return g.Cause == f.Cause && g.Endpoint == f.Endpoint && g.Severity != classify.SeverityInfo
		}
		if f.Severity == classify.SeverityInfo || slices.ContainsFunc(res.Findings, same) {
			continue
		}
		f.Operation, f.Summary = classify.OperationSandboxImage, "For the sandbox image "+s.Image+": "+f.Summary
		more = append(more, r.lowered([]classify.Finding{f}, severity, " of the sandbox image", why)...)
	}
	res.Findings = slices.Insert(slices.Clone(res.Findings), at, more...)
	if res.Primary != nil {
		res.Primary = &res.Findings[0]
	}
	if res.Verdict == pull.StatusOK && severity == classify.SeverityWarn && (len(more) > 0 || s.Verdict == pull.StatusFailed) {
		r.decide("verdict", string(res.Verdict), string(pull.StatusDegraded), "no pod starts on a node that lacks the sandbox image")
		res.Verdict = pull.StatusDegraded
	}
	res.Decisions = append(res.Decisions, r.decisions...)
}
