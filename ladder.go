package pullwalk

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
)

// climb takes the rungs up to tls: dns once, then every address in a lane of its
// own, all at once. The lanes start as soon as it is known what the runtime gets,
// although the dns step goes on listening to nameservers that are silent.
func (e *ladder) climb(ctx context.Context) {
	defer close(e.done)
	defer e.beside.Wait()
	early := make(chan []netip.Addr, 1)
	looked := make(chan lookup, 1)
	go func() { looked <- e.addresses(ctx, early) }()

	c := &climb{e: e}
	var found lookup
	select {
	case addrs := <-early:
		c.start(ctx, addrs)
		found = <-looked
	case found = <-looked:
	}
	c.start(ctx, found.addrs)
	c.wait.Wait()
	if len(c.lanes) == 0 {
		for _, id := range e.laneSteps() {
			e.record(Step{ID: id, Status: StatusBlocked, BlockedBy: found.blocked}, 0)
		}
		e.blockedBy = found.blocked
		close(e.ready)
		return
	}
	for _, id := range e.laneSteps() {
		e.record(sum(id, c.lanes), 0)
	}
	if e.through == nil {
		e.blockedBy = firstBlock(c.lanes)
		close(e.ready)
	}
}

// climb is the work on the lanes of one ladder.
type climb struct {
	e     *ladder
	lanes []*lane
	first sync.Once
	wait  sync.WaitGroup
}

// start takes the addresses that have no lane yet. The first lane that holds all
// the way lets the requests begin.
func (c *climb) start(ctx context.Context, addrs []netip.Addr) {
	for _, addr := range addrs {
		if slices.ContainsFunc(c.lanes, func(l *lane) bool { return l.addr == addr }) {
			continue
		}
		l := &lane{e: c.e, addr: addr, index: len(c.lanes) + 1, steps: map[StepID]Step{}}
		c.lanes = append(c.lanes, l)
		c.wait.Go(func() {
			l.climb(ctx)
			if l.blockedBy != "" {
				return
			}
			won := false
			c.first.Do(func() {
				won = true
				c.e.through = l
				if l.spare != nil {
					c.e.pool.Put(l.spare)
				}
				c.e.pool.Put(l.conn) // asked for first
				close(c.e.ready)
			})
			if !won {
				l.drop()
			}
		})
	}
}

// laneSteps are the rungs that each lane takes.
func (e *ladder) laneSteps() []StepID {
	ids := []StepID{StepRoute, StepConnect}
	if e.proxy != nil {
		ids = []StepID{StepTunnel}
	}
	if e.scheme == "https" {
		ids = append(ids, StepTLS)
	}
	return ids
}

// lookup is what the dns rung leads to: addresses, or what stands in the way.
type lookup struct {
	addrs   []netip.Addr
	blocked string
}

// addresses is the dns rung; early gets what the runtime gets as soon as that is
// known. Through a proxy the name is not ours to look up.
func (e *ladder) addresses(ctx context.Context, early chan<- []netip.Addr) lookup {
	if e.unknown != "" {
		e.record(Step{ID: StepTunnel, Status: StatusInconclusive, Reason: e.unknown}, 0)
		return lookup{blocked: stepName(StepTunnel, e.hostPort(), netip.Addr{})}
	}
	if e.proxy != nil {
		for _, id := range []StepID{StepDNS, StepRoute, StepConnect} {
			e.record(Step{ID: id, Status: StatusSkipped, Reason: "through proxy " + e.via.hostPort()}, 0)
		}
		e.beside.Go(func() { e.judgeNoProxy(ctx) })
		select {
		case <-e.via.ready:
		case <-ctx.Done():
			return lookup{blocked: stepName(StepConnect, e.via.hostPort(), netip.Addr{})}
		}
		if e.via.blockedBy != "" {
			return lookup{blocked: e.via.blockedBy}
		}
		return lookup{addrs: []netip.Addr{{}}}
	}
	if addr, err := netip.ParseAddr(e.host); err == nil {
		e.record(Step{ID: StepDNS, Status: StatusSkipped, Reason: "the host is an address"}, 0)
		return lookup{addrs: []netip.Addr{addr}}
	}
	lookUp := func(ctx context.Context, decided func(*dnscheck.Report)) outcome {
		check := *e.d.dns
		check.OnDecided = decided
		rep, err := check.Check(ctx, e.host)
		if err != nil {
			return outcome{Step: questionFailed(Step{ID: StepDNS}, err)}
		}
		return outcome{Step: settle(Step{ID: StepDNS, DNS: rep}, rep.Held(), rep.Inconclusive, rep.Findings())}
	}
	more := e.again(ctx, func(ctx context.Context) outcome { return lookUp(ctx, nil) })
	out := e.timed(ctx, Step{ID: StepDNS}, func(ctx context.Context, _ *watch) outcome {
		return lookUp(ctx, func(r *dnscheck.Report) { early <- r.Usable() })
	})
	out = e.lookups(out, more)
	s := e.record(out.Step, 0)
	if !s.Status.passes() {
		return lookup{blocked: stepName(StepDNS, e.hostPort(), netip.Addr{})}
	}
	return lookup{addrs: s.DNS.Usable()}
}

// sum is the endpoint-wide step over the lanes: addresses are alternatives, so
// one that passes turns the failures of the others into warnings.
func sum(id StepID, lanes []*lane) Step {
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
	case ok > 0 && id == StepTLS && failed > 0:
		// An address that connects is the one that a runtime goes on with: that
		// another would be trusted does not help it.
		s.Status, s.BlockedBy = StatusInconclusive, ""
		s.Reason = "it depends on which of the addresses is taken"
		findings = warned(findings)
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
	return s
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

// mentioned leaves nothing of findings but the mention.
func mentioned(findings []classify.Finding) []classify.Finding {
	out := slices.Clone(findings)
	for i := range out {
		out[i].Severity = classify.SeverityInfo
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
