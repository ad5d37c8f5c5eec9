package reach

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// connect tries target, looks for what explains a failure, and notes in r what
// came of it. The returned connection is open; nil means that there is none.
func (c *Checker) connect(ctx context.Context, target netip.AddrPort, r *Report) net.Conn {
	pressure := c.watchPressure()
	conn := c.connectTraced(ctx, target, r)
	pressure.explain(ctx, r)
	return conn
}

// connectTraced traces the way when target stays silent or a router refuses.
func (c *Checker) connectTraced(ctx context.Context, target netip.AddrPort, r *Report) net.Conn {
	s, observed := c.sockets()
	if !observed || !canObserve || c.NoTrace {
		conn := c.connectOnce(ctx, target, "", r)
		c.explain(ctx, r)
		return conn
	}
	// Begun beside a connect that is silent for a second, so that both are done
	// within the limit of the connect.
	at := here()
	traced := make(chan *Trace, 1)
	traceCtx, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	timer := time.AfterFunc(silenceBefore, func() {
		namespace := s.namespace
		if namespace == "" {
			namespace = at.path()
		}
		traced <- c.trace(traceCtx, namespace, target, traceLimit)
	})
	conn := c.connectOnce(ctx, target, "", r)
	begun := !timer.Stop()
	refused := r.Connect != nil && r.Connect.ICMP != nil && !r.Connect.ICMP.Own && r.Connect.ICMP.From != target.Addr()
	switch {
	case begun && r.Connect != nil && r.Connect.TimedOut:
		r.Trace = <-traced
	case begun:
		cancel() // it ends at once; nothing of ours stays behind
		if trace := <-traced; refused {
			r.Trace = trace // what answered until the router had made up its mind
		}
	case refused:
		r.Trace = c.trace(ctx, s.namespace, target, rejectedTraceLimit)
	}
	c.explain(ctx, r)
	if conn != nil && r.Connect.Retransmits > 0 {
		r.add(lostSYNs(r))
	}
	return conn
}

// lostSYNs warns of a connection that came about only by repeating the SYN.
func lostSYNs(r *Report) classify.Finding {
	f := classify.New(classify.RouteIntermittent, "the connection to "+r.Target.String()+" came about only after its first packet was repeated",
		classify.Fact{Key: classify.FactAddress, Value: r.Target.String()},
		classify.Fact{Key: classify.FactElapsed, Value: (time.Duration(r.Connect.ElapsedMS) * time.Millisecond).String()})
	f.Endpoint, f.Severity = r.Target.String(), classify.SeverityWarn
	return f
}
