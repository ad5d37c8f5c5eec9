package reach

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// maxRounds bounds what one Check can do to a server.
const maxRounds = 100

// connects tries target as often as the Checker says, closes what came about,
// and notes it in r.
func (c *Checker) connects(ctx context.Context, target netip.AddrPort, r *Report) {
	if c.Rounds <= 1 {
		c.settle(ctx, r, c.connect(ctx, target, r))
		return
	}
	n := min(c.Rounds, maxRounds)
	rounds := make([]*Report, n)
	at := here()
	var wg sync.WaitGroup
	for i := range rounds {
		rounds[i] = &Report{Target: target, Route: r.Route}
		if i > 0 && c.Every > 0 && !sleep(ctx, c.Every) {
			rounds[i].inconclusive(endedReason(ctx, "a round"))
			continue
		}
		wg.Go(func() {
			from := at.path()
			c.settle(ctx, rounds[i], c.connectOnce(ctx, target, from, rounds[i]))
			c.explain(ctx, rounds[i])
		})
	}
	wg.Wait()
	r.sum(rounds)
}

// sleep waits; false means that ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// sum makes one story of several rounds.
func (r *Report) sum(rounds []*Report) {
	held, tried := 0, 0
	var failed, first *Report
	for _, one := range rounds {
		if one.Connect == nil || one.Inconclusive != "" {
			r.inconclusive(one.Inconclusive)
			if one.Connect == nil {
				continue
			}
		}
		tried++
		r.Rounds = append(r.Rounds, *one.Connect)
		if first == nil {
			first = one
		}
		switch {
		case len(one.findings) == 0 && one.Connect.Connected:
			held++
		case failed == nil && len(one.findings) > 0:
			failed = one
		}
	}
	switch {
	case first == nil:
		return
	case failed == nil:
		r.Connect = first.Connect
		return
	}
	r.Connect = failed.Connect
	f := failed.findings[len(failed.findings)-1]
	f = addFact(f, FactRate, fmt.Sprintf("%d/%d", held, tried))
	if held > 0 {
		g := instead(f, classify.RouteIntermittent, classify.CertaintyProven,
			fmt.Sprintf("%d of %d connects to %v held; the first that did not: %s", held, tried, r.Target, f.Summary), f.Cause)
		g.Severity = classify.SeverityWarn
		f = g
	}
	r.add(f)
}

// settle watches an accepted connection, notes what became of it, and closes it.
func (c *Checker) settle(ctx context.Context, r *Report, conn net.Conn) {
	if conn == nil {
		return
	}
	defer conn.Close() // nothing was written
	if c.Watch <= 0 {
		return
	}
	r.Connect.After = afterAccept(ctx, conn, c.Watch)
	var cause classify.Cause
	var summary string
	switch r.Connect.After {
	case AfterReset:
		cause, summary = classify.EndpointConnectionReset, fmt.Sprintf("%v accepted the connection and reset it at once, before a byte was sent", r.Target)
	case AfterClosed:
		cause, summary = classify.EndpointConnectionClosedEOF, fmt.Sprintf("%v accepted the connection and closed it at once, before a byte was sent", r.Target)
	default:
		return
	}
	f := classify.New(cause, summary, classify.Fact{Key: classify.FactAddress, Value: r.Target.String()})
	f.Endpoint = r.Target.String()
	r.add(f)
}

// The values of [Connect.After].
const (
	AfterReset  = "reset"  // the peer, or something in its name, broke it off
	AfterClosed = "closed" // the peer closed it in order
)
