package reach

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// pressureWait bounds how long the kernel's counters are waited for: they are
// files without a disk behind them, unless somebody's file tree says otherwise.
const pressureWait = 500 * time.Millisecond

// pressureWatch looks at the kernel's counters twice while a connect is silent:
// only what grows in between says something. A connect that is answered within
// the second of silence costs no look.
type pressureWatch struct {
	fsys  fs.FS
	timer *time.Timer
	first chan *Pressure
}

// watchPressure begins with a connect; nil = not asked for.
func watchPressure(fsys fs.FS) *pressureWatch {
	if fsys == nil {
		return nil
	}
	w := &pressureWatch{fsys: fsys, first: make(chan *Pressure, 1)}
	w.timer = time.AfterFunc(traceAfter, func() { w.first <- CheckPressure(w.fsys) })
	return w
}

// explain notes what the machine lacked when nothing answered, or when it could
// not even ask.
func (w *pressureWatch) explain(ctx context.Context, r *Report) {
	if w == nil {
		return
	}
	var before *Pressure
	if !w.timer.Stop() {
		before = soon(ctx, w.first)
	}
	silent := r.Connect != nil && r.Connect.TimedOut
	local := slices.ContainsFunc(r.findings, func(f classify.Finding) bool { return f.Cause == classify.NodeLocalLimit })
	if !silent && !local {
		return
	}
	again := make(chan *Pressure, 1)
	go func() { again <- CheckPressure(w.fsys) }()
	if r.Pressure = soon(ctx, again); r.Pressure != nil {
		r.underPressure(before)
	}
}

// soon waits for a look, and gives up on one that does not come.
func soon(ctx context.Context, look <-chan *Pressure) *Pressure {
	timer := time.NewTimer(pressureWait)
	defer timer.Stop()
	select {
	case p := <-look:
		return p
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// underPressure puts what is short beside the finding of the connect, or in its
// place: a table that is full while packets are dropped for want of room explains
// the silence, one that is only full may.
func (r *Report) underPressure(before *Pressure) {
	now := r.Pressure
	var dropped int64
	if before != nil {
		dropped = now.ConntrackDrops - before.ConntrackDrops
	}
	last := len(r.findings) - 1
	if last < 0 {
		return
	}
	found := now.Findings()
	crowded := now.ConntrackMax > 0 && float64(now.ConntrackCount) >= pressureWarn*float64(now.ConntrackMax)
	if crowded && dropped > 0 && r.findings[last].Severity == classify.SeverityFail {
		f := r.findings[last]
		f = addFact(f, factUse, fmt.Sprintf("%d/%d", now.ConntrackCount, now.ConntrackMax))
		r.findings[last] = instead(f, classify.RoutePressure, classify.CertaintyLikely,
			fmt.Sprintf("%v gave no answer while this machine dropped %d packets for want of room in its connection tracking table, in which %d of %d entries are in use", r.Target, dropped, now.ConntrackCount, now.ConntrackMax),
			append([]classify.Cause{f.Cause}, f.Alternatives...)...)
		return
	}
	if len(found) > 0 && r.findings[last].Severity == classify.SeverityFail && !slices.Contains(r.findings[last].Alternatives, classify.RoutePressure) {
		r.findings[last].Alternatives = append(slices.Clone(r.findings[last].Alternatives), classify.RoutePressure)
	}
	for _, f := range found {
		f.Severity, f.Endpoint = classify.SeverityWarn, r.Target.String()
		r.add(f)
	}
}
