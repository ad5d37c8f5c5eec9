package pullwalk

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// Silence costs its limit once. A blob is not asked for any more when another of
// the same image was given up in silence, and neither is a token for the next
// credential: a runtime has failed by then, and each further wait would show the
// same. What runs at the same time as the first has its own limit, and overlaps.

// givenUp is a request that was given up because nothing came.
type givenUp struct {
	at    *endpoint
	name  string
	index int
}

// noteSilence remembers the first such request, in the order of the walk, or the
// rung of the ladder that it waited for.
func (s *source) noteSilence(e *endpoint, st pull.Step, index int) {
	g := givenUp{e, pull.StepName(st.ID, e.hostPort(), netip.Addr{}), index}
	switch {
	case pull.Passes(st.Status):
		return
	case st.Status == StatusBlocked && e.silent():
		g.name = st.BlockedBy
	case !gaveUp(st):
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silence.at == nil || index < s.silence.index {
		s.silence = g
	}
}

// behind says whether asking for a blob at e would only be one more wait: at a
// host that was silent already, or at the next one after it. A host whose ladder
// has failed says so itself, and costs no time.
func (s *source) behind(e, reg *endpoint) bool {
	s.mu.Lock()
	silent := s.silence.at
	s.mu.Unlock()
	if silent == nil || e == reg && silent != reg {
		return false
	}
	select {
	case <-e.ready:
		return e.through != nil
	default:
		return true
	}
}

// postponed is a blob that was not asked for. It is recorded when it is settled
// which request came first of those that were given up.
type postponed struct {
	e     *endpoint
	step  pull.Step
	index int
}

func (s *source) postpone(e *endpoint, st pull.Step, index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.postponed = append(s.postponed, postponed{e, st, index})
}

// recordPostponed is called when no blob is asked for any more.
func (s *source) recordPostponed() {
	by := s.silentStep()
	for _, p := range s.postponed {
		p.step.Status, p.step.BlockedBy = StatusBlocked, by
		p.e.record(p.step, p.index)
	}
}

// silentStep names what was given up; "" = nothing was.
func (s *source) silentStep() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silence.name
}

// gaveUp says that a step was ended by how long we wait.
func gaveUp(st pull.Step) bool {
	return slices.ContainsFunc(st.Findings, func(f classify.Finding) bool {
		_, err := time.ParseDuration(f.Fact(classify.FactLimit)) // others are of size
		return err == nil
	})
}

// silent says that a rung of the ladder was given up.
func (e *ladder) silent() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.taken, func(s pull.Step) bool {
		waited := time.Duration(s.ElapsedMS) * time.Millisecond
		return !pull.Passes(s.Status) && (gaveUp(s) || s.ID == StepDNS && waited >= e.d.limits.DNS)
	})
}

// afterSilence calls f unless what it is for has ended some seconds later. The
// function that is returned says that it has, waits for f, and may be called
// again.
func afterSilence(ctx context.Context, f func()) (ended func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		timer := time.NewTimer(silentAfter)
		defer timer.Stop()
		select {
		case <-timer.C:
			f()
		case <-stop:
		case <-ctx.Done():
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
}

// lookAhead begins the ladders of the sources behind s, which has not answered
// anything for some seconds: the pull will probably come to them, and silence
// below HTTP is then waited for at all of them at once. The requests stay in the
// runtime's order.
func (s *source) lookAhead(ctx context.Context, behind []*source) {
	if s.answered() {
		return
	}
	for _, next := range behind {
		t, err := targetOf(next.cfg.Base, next.role(), next.foundBy())
		if err != nil || next.skipped != "" || next.cfg.HTTPSFirst {
			continue
		}
		t.hint, t.aside = true, true
		next.endpoint(ctx, t)
	}
}

// answered says that the source itself has answered a request.
func (s *source) answered() bool {
	return slices.ContainsFunc(s.snapshot(), func(e *endpoint) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.role == s.role() && slices.ContainsFunc(e.steps, func(st pull.Step) bool { return st.Request != nil && st.Request.Status != 0 })
	})
}
