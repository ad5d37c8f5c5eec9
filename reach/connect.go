package reach

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// limitReached is the cause of a context that our own limit ended. Each call
// makes its own, so that the limit of an outer call is never taken for ours.
type limitReached struct{ limit time.Duration }

func (e *limitReached) Error() string { return "no answer within " + e.limit.String() }

// open calls the dialer, and watches the socket where that can be done.
func (c *Checker) open(ctx context.Context, target netip.AddrPort, namespace string) (net.Conn, *watch, error) {
	s, ok := socketsOf(c.Dialer)
	if !ok {
		conn, err := c.Dialer.DialContext(ctx, "tcp", target.String())
		return conn, newWatch(), err
	}
	if namespace != "" {
		s.namespace = namespace
	}
	return s.dial(ctx, "tcp", target.String(), socketOptions{observe: canObserve})
}

// connectOnce tries target once and notes the outcome in r. The returned
// connection is open; nil means that there is none. from is the namespace to look from, "" = the
// Checker's.
func (c *Checker) connectOnce(ctx context.Context, target netip.AddrPort, from string, r *Report) net.Conn {
	if ctx.Err() != nil {
		r.inconclusive(endedReason(ctx, "the connect"))
		return nil
	}
	own := &limitReached{c.limit()}
	stepCtx, cancel := context.WithTimeoutCause(ctx, own.limit, own)
	defer cancel()

	start := time.Now()
	conn, w, err := c.open(stepCtx, target, from)
	defer w.close()
	r.Connect = &Connect{ElapsedMS: time.Since(start).Milliseconds()}
	if err == nil && conn != nil {
		r.Connect.Connected, r.Connect.Source = true, localAddr(conn)
		r.Connect.count(w.connected())
		return conn
	}
	if err == nil {
		r.inconclusive("the dialer returned neither a connection nor an error")
		return nil
	}
	var namespace *namespaceError
	if errors.As(err, &namespace) {
		r.Connect = nil // nothing was sent
		r.inconclusive(boundedText(err))
		return nil
	}
	counted, source, icmp := w.failed()
	r.Connect.count(counted)
	r.Connect.RoundTripMS = 0 // that of a SYN without an answer is the kernel's first guess
	r.Connect.Source, r.Connect.ICMP = source, icmp
	r.Connect.Error = boundedText(err)
	errno := errnoOf(err)
	r.Connect.Errno = errno
	if errno == "ECONNRESET" {
		// A reset in the place of an answer is ECONNREFUSED (RFC 9293, 3.10.7.3):
		// this one came after the accept, before the dialer could look.
		r.Connect.After = "reset"
	}

	// net.Dialer arms its own timer from the context's deadline and may be ahead
	// of the context by a moment; wait for it, or its end would look like an
	// error of the network.
	var netErr net.Error
	if errno == "" && errors.As(err, &netErr) && netErr.Timeout() {
		if deadline, ok := stepCtx.Deadline(); ok && !time.Now().Before(deadline) {
			<-stepCtx.Done()
		}
	}
	stage := &classify.StageError{Stage: classify.StageConnect, Endpoint: target.String(), Address: target.String(), Err: err}
	switch ended := context.Cause(stepCtx); {
	case errno != "": // an answer, even if it came with the last moment of a limit
		r.Connect.TimedOut = errno == "ETIMEDOUT"
	case ended == error(own):
		r.Connect.TimedOut = true
		stage.Limit = own.limit
	case ended != nil:
		r.inconclusive(endedReason(ctx, "the connect"))
		return nil
	case netErr != nil && netErr.Timeout():
		r.Connect.TimedOut = true // a limit of the caller's own Dialer
	}

	f := classify.Error(stage)
	if f.Cause == classify.NodeLocalLimit || outOfDescriptors(errno) {
		r.localLimit(target.String(), "connect to", err)
		return nil
	}
	f.Endpoint = target.String()
	f = addFact(f, classify.FactAddress, target.String())
	f = addFact(f, classify.FactErrno, errno)
	r.add(f)
	return nil
}

// count takes over what the kernel counted.
func (c *Connect) count(counted tcpInfo) {
	c.RoundTripMS = counted.roundTrip / 1000
	c.Retransmits, c.Segment, c.PathMTU = counted.retransmits, counted.segment, counted.pathMTU
}

// connect tries target, looks for what explains a failure, and notes in r what
// came of it. The returned connection is open; nil means that there is none.
func (c *Checker) connect(ctx context.Context, target netip.AddrPort, r *Report) net.Conn {
	pressure := watchPressure(c.Pressure)
	conn := c.connectTraced(ctx, target, r)
	pressure.explain(ctx, r)
	return conn
}

// connectTraced traces the way when target stays silent or a router refuses.
func (c *Checker) connectTraced(ctx context.Context, target netip.AddrPort, r *Report) net.Conn {
	s, observed := socketsOf(c.Dialer)
	if !observed || !canObserve || c.NoTrace {
		conn := c.connectOnce(ctx, target, "", r)
		explain(ctx, c.Router, r)
		return conn
	}
	// Begun beside a connect that is silent for a second, so that both are done
	// within the limit of the connect.
	at := here()
	traced := make(chan *Trace, 1)
	traceCtx, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	timer := time.AfterFunc(traceAfter, func() {
		namespace := s.namespace
		if namespace == "" {
			namespace = at.path()
		}
		traced <- c.traces.trace(traceCtx, namespace, target, traceLimit)
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
		r.Trace = c.traces.trace(ctx, s.namespace, target, rejectedTraceLimit)
	}
	explain(ctx, c.Router, r)
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
