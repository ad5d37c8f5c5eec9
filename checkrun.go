package pullwalk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// startChecks begins the checks of an endpoint that has got a role, each once.
func (s *source) startChecks(ctx context.Context, e *endpoint, t target) {
	if t.hint && t.role == s.role() {
		return // https tried before plain http: it may not be the registry
	}
	for i := range s.d.opts.Checks {
		c := &s.d.opts.Checks[i]
		e.mu.Lock()
		begins := c.at(t.role) && !e.checks[c.ID]
		if begins {
			if e.checks == nil {
				e.checks = map[StepID]bool{}
			}
			e.checks[c.ID] = true
		}
		e.mu.Unlock()
		if begins {
			s.d.checking.Go(func() { e.record(e.check(ctx, c), i) })
		}
	}
}

// finishChecks waits for the checks, when nothing of ours runs any more, and says
// of those that found no endpoint why.
func (d *imageRun) finishChecks(ctx context.Context, sources []*source) {
	close(d.over)
	d.checking.Wait()
	for _, s := range sources {
		s.recordUnmet(ctx)
	}
}

// recordUnmet records the checks whose endpoint did not come about, with the
// registry.
func (s *source) recordUnmet(ctx context.Context) {
	all := s.snapshot()
	at := slices.IndexFunc(all, func(e *endpoint) bool { return e.role == s.role() && !e.isHint() })
	if at < 0 {
		return // never asked
	}
	for i, c := range s.d.opts.Checks {
		if slices.ContainsFunc(all, func(e *endpoint) bool { return e.checks[c.ID] }) {
			continue
		}
		st := pull.Step{ID: c.ID, Layer: c.Layer, Status: StatusSkipped, Reason: fmt.Sprintf("this pull came to no endpoint with a role of %v", c.Roles)}
		if by := cmp.Or(all[at].blockedBy, judge.FirstFailure(s.log())); by != "" {
			st.Status, st.Reason, st.BlockedBy = StatusBlocked, "", by
		} else if !s.finished {
			st.Status, st.Reason = StatusInconclusive, "the walk did not come to its end"
			if ctx.Err() != nil {
				st.Reason = reasonOf(ctx)
			}
		}
		all[at].record(st, i)
	}
}

// check waits for what c needs, and runs it.
func (e *endpoint) check(ctx context.Context, c *Check) pull.Step {
	s := pull.Step{ID: c.ID, Layer: c.Layer}
	for _, need := range c.Needs {
		n := e.awaitNeed(ctx, need)
		if !n.holds {
			s.Status, s.BlockedBy, s.Reason = n.status, n.blockedBy, n.reason
			return s
		}
	}
	if ctx.Err() != nil {
		s.Status, s.Reason = StatusInconclusive, reasonOf(ctx)
		return s
	}
	w := e.d.notify.watch(Progress{Step: c.ID, Endpoint: e.hostPort(), Layer: c.Layer})
	defer w.stop()
	start := time.Now()
	s = e.ask(ctx, c, s)
	s.ElapsedMS = time.Since(start).Milliseconds()
	return s
}

// need is what became of a step that a check needs.
type need struct {
	holds             bool
	status            Status // of the check, where it does not hold
	blockedBy, reason string
}

// awaitNeed waits until a step holds at e, or until it is known that it does not.
func (e *endpoint) awaitNeed(ctx context.Context, id StepID) need {
	over := e.src.d.over
	for {
		e.mu.Lock()
		changed := e.changed
		e.mu.Unlock()
		if n, known := e.need(id, over == nil); known {
			return n
		}
		select {
		case <-changed:
		case <-over:
			over = nil // nothing of ours comes any more; look once again
		case <-ctx.Done():
			return need{status: StatusInconclusive, reason: reasonOf(ctx)}
		}
	}
}

// need judges what is recorded of a step. Addresses, credentials and layers are
// alternatives: one that holds is enough, and that none does is known when the
// endpoint-wide step of a ladder says so, or when the walk is over.
func (e *endpoint) need(id StepID, over bool) (need, bool) {
	climbed := id == StepDNS || pull.PerAddress(id)
	var bad *pull.Step
	decided := over
	for _, st := range judge.EndpointSoFar(e.soFar()) {
		above := st.Addr.IsValid() && climbed && pull.PerAddress(st.ID) && pull.Place(st.ID) > pull.Place(id)
		if (st.ID == id || above) && pull.Passes(st.Status) {
			return need{holds: true}, true
		}
		if st.ID != id {
			continue
		}
		decided = decided || pull.IsOwn(id) || id == StepTunnel || climbed && (!st.Addr.IsValid() || e.scheme == pull.SchemeDNS)
		if bad == nil || st.Addr.IsValid() && !bad.Addr.IsValid() && st.Status == bad.Status {
			bad = &st // the lane that failed says more than the sum of all
		}
	}
	switch {
	case bad == nil && pull.IsOwn(id) && e.runs(id):
		return need{}, false // it may still be at work when all of ours has ended
	case bad == nil:
		return need{status: StatusSkipped, reason: string(id) + " is not taken here"}, decided
	case bad.Status == StatusBlocked:
		return need{status: StatusBlocked, blockedBy: bad.BlockedBy}, decided
	}
	return need{status: StatusBlocked, blockedBy: pull.StepName(id, e.hostPort(), bad.Addr)}, decided
}

func (e *endpoint) runs(id StepID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.checks[id]
}

// answer is what the caller's function said, or how it ended without a word.
type answer struct {
	findings    []classify.Finding
	err         string // "" = none
	unsupported bool
	broke       string // "" = it returned
}

// call runs the caller's function. Whatever it does ends nothing but itself: a
// panic, runtime.Goexit (which t.FailNow calls), or an error whose own method panics.
func (c *Check) call(ctx context.Context, in Input) answer {
	out := make(chan answer, 1)
	go func() {
		a := answer{broke: "it ended its goroutine"}
		defer func() { out <- a }()
		defer func() {
			if p := recover(); p != nil {
				a = answer{broke: "it panicked: " + own(fmt.Sprint(p))}
			}
		}()
		findings, err := c.Run(ctx, in)
		said := answer{findings: findings}
		if err != nil {
			said.err, said.unsupported = cmp.Or(own(err.Error()), "no text"), errors.Is(err, errors.ErrUnsupported)
		}
		a = said
	}()
	select {
	case a := <-out:
		return a
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case a := <-out:
		return a
	case <-timer.C:
		return answer{broke: "it ignores its context and was left behind"}
	}
}

// ask runs c within its limit and settles what it said.
func (e *endpoint) ask(ctx context.Context, c *Check, s pull.Step) pull.Step {
	limit := min(cmp.Or(c.Timeout, defaultCheck), e.d.budget/budgetShare)
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dial := e.pinned(within)
	a := c.call(within, e.input(dial))
	findings := c.normalise(a.findings)
	refused := dial.refusal()
	switch {
	case ctx.Err() != nil: // what it says now may be about our own end
		s.Status, s.Reason = StatusInconclusive, reasonOf(ctx)
		if a.broke != "" {
			s.Reason += "; " + a.broke
		}
		return s
	case a.broke != "" && within.Err() == nil:
		return unanswered(c, s, a.broke, findings)
	case within.Err() != nil:
		why := "it did not end within " + limit.String()
		if a.broke != "" {
			why += "; " + a.broke
		}
		return unanswered(c, s, why, findings)
	case a.unsupported:
		s.Status, s.Reason = StatusSkipped, a.err
		return s
	case a.err != "":
		return unanswered(c, s, a.err, findings)
	case refused != "" && pull.HasSeverity(findings, classify.SeverityFail):
		return pull.StatusOf(s, false, "address not allowed: "+refused, pull.Warned(findings))
	}
	return pull.StatusOf(s, true, "", findings)
}

// unanswered settles a check that gave no answer; what it found is kept as a
// warning.
func unanswered(c *Check, s pull.Step, why string, findings []classify.Finding) pull.Step {
	f := classify.New(classify.UnknownCheckUnanswered, fmt.Sprintf("The check %s gave no answer: %s", c.ID, why), classify.Fact{Key: classify.FactReason, Value: why})
	f.Severity = classify.SeverityWarn
	return pull.StatusOf(s, false, why, append(pull.Warned(findings), f))
}

// input is what c may know of e, at this moment.
func (e *endpoint) input(dial *pinnedDialer) Input {
	d := e.src.d
	in := Input{
		Image: d.imageRef(), Scheme: e.scheme, Host: e.host, Port: e.port,
		Addresses: slices.Clone(dial.addrs), Dialer: dial, Roots: d.view.trusted(e.tls.ca), Now: d.view.Now,
	}
	e.src.mu.Lock()
	in.Roles = slices.Clone(e.roles)
	e.src.mu.Unlock()
	if e.proxy != nil {
		in.Via = e.via.hostPort()
	}
	return in
}

// dialable are the addresses of e as far as its ladder has come, those that connect
// first.
func (e *endpoint) dialable() []netip.Addr {
	if e.proxy != nil {
		return nil
	}
	var connected, all []netip.Addr
	for _, st := range judge.EndpointSoFar(e.soFar()) {
		switch {
		case st.ID == StepDNS:
			if rep, ok := st.Report.(*dnscheck.Report); ok {
				all = append(all, rep.Usable()...)
			}
		case st.Addr.IsValid():
			all = append(all, st.Addr)
			if st.ID == StepConnect && pull.Passes(st.Status) {
				connected = append(connected, st.Addr)
			}
		}
	}
	if addr, err := netip.ParseAddr(e.host); err == nil {
		all = append(all, addr)
	}
	var out []netip.Addr
	for _, a := range append(connected, all...) {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// own is a text of the caller's as it may be shown.
func own(text string) string {
	return classify.Redact(strings.ToValidUTF8(text[:min(len(text), maxOwnScanned)], ""), maxOwnText)
}
