package engine

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/notify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// hints probes the hosts that pulls from this registry are known to touch: one run then
// shows all closed doors, also where identity stops the walk. The returned function is
// for the end of the walk.
func (s *source) hints(ctx context.Context, base *url.URL) (done func()) {
	provider, list := noderuntime.Known(base.Hostname())
	var begun []*way
	for _, known := range list {
		if !known.Concrete() {
			continue
		}
		t := pull.Target{Scheme: "https", Host: known.Host, Port: 443, Role: known.Role, FoundBy: "what is known of " + provider, Expected: true, Known: true}
		if h := s.run.Host(ctx, t); h != nil {
			begun = append(begun, wayOf(h))
		}
	}
	return func() {
		if s.run.Finished && s.run.Depth != pull.Connect {
			for _, w := range begun {
				s.image.unwaited.Go(w.leave)
			}
		}
	}
}

// afterSilence calls f unless what it is for has ended some seconds later. The function
// that is returned says that it has, waits for f, and may be called again.
func afterSilence(ctx context.Context, f func()) (ended func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		timer := time.NewTimer(notify.SilentAfter)
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

// lookAhead probes the sources behind s, which has not answered anything for some
// seconds: the pull will probably come to them, and silence below HTTP is then waited for
// at all of them at once. The requests stay in the runtime's order.
func (s *source) lookAhead(ctx context.Context, behind []*source) {
	if s.answered() {
		return
	}
	for _, next := range behind {
		t, err := pull.TargetOf(next.cfg.Base, next.role(), next.foundBy())
		if err != nil || next.skipped != "" || next.cfg.HTTPSFirst {
			continue
		}
		t.Expected, t.Aside = true, true
		next.run.Host(ctx, t)
	}
}

// answered reports whether the source itself has answered a request.
func (s *source) answered() bool {
	return slices.ContainsFunc(s.run.Hosts(), func(h *pull.Host) bool {
		return h.Role == s.role() && slices.ContainsFunc(h.Log().Steps, func(st pull.Step) bool { return st.Request != nil && st.Request.Status != 0 })
	})
}
