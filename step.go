package pullwalk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// stepName is how a step is named in texts and in BlockedBy.
func stepName(id StepID, hostPort string, addr netip.Addr) string {
	name := string(id) + "@" + hostPort
	if addr.IsValid() {
		name += "[" + addr.String() + "]"
	}
	return name
}

// step is a Step with its place in the report: rung first, then order in it.
type step struct {
	Step
	rung, index int
}

// The rungs, in the order in which they are reported.
var rungs = []StepID{StepSettings, StepDNS, StepRoute, StepConnect, StepTunnel, StepTLS, StepRounds, StepPing, StepChallenge, StepSecrets, StepToken, StepResolve, StepRights, StepManifest, StepStore, StepConfig, StepLayer}

// rungOf is the place of a step in its endpoint: the caller's own come last.
func rungOf(id StepID) int {
	if id.isOwn() {
		return len(rungs)
	}
	return slices.Index(rungs, id)
}

// layers says which layer a step belongs to. A request's own findings may belong
// to another one: a 401 is identity.
func layerOf(id StepID) classify.Layer {
	switch id {
	case StepSettings, StepStore:
		return classify.LayerNode
	case StepDNS:
		return classify.LayerDNS
	case StepRoute:
		return classify.LayerRoute
	case StepTLS:
		return classify.LayerTLS
	case StepToken, StepSecrets, StepRights:
		return classify.LayerIdentity
	case StepResolve, StepManifest, StepConfig, StepLayer:
		return classify.LayerImage
	}
	return classify.LayerEndpoint
}

// settle derives the status of a step from what its report says. Nothing is ok
// that was not seen to hold.
func settle(s Step, held bool, inconclusive string, findings []classify.Finding) Step {
	s.Findings = findings
	switch {
	case hasSeverity(findings, classify.SeverityFail):
		s.Status = StatusFailed
	case inconclusive != "":
		s.Status, s.Reason = StatusInconclusive, inconclusive
	case !held:
		s.Status, s.Reason = StatusInconclusive, "nothing was seen that decides"
	case hasSeverity(findings, classify.SeverityWarn):
		s.Status = StatusDegraded
	default:
		s.Status = StatusOK
	}
	return s
}

func hasSeverity(findings []classify.Finding, s classify.Severity) bool {
	return slices.ContainsFunc(findings, func(f classify.Finding) bool { return f.Severity == s })
}

// passes says whether a step lets its dependants start.
func (s Status) passes() bool { return s == StatusOK || s == StatusDegraded || s == StatusSkipped }

// outcome is a finished step, with the connection that it opened, if any. The
// connection travels with the step, so that code left behind by await can never
// write to what others read.
type outcome struct {
	Step
	conn     net.Conn
	spare    net.Conn // one more, verified like conn
	manifest *endpoints.Manifest
	token    registry.TokenResult
	at       *endpoint // where a token exchange ended; nil = where it began
}

// timed runs one step: it is watched for silence, and left behind if it ignores
// the end of ctx.
func (e *ladder) timed(ctx context.Context, s Step, run func(context.Context, *watch) outcome) outcome {
	if ctx.Err() != nil { // the end has come: each step begun now could cost another grace
		s.Status, s.Reason = StatusInconclusive, reasonOf(ctx)
		return outcome{Step: s}
	}
	w := e.d.notify.watch(Progress{Step: s.ID, Endpoint: e.hostPort(), Addr: s.Addr, Subject: s.Subject, Layer: silenceOf(s.ID)})
	defer w.stop()
	start := time.Now()
	out, ok := await(ctx, func() outcome { return run(ctx, w) })
	if !ok {
		out = outcome{Step: s}
		out.Status, out.Reason = StatusInconclusive, reasonOf(ctx)+"; code of the caller did not return"
	}
	out.ElapsedMS = time.Since(start).Milliseconds()
	return out
}

// silenceOf says which layer silence in a step points to: what was sent got
// lost, or something answers and then does not go on, whatever is asked for.
func silenceOf(id StepID) classify.Layer {
	switch id {
	case StepSettings, StepDNS, StepRoute:
		return layerOf(id)
	case StepConnect:
		return classify.LayerRoute
	}
	return classify.LayerEndpoint
}

var errBudget = errors.New("the budget ended")

// reasonOf says in words why ctx ended.
func reasonOf(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errBudget):
		return "the budget ended"
	case errors.Is(cause, context.DeadlineExceeded):
		return "the caller's deadline passed"
	}
	return "canceled by the caller"
}

// questionFailed turns the error of a probe, which means that the question could
// not be asked, into a step that says so.
func questionFailed(s Step, err error) Step {
	s.Status, s.Reason = StatusInconclusive, classify.Redact(err.Error(), 300)
	if errors.Is(err, errors.ErrUnsupported) {
		s.Status = StatusSkipped
	}
	return s
}

// unhurried takes back a failure that hangs on a limit which a small budget cut
// short, a runtime would have waited longer, or which passed while this process did
// not run. What else the step found was found without the answer that was missed.
func (d *diagnosis) unhurried(s Step) Step {
	reason, took := "", time.Duration(s.ElapsedMS)*time.Millisecond
	for _, f := range s.Findings {
		limit := waited(f)
		if limit == 0 || f.Severity == classify.SeverityInfo {
			continue
		}
		// A step is recorded some time after its end, when others have ended too.
		switch lost := d.pulse.lost(time.Now().Add(-took - 2*limit)); {
		case lost > limit/pulseShare:
			reason = fmt.Sprintf("this machine was too busy to judge it: for up to %v nothing ran here that was due", lost.Round(time.Millisecond))
		case d.hurried:
			reason = "the budget left no more than " + limit.String() + " for this step"
		}
	}
	if reason == "" || !hasSeverity(s.Findings, classify.SeverityFail) {
		return s
	}
	s.Findings = warned(s.Findings)
	for i := range s.Findings {
		if waited(s.Findings[i]) > 0 {
			s.Findings[i].Certainty = classify.CertaintyPossible
		}
	}
	if s.Status == StatusFailed {
		s.Status, s.Reason = StatusInconclusive, reason
	}
	return s
}

// waited is the time that passed before a finding was made of it; 0 if it is not
// about time.
func waited(f classify.Finding) time.Duration {
	text := f.Fact(classify.FactLimit)
	if text == "" && f.Cause == classify.DNSResolverTimeout { // an answer that came too late
		text = f.Fact(classify.FactElapsed)
	}
	d, err := time.ParseDuration(text)
	if err != nil { // a limit of size
		return 0
	}
	return d
}
