package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/notify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// startChecks begins the checks of a host that has got a role, each once.
func (s *source) startChecks(ctx context.Context, w *way, t pull.Target) {
	if w == nil || t.Expected && t.Role == s.role() {
		return // https tried before plain http: it may not be the registry
	}
	for i := range s.image.opts.Checks {
		c := &s.image.opts.Checks[i]
		if !c.at(t.Role) || !w.begins(c.ID) {
			continue
		}
		s.image.checking.Go(func() { w.host.Record(w.check(ctx, c), i) })
	}
}

// begins reports whether a check has not begun yet; it has then.
func (w *way) begins(id pull.StepID) bool {
	w.source.checks.Lock()
	defer w.source.checks.Unlock()
	if w.checks[id] {
		return false
	}
	if w.checks == nil {
		w.checks = map[pull.StepID]bool{}
	}
	w.checks[id] = true
	return true
}

func (w *way) has(id pull.StepID) bool {
	w.source.checks.Lock()
	defer w.source.checks.Unlock()
	return w.checks[id]
}

// finishChecks waits for the checks, when nothing of ours runs any more, and says of
// those that found no host why.
func (c *image) finishChecks(ctx context.Context, sources []*source) {
	close(c.over)
	c.checking.Wait()
	for _, s := range sources {
		s.recordUnmet(ctx)
	}
}

// recordUnmet records the checks whose host did not come about, with the registry.
func (s *source) recordUnmet(ctx context.Context) {
	all := s.run.Hosts()
	at := slices.IndexFunc(all, func(h *pull.Host) bool { return h.Role == s.role() && !h.IsExpected() })
	if at < 0 {
		return // never asked
	}
	for i, c := range s.image.opts.Checks {
		if slices.ContainsFunc(all, func(h *pull.Host) bool { w := wayOf(h); return w != nil && w.has(c.ID) }) {
			continue
		}
		st := pull.Step{ID: c.ID, Layer: c.Layer, Status: pull.StatusSkipped, Reason: fmt.Sprintf("this pull came to no endpoint with a role of %v", c.Roles)}
		_, barred := all[at].Way().Open()
		if by := cmp.Or(barred, judge.FirstFailure(s.log())); by != "" {
			st.Status, st.Reason, st.BlockedBy = pull.StatusBlocked, "", by
		} else if !s.run.Finished {
			st.Status, st.Reason = pull.StatusInconclusive, "the walk did not come to its end"
			if ctx.Err() != nil {
				st.Reason = pull.EndOf(ctx)
			}
		}
		all[at].Record(st, i)
	}
}

// check waits for what c needs, and runs it.
func (w *way) check(ctx context.Context, c *Check) pull.Step {
	s := pull.Step{ID: c.ID, Layer: c.Layer}
	for _, need := range c.Needs {
		n := w.awaitNeed(ctx, need)
		if !n.holds {
			s.Status, s.BlockedBy, s.Reason = n.status, n.blockedBy, n.reason
			return s
		}
	}
	if ctx.Err() != nil {
		s.Status, s.Reason = pull.StatusInconclusive, pull.EndOf(ctx)
		return s
	}
	watching := w.source.image.notify.Watch(notify.Progress{Step: c.ID, Endpoint: w.host.HostPort(), Layer: c.Layer})
	defer watching.Stop()
	start := time.Now()
	s = w.ask(ctx, c, s)
	s.ElapsedMS = time.Since(start).Milliseconds()
	return s
}

// need is what became of a step that a check needs.
type need struct {
	holds             bool
	status            pull.Status // of the check, where it does not hold
	blockedBy, reason string
}

// awaitNeed waits until a step holds at the host, or until it is known that it does not.
func (w *way) awaitNeed(ctx context.Context, id pull.StepID) need {
	over := w.source.image.over
	for {
		changed := w.host.Changed()
		if n, known := w.need(id, over == nil); known {
			return n
		}
		select {
		case <-changed:
		case <-over:
			over = nil // nothing of ours comes any more; look once again
		case <-ctx.Done():
			return need{status: pull.StatusInconclusive, reason: pull.EndOf(ctx)}
		}
	}
}

// need judges what is recorded of a step. Addresses, credentials and layers are
// alternatives: one that holds is enough, and that none does is known when the sum over
// the addresses says so, or when the walk is over.
func (w *way) need(id pull.StepID, over bool) (need, bool) {
	probed := id == pull.StepDNS || pull.PerAddress(id)
	var bad *pull.Step
	decided := over
	for _, st := range judge.EndpointSoFar(w.host.Log()) {
		later := st.Addr.IsValid() && probed && pull.PerAddress(st.ID) && pull.Place(st.ID) > pull.Place(id)
		if (st.ID == id || later) && pull.Passes(st.Status) {
			return need{holds: true}, true
		}
		if st.ID != id {
			continue
		}
		decided = decided || pull.IsOwn(id) || id == pull.StepTunnel || probed && (!st.Addr.IsValid() || w.host.Scheme == pull.SchemeDNS)
		if bad == nil || st.Addr.IsValid() && !bad.Addr.IsValid() && st.Status == bad.Status {
			bad = &st // the address that failed says more than the sum of all
		}
	}
	switch {
	case bad == nil && pull.IsOwn(id) && w.has(id):
		return need{}, false // it may still be at work when all of ours has ended
	case bad == nil:
		return need{status: pull.StatusSkipped, reason: string(id) + " is not taken here"}, decided
	case bad.Status == pull.StatusBlocked:
		return need{status: pull.StatusBlocked, blockedBy: bad.BlockedBy}, decided
	}
	return need{status: pull.StatusBlocked, blockedBy: pull.StepName(id, w.host.HostPort(), bad.Addr)}, decided
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
	timer := time.NewTimer(notify.Grace)
	defer timer.Stop()
	select {
	case a := <-out:
		return a
	case <-timer.C:
		return answer{broke: "it ignores its context and was left behind"}
	}
}

// ask runs c within its limit and sets the status by what it said.
func (w *way) ask(ctx context.Context, c *Check, s pull.Step) pull.Step {
	limit := min(cmp.Or(c.Timeout, defaultCheck), w.source.image.opts.Budget/BudgetShare)
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	img := w.source.image
	dial := &pinnedDialer{host: w.host.Target.Host, port: w.host.Port, addrs: w.dialable(), dialer: img.view.Dial(), allow: img.opts.AllowAddr, ended: within.Done()}
	if w.probe.Proxy != nil {
		dial.tunnel = w.probe.Tunnel
	}
	a := c.call(within, w.input(dial))
	findings := normalise(c.ID, c.Layer, a.findings)
	refused := dial.refusal()
	switch {
	case ctx.Err() != nil: // what it says now may be about our own end
		s.Status, s.Reason = pull.StatusInconclusive, pull.EndOf(ctx)
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
		s.Status, s.Reason = pull.StatusSkipped, a.err
		return s
	case a.err != "":
		return unanswered(c, s, a.err, findings)
	case refused != "" && pull.HasSeverity(findings, classify.SeverityFail):
		return pull.StatusOf(s, false, "address not allowed: "+refused, pull.Warned(findings))
	}
	return pull.StatusOf(s, true, "", findings)
}

// unanswered is the step of a check that gave no answer; what it found is kept as a
// warning.
func unanswered(c *Check, s pull.Step, why string, findings []classify.Finding) pull.Step {
	f := classify.New(classify.UnknownCheckUnanswered, fmt.Sprintf("The check %s gave no answer: %s", c.ID, why), classify.Fact{Key: classify.FactReason, Value: why})
	f.Severity = classify.SeverityWarn
	return pull.StatusOf(s, false, why, append(pull.Warned(findings), f))
}

// input is what c may know of the host, at this moment.
func (w *way) input(dial *pinnedDialer) Input {
	v := w.source.image.view
	in := Input{
		Reference: w.source.image.ref, Scheme: w.host.Scheme, Host: w.host.Target.Host, Port: w.host.Port, Roles: w.host.Roles(),
		Addresses: slices.Clone(dial.addrs), Dialer: dial, Roots: v.Trusted(w.probe.TLS().CA), Now: v.Now,
	}
	if w.probe.Via != nil {
		in.Via = w.probe.Via.HostPort()
	}
	return in
}

// dialable are the addresses of the host as far as its probe has come, those that
// connect first.
func (w *way) dialable() []netip.Addr {
	if w.probe.Proxy != nil {
		return nil
	}
	var connected, all []netip.Addr
	for _, st := range judge.EndpointSoFar(w.host.Log()) {
		switch {
		case st.ID == pull.StepDNS:
			if rep, ok := st.Report.(*dnscheck.Report); ok {
				all = append(all, rep.Usable()...)
			}
		case st.Addr.IsValid():
			all = append(all, st.Addr)
			if st.ID == pull.StepConnect && pull.Passes(st.Status) {
				connected = append(connected, st.Addr)
			}
		}
	}
	if addr, err := netip.ParseAddr(w.host.Target.Host); err == nil {
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
