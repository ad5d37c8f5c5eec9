package pullwalk

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// judge holds the closing pull against the steps.
func (c *closing) judge(ctx context.Context, st Step, verdict Status) Step {
	switch verdict {
	case StatusOK, StatusDegraded:
		return c.judgeServed(ctx, st)
	case StatusFailed:
		return c.judgeFailed(st)
	}
	st.Status, st.Reason = StatusSkipped, "there is nothing to compare with: the steps are inconclusive"
	return st
}

// judgeServed wants an ordinary client to be served like the steps.
func (c *closing) judgeServed(ctx context.Context, st Step) Step {
	st.Status = StatusOK
	for i, p := range st.Pull.Requests {
		a, r := c.asked[i], p.Request
		switch {
		case r == nil:
			return c.disagree(st, "were served", fmt.Sprintf("no answer to %s within %v", c.what(a), time.Since(a.began).Round(time.Second)))
		case r.Outcome == endpoints.OutcomeFailed:
			if why := c.explained(ctx, p); why != "" {
				st.Status, st.Reason = StatusSkipped, why
				return st
			}
			return c.disagree(st, "were served", failureText(r.Findings(), "the request failed"))
		case r.Outcome == endpoints.OutcomeInconclusive:
			st.Status, st.Reason = StatusSkipped, r.Inconclusive
			return st
		case r.NeedsToken() && !c.reg.has(StepChallenge):
			return c.disagree(st, "were served without a token", c.what(a)+" wants one")
		}
	}
	return st
}

// explained says which known thing lets an ordinary client fail where the steps
// did not; "" = none.
func (c *closing) explained(ctx context.Context, p PullRequest) string {
	r := p.Request
	if r.Status == http.StatusTooManyRequests {
		return "the registry limits the rate, and these requests came on top"
	}
	if len(p.Hosts) == 0 {
		return ""
	}
	last := p.Hosts[len(p.Hosts)-1]
	again := c.s.d.way.Retries(r).Requests > 1 // the client asks once
	for _, e := range c.s.snapshot() {
		for _, s := range e.sorted() {
			if again && e.hostPort() == last && s.Retry != nil && s.Status.passes() {
				return "an ordinary client fails at what comes and goes for the steps, too: " + stepName(s.ID, e.hostPort(), s.Addr)
			}
		}
	}
	if r.Status != 0 {
		return ""
	}
	// A client takes one address after the other, and a nameserver at a time; the
	// steps know by now which of them are dead.
	for _, f := range r.Findings() {
		var denied *registry.DeniedError
		if errors.As(f, &denied) {
			return denied.Error()
		}
	}
	for _, e := range c.s.snapshot() {
		if e.hostPort() != last {
			continue
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			return reasonOf(ctx)
		}
		for _, s := range e.sorted() {
			if slices.Contains([]StepID{StepDNS, StepRoute, StepConnect, StepTLS, StepRounds}, s.ID) && hasSeverity(s.Findings, classify.SeverityWarn) {
				return "an ordinary client fails at what the steps warn of: " + stepName(s.ID, e.hostPort(), s.Addr)
			}
		}
	}
	return ""
}

// judgeFailed looks for an answer of an ordinary client to what the steps failed
// at.
func (c *closing) judgeFailed(st Step) Step {
	st.Status, st.Reason = StatusSkipped, "an ordinary client came no further than the steps"
	if len(st.Pull.Requests) == 0 {
		st.Reason = "a name that leads nowhere is not asked for twice"
	}
	for i, p := range st.Pull.Requests {
		a, r := c.asked[i], p.Request
		if r == nil {
			continue
		}
		if r.Outcome == endpoints.OutcomeFailed {
			st.Reason = "an ordinary client fails, too"
			if c := r.Findings()[0].Cause; c != classify.UnknownUnclassified {
				st.Reason += ": " + string(c)
			}
		}
		switch failed := c.failed(a, r); {
		case failed == nil:
		case failed.Request != nil && failed.Request.Status == http.StatusTooManyRequests:
			st.Reason = "the registry limits the rate, and these requests came on top"
			return st
		default:
			return c.disagree(st, "failed: "+failureText(failed.Findings, "blocked by "+failed.BlockedBy), fmt.Sprintf("%s was answered with %d", c.what(a), r.Status))
		}
	}
	return st
}

// failed returns the step that failed where an ordinary client got an answer; nil
// if there is none.
func (c *closing) failed(a *asked, r *endpoints.RequestReport) *Step {
	var first *Step // what stopped the walk
	answered, challenged, resolved := false, false, false
	var same []Step
	for _, e := range c.s.snapshot() {
		if e.isHint() {
			continue
		}
		for _, s := range e.sorted() {
			if first == nil && s.Status == StatusFailed && e.counts(s.Step) && !s.ID.isOwn() {
				first = &s.Step
			}
			answered = answered || e == c.reg && s.Request != nil && s.Request.Status != 0
			challenged = challenged || s.ID == StepChallenge
			resolved = resolved || s.ID == StepResolve && s.Status.passes()
			if s.ID == a.step && s.Subject == a.subject && (s.Status == StatusFailed || s.Status == StatusBlocked) {
				same = append(same, s.Step)
			}
		}
	}
	if a.step != StepResolve {
		for _, s := range same {
			// The steps may have looked at more of a blob than its first bytes.
			if r.Held() && (r.Complete || s.Request == nil || r.Bytes > s.Request.Bytes) {
				return &s
			}
		}
		return nil
	}
	switch {
	case r.Status == 0 || first == nil:
	case !answered, r.Held() && !resolved, r.NeedsToken() && !challenged && !resolved:
		return first
	}
	return nil
}

// disagree says that two looks at the same thing differ, and that it is not known
// which of them the runtime would get.
func (c *closing) disagree(st Step, steps, ordinary string) Step {
	f := classify.New(classify.UnknownStepsDisagree,
		fmt.Sprintf("The steps and an ordinary client (%s) disagree about %s. The steps %s; the client: %s.", c.walk.UserAgent, c.reg.hostPort(), steps, ordinary),
		classify.Fact{Key: classify.FactSteps, Value: steps}, classify.Fact{Key: classify.FactOrdinary, Value: ordinary})
	f.Severity = classify.SeverityWarn
	c.s.contradicted = fmt.Sprintf("an ordinary client and the steps disagree: the steps %s; the client: %s", steps, ordinary)
	return settle(st, false, c.s.contradicted, []classify.Finding{f})
}

func (c *closing) what(a *asked) string { return string(a.step) + " of " + a.subject }

// failureText is the first failing finding in words.
func failureText(findings []classify.Finding, otherwise string) string {
	for _, f := range findings {
		if f.Severity == classify.SeverityFail {
			return fmt.Sprintf("%s, %s", f.Cause, f.Summary)
		}
	}
	return otherwise
}
