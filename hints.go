package pullwalk

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// hintGrace is how long the ladders of hints are waited for when the pull has come
// to its end without them.
const hintGrace = time.Second

const notTouched = "the pull came to its end without this host"

// hints starts the ladders of the hosts that pulls from this registry are known to
// touch, up to tls: one run then shows all closed doors, also where identity stops
// the walk. The returned function is for the end of the walk.
func (s *source) hints(ctx context.Context, base *url.URL) (done func()) {
	provider, hints := noderuntime.Known(base.Hostname())
	var begun []*endpoint
	for _, h := range hints {
		if !h.Concrete() {
			continue
		}
		t := target{scheme: "https", host: h.Host, port: 443, role: h.Role, foundBy: "what is known of " + provider, hint: true, known: true}
		if e := s.endpoint(ctx, t); e != nil {
			begun = append(begun, e)
		}
	}
	return func() {
		if s.finished && s.d.opts.Pull != Connect {
			for _, e := range begun {
				s.d.climbing.Go(e.leave)
			}
		}
	}
}

// leave takes e off its ladder if that is still climbed a while after the pull has
// come to its end without e. Another image may need it: what it shows then is not
// waited for, and not said of e.
func (e *endpoint) leave() {
	timer := time.NewTimer(hintGrace)
	defer timer.Stop()
	select {
	case <-e.done:
		return
	case <-timer.C:
	}
	if e.known && e.isHint() && e.part(e) {
		e.left = true
		e.cutShort()
	}
}

// cutShort records the steps on the way to e that have not been taken.
func (e *endpoint) cutShort() {
	taken := e.soFar().Steps
	has := func(id StepID, addr netip.Addr) bool {
		return slices.ContainsFunc(taken, func(st pull.Step) bool { return st.ID == id && st.Addr == addr })
	}
	cut := func(addr netip.Addr, index int, ids ...StepID) {
		by := ""
		for _, id := range ids {
			if has(id, addr) {
				continue
			}
			st := pull.Step{ID: id, Addr: addr, Status: StatusBlocked, BlockedBy: by}
			if by == "" {
				st.Status, st.Reason = StatusInconclusive, notTouched
				by = pull.StepName(id, e.hostPort(), addr)
			}
			e.record(st, index)
		}
	}
	ids := e.laneSteps()
	var lanes []pull.Step // one of each address
	for _, st := range taken {
		if st.Addr.IsValid() && !slices.ContainsFunc(lanes, func(l pull.Step) bool { return l.Addr == st.Addr }) {
			lanes = append(lanes, st)
		}
	}
	if len(lanes) == 0 {
		cut(netip.Addr{}, 0, slices.Insert(ids, 0, StepDNS)...)
		return
	}
	cut(netip.Addr{}, 0, StepDNS)
	for _, l := range lanes {
		cut(l.Addr, l.Index, ids...)
	}
	for _, id := range ids {
		if !has(id, netip.Addr{}) {
			e.record(pull.Step{ID: id, Sum: true}, 0)
		}
	}
}
