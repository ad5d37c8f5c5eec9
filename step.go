package pullwalk

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// outcome is a finished step, with the connection that it opened, if any. The
// connection travels with the step, so that code left behind by await can never
// write to what others read.
type outcome struct {
	pull.Step
	conn     net.Conn
	spare    net.Conn // one more, verified like conn
	manifest *registry.Manifest
	token    registry.TokenResult
	at       *endpoint // where a token exchange ended; nil = where it began
}

// timed runs one step: it is watched for silence, and left behind if it ignores
// the end of ctx.
func (e *ladder) timed(ctx context.Context, s pull.Step, run func(context.Context, *watch) outcome) outcome {
	if ctx.Err() != nil { // the end has come: each step begun now could cost another grace
		s.Status, s.Reason = StatusInconclusive, reasonOf(ctx)
		return outcome{Step: s}
	}
	w := e.d.notify.watch(Progress{Step: s.ID, Endpoint: e.hostPort(), Addr: s.Addr, Subject: s.Subject, Layer: pull.SilenceOf(s.ID)})
	defer w.stop()
	start := time.Now()
	out, ok := await(ctx, func() outcome { return run(ctx, w) })
	if !ok {
		out = outcome{Step: s}
		out.Status, out.Reason = StatusInconclusive, reasonOf(ctx)+"; code of the caller did not return"
	}
	out.ElapsedMS = time.Since(start).Milliseconds()
	return out
}

var errBudget = errors.New("the budget ended")

// reasonOf says in words why ctx ended.
func reasonOf(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errBudget):
		return "the budget ended"
	case errors.Is(cause, context.DeadlineExceeded):
		return "the caller's deadline passed"
	}
	return "canceled by the caller"
}

// questionFailed turns the error of a probe, which means that the question could
// not be asked, into a step that says so.
func questionFailed(s pull.Step, err error) pull.Step {
	s.Status, s.Reason = StatusInconclusive, classify.Redact(err.Error(), 300)
	if errors.Is(err, errors.ErrUnsupported) {
		s.Status = StatusSkipped
	}
	return s
}
