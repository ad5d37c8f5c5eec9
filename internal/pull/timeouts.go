package pull

import (
	"net/netip"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Silence costs its limit once. A blob is not asked for any more when another of the
// same image was given up in silence, and neither is a token for the next credential: a
// runtime has failed by then, and each further wait would show the same. What runs at
// the same time as the first has its own limit, and overlaps.

// givenUp is a request that was given up because nothing came.
type givenUp struct {
	at    *Host
	name  string
	index int
}

// noteSilence remembers the first such request, in the order of the walk, or the step
// that it waited for.
func (r *Run) noteSilence(h *Host, st Step, index int) {
	g := givenUp{h, StepName(st.ID, h.HostPort(), netip.Addr{}), index}
	switch {
	case Passes(st.Status):
		return
	case st.Status == StatusBlocked && h.Way().Silent():
		g.name = st.BlockedBy
	case !GaveUp(st):
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silence.at == nil || index < r.silence.index {
		r.silence = g
	}
}

// behind reports whether asking for a blob at h would only be one more wait: at a host
// that was silent already, or at the next one after it. A host to which the way is
// barred says so itself, and costs no time.
func (r *Run) behind(h, reg *Host) bool {
	r.mu.Lock()
	silent := r.silence.at
	r.mu.Unlock()
	if silent == nil || h == reg && silent != reg {
		return false
	}
	select {
	case <-h.Way().Ready():
		rt, _ := h.Way().Open()
		return rt != nil
	default:
		return true
	}
}

// postponed is a blob that was not asked for. It is recorded when it is settled which
// request came first of those that were given up.
type postponed struct {
	at    *Host
	step  Step
	index int
}

func (r *Run) postpone(h *Host, st Step, index int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.postponed = append(r.postponed, postponed{h, st, index})
}

// recordPostponed is called when no blob is asked for any more.
func (r *Run) recordPostponed() {
	by := r.silentStep()
	for _, p := range r.postponed {
		p.step.Status, p.step.BlockedBy = StatusBlocked, by
		p.at.Record(p.step, p.index)
	}
}

// silentStep names what was given up; "" = nothing was.
func (r *Run) silentStep() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.silence.name
}

// GaveUp reports whether a step was ended by how long we wait.
func GaveUp(st Step) bool {
	return slices.ContainsFunc(st.Findings, func(f classify.Finding) bool {
		_, err := time.ParseDuration(f.Fact(classify.FactLimit)) // others are of size
		return err == nil
	})
}
