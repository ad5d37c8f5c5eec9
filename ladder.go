package pullwalk

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/pullwalk/pullwalk/classify"
)

// climb takes the rungs up to tls: dns once, then every address in a lane of its
// own, all at once.
func (e *endpoint) climb(ctx context.Context) {
	defer close(e.done)
	addrs, blocked := e.addresses(ctx)
	if blocked != "" {
		for _, id := range e.laneSteps() {
			e.record(Step{ID: id, Status: StatusBlocked, BlockedBy: blocked}, 0)
		}
		e.blockedBy = blocked
		close(e.ready)
		return
	}
	lanes := make([]*lane, len(addrs))
	var first sync.Once
	var wg sync.WaitGroup
	for i, addr := range addrs {
		l := &lane{e: e, addr: addr, index: i + 1, steps: map[StepID]Step{}}
		lanes[i] = l
		wg.Go(func() {
			l.climb(ctx)
			if l.blockedBy != "" {
				return
			}
			won := false
			first.Do(func() {
				won = true
				e.through = l
				e.pool.Put(l.conn)
				close(e.ready)
			})
			if !won {
				_ = l.conn.Close()
			}
		})
	}
	wg.Wait()
	for _, id := range e.laneSteps() {
		e.sum(id, lanes)
	}
	if e.through == nil {
		e.blockedBy = firstBlock(lanes)
		close(e.ready)
	}
}

// laneSteps are the rungs that each lane takes.
func (e *endpoint) laneSteps() []StepID {
	ids := []StepID{StepRoute, StepConnect}
	if e.proxy != nil {
		ids = []StepID{StepTunnel}
	}
	if e.scheme == "https" {
		ids = append(ids, StepTLS)
	}
	return ids
}

// addresses is the dns rung. Through a proxy the name is not ours to look up.
func (e *endpoint) addresses(ctx context.Context) (addrs []netip.Addr, blocked string) {
	if e.proxy != nil {
		for _, id := range []StepID{StepDNS, StepRoute, StepConnect} {
			e.record(Step{ID: id, Status: StatusSkipped, Reason: "through proxy " + e.proxy.Host}, 0)
		}
		select {
		case <-e.via.ready:
		case <-ctx.Done():
			return nil, stepName(StepConnect, e.via.hostPort(), netip.Addr{})
		}
		return []netip.Addr{{}}, e.via.blockedBy
	}
	if addr, err := netip.ParseAddr(e.host); err == nil {
		e.record(Step{ID: StepDNS, Status: StatusSkipped, Reason: "the host is an address"}, 0)
		return []netip.Addr{addr}, ""
	}
	out := e.timed(ctx, Step{ID: StepDNS}, func(ctx context.Context, _ *watch) outcome {
		rep, err := e.d.dns.Check(ctx, e.host)
		if err != nil {
			return outcome{Step: questionFailed(Step{ID: StepDNS}, err)}
		}
		return outcome{Step: settle(Step{ID: StepDNS, DNS: rep}, rep.Held(), rep.Inconclusive, rep.Findings())}
	})
	s := e.record(out.Step, 0)
	if !s.Status.passes() {
		return nil, stepName(StepDNS, e.hostPort(), netip.Addr{})
	}
	return s.DNS.Usable(), ""
}

// sum is the endpoint-wide step over the lanes: addresses are alternatives, so
// one that passes turns the failures of the others into warnings.
func (e *endpoint) sum(id StepID, lanes []*lane) {
	var ok, tried, failed, waiting int
	s := Step{ID: id}
	var findings []classify.Finding
	for _, l := range lanes {
		ls := l.steps[id]
		if ls.Status == StatusBlocked {
			if s.BlockedBy == "" {
				s.BlockedBy = ls.BlockedBy
			}
			continue
		}
		tried++
		s.ElapsedMS = max(s.ElapsedMS, ls.ElapsedMS)
		switch {
		case ls.Status.passes():
			ok++
		case ls.Status == StatusFailed:
			failed++
		default:
			waiting++
			s.Reason = ls.Reason
		}
		findings = append(findings, ls.Findings...)
		if !l.addr.IsValid() { // a tunnel's only lane: the summary is the step
			s.TLS, s.Reach, s.Reason = ls.TLS, ls.Reach, ls.Reason
		}
	}
	switch {
	case ok > 0 && ok == tried:
		s.Status, s.BlockedBy = StatusOK, ""
	case ok > 0:
		s.Status, s.BlockedBy = StatusOK, ""
		findings = alternatives(findings)
	case failed > 0:
		s.Status, s.BlockedBy, s.Reason = StatusFailed, "", ""
	case waiting > 0:
		s.Status, s.BlockedBy = StatusInconclusive, ""
	default:
		s.Status = StatusBlocked
	}
	if s.Status == StatusOK {
		s.Reason = ""
		if allSkipped(id, lanes) {
			s.Status, s.Reason = StatusSkipped, lanes[0].steps[id].Reason
		}
		if hasSeverity(findings, classify.SeverityWarn) {
			s.Status = StatusDegraded
		}
	}
	s.Findings = distinct(findings)
	e.record(s, 0)
}

func allSkipped(id StepID, lanes []*lane) bool {
	return !slices.ContainsFunc(lanes, func(l *lane) bool { return l.steps[id].Status != StatusSkipped })
}

// alternatives turns the failures of addresses that another address makes up for
// into warnings. A node without IPv6 that reaches the registry over IPv4 lacks
// nothing: that is only mentioned.
func alternatives(findings []classify.Finding) []classify.Finding {
	out := warned(findings)
	for i := range out {
		if out[i].Cause == classify.RouteIPv6Unreachable {
			out[i].Severity = classify.SeverityInfo
		}
	}
	return out
}

func warned(findings []classify.Finding) []classify.Finding {
	out := slices.Clone(findings)
	for i := range out {
		if out[i].Severity == classify.SeverityFail {
			out[i].Severity = classify.SeverityWarn
		}
	}
	return out
}

// firstBlock names the first failure of the lanes: one that was seen to fail
// before one that is only unknown.
func firstBlock(lanes []*lane) string {
	for _, want := range []Status{StatusFailed, StatusInconclusive} {
		for _, l := range lanes {
			for _, id := range l.e.laneSteps() {
				if l.steps[id].Status == want {
					return stepName(id, l.e.hostPort(), l.addr)
				}
			}
		}
	}
	return lanes[0].blockedBy
}
