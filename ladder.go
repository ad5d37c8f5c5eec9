package pullwalk

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/pull"
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
			e.record(pull.Step{ID: id, Status: StatusBlocked, BlockedBy: found.blocked}, 0)
		}
		e.blockedBy = found.blocked
		close(e.ready)
		return
	}
	for _, id := range e.laneSteps() {
		if e.proxy == nil { // a tunnel is of no address
			e.record(pull.Step{ID: id, Sum: true}, 0)
		}
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
		l := &lane{e: c.e, addr: addr, index: len(c.lanes) + 1, steps: map[StepID]pull.Step{}}
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
		e.record(pull.Step{ID: StepTunnel, Status: StatusInconclusive, Reason: e.unknown}, 0)
		return lookup{blocked: pull.StepName(StepTunnel, e.hostPort(), netip.Addr{})}
	}
	if e.proxy != nil {
		for _, id := range []StepID{StepDNS, StepRoute, StepConnect} {
			e.record(pull.Step{ID: id, Status: StatusSkipped, Reason: "through proxy " + e.via.hostPort()}, 0)
		}
		e.beside.Go(func() { e.judgeNoProxy(ctx) })
		select {
		case <-e.via.ready:
		case <-ctx.Done():
			return lookup{blocked: pull.StepName(StepConnect, e.via.hostPort(), netip.Addr{})}
		}
		if e.via.blockedBy != "" {
			return lookup{blocked: e.via.blockedBy}
		}
		return lookup{addrs: []netip.Addr{{}}}
	}
	if addr, err := netip.ParseAddr(e.host); err == nil {
		e.record(pull.Step{ID: StepDNS, Status: StatusSkipped, Reason: "the host is an address"}, 0)
		return lookup{addrs: []netip.Addr{addr}}
	}
	lookUp := func(ctx context.Context, decided func(*dnscheck.Report)) outcome {
		check := *e.d.dns
		check.OnDecided = decided
		rep, err := check.Check(ctx, e.host)
		if err != nil {
			return outcome{Step: questionFailed(pull.Step{ID: StepDNS}, err)}
		}
		return outcome{Step: pull.StatusOf(pull.Step{ID: StepDNS, Report: rep}, rep.Held(), rep.Inconclusive, rep.Findings())}
	}
	more := e.again(ctx, func(ctx context.Context) outcome { return lookUp(ctx, nil) })
	out := e.timed(ctx, pull.Step{ID: StepDNS}, func(ctx context.Context, _ *watch) outcome {
		return lookUp(ctx, func(r *dnscheck.Report) { early <- r.Usable() })
	})
	out = e.lookups(out, more)
	s := e.record(out.Step, 0)
	if !pull.Passes(s.Status) {
		return lookup{blocked: pull.StepName(StepDNS, e.hostPort(), netip.Addr{})}
	}
	return lookup{addrs: s.Report.(*dnscheck.Report).Usable()}
}

// firstBlock names the first failure of the lanes: one that was seen to fail
// before one that is only unknown.
func firstBlock(lanes []*lane) string {
	for _, want := range []Status{StatusFailed, StatusInconclusive} {
		for _, l := range lanes {
			for _, id := range l.e.laneSteps() {
				if l.steps[id].Status == want {
					return pull.StepName(id, l.e.hostPort(), l.addr)
				}
			}
		}
	}
	return lanes[0].blockedBy
}
