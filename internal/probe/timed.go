package probe

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/notify"
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
func (p *Probe) timed(ctx context.Context, s pull.Step, run func(context.Context, *notify.Watch) outcome) outcome {
	if ctx.Err() != nil { // the end has come: each step begun now could cost another grace
		s.Status, s.Reason = pull.StatusInconclusive, pull.EndOf(ctx)
		return outcomeOf(s)
	}
	w := p.by.Notify.Watch(notify.Progress{Step: s.ID, Endpoint: p.HostPort(), Addr: s.Addr, Subject: s.Subject, Layer: pull.SilenceOf(s.ID)})
	defer w.Stop()
	start := time.Now()
	out, ok := notify.Await(ctx, func() outcome { return run(ctx, w) })
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

// Timed makes one request within its limits.
func (p *Probe) Timed(ctx context.Context, s pull.Step, ask func(context.Context, func(int64)) pull.Outcome) pull.Outcome {
	return p.timed(ctx, s, func(ctx context.Context, w *notify.Watch) outcome { return outcome{Outcome: ask(ctx, w.Heard)} }).Outcome
}
