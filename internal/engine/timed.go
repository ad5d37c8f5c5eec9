package engine

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// outcome is a finished step, with the connection that it opened, if any. The connection
// travels with the step, so that code left behind by await can never write to what
// others read.
type outcome struct {
	pull.Outcome
	conn  net.Conn
	spare net.Conn // one more, verified like conn
}

func outcomeOf(s pull.Step) outcome { return outcome{Outcome: pull.Outcome{Step: s}} }

// timed runs one step: it is watched for silence, and left behind if it ignores
// the end of ctx.
func (p *probe) timed(ctx context.Context, s pull.Step, run func(context.Context, *watch) outcome) outcome {
	if ctx.Err() != nil { // the end has come: each step begun now could cost another grace
		s.Status, s.Reason = pull.StatusInconclusive, pull.EndOf(ctx)
		return outcomeOf(s)
	}
	w := p.call.notify.watch(Progress{Step: s.ID, Endpoint: p.HostPort(), Addr: s.Addr, Subject: s.Subject, Layer: pull.SilenceOf(s.ID)})
	defer w.stop()
	start := time.Now()
	out, ok := await(ctx, func() outcome { return run(ctx, w) })
	if !ok {
		out = outcomeOf(s)
		out.Status, out.Reason = pull.StatusInconclusive, pull.EndOf(ctx)+"; code of the caller did not return"
	}
	out.ElapsedMS = time.Since(start).Milliseconds()
	return out
}

// questionFailed turns the error of a probe, which means that the question could
// not be asked, into a step that says so.
func questionFailed(s pull.Step, err error) pull.Step {
	s.Status, s.Reason = pull.StatusInconclusive, classify.Redact(err.Error(), 300)
	if errors.Is(err, errors.ErrUnsupported) {
		s.Status = pull.StatusSkipped
	}
	return s
}

// grace is how long a seam may take to notice that its context ended.
const grace = 100 * time.Millisecond

// await runs f and waits for it. When ctx ends, f gets a short grace; after that
// it is left behind, which only code that ignores its context can bring about,
// and await reports false.
func await[T any](ctx context.Context, f func() T) (T, bool) {
	out := make(chan T, 1)
	go func() { out <- f() }()
	select {
	case v := <-out:
		return v, true
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case v := <-out:
		return v, true
	case <-timer.C:
		var zero T
		return zero, false
	}
}
