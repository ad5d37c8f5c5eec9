package pullwalk

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// blobs asks for the configuration and every layer, a few at a time as the
// runtimes do. When only the first bytes are read, as many more are on their way:
// while bytes come from one host, the registry is asked for the next blob, and no
// host is asked more at once than by the runtime. Whole downloads do not begin
// ahead, because a signed address may expire while it waits.
func (s *source) blobs(ctx context.Context, reg *endpoint, w *registry.Walk, m *registry.Manifest) {
	list, modes := m.Blobs(), m.TouchModes()
	complete := s.d.opts.Pull == Complete
	ahead := s.d.parallel
	if !complete {
		ahead *= 2
	}
	slots := make(chan struct{}, ahead)
	reports := make([]*registry.Report, len(list))
	var wg sync.WaitGroup
	for i, blob := range list {
		f := &fetch{s: s, reg: reg, w: w, id: StepLayer, blob: blob, mode: modes[i], index: i}
		if i == 0 {
			f.id = StepConfig
		}
		if complete {
			f.mode = registry.Whole
		}
		select { // here and not in the goroutine, so that they begin in their order
		case slots <- struct{}{}:
		case <-ctx.Done():
			reg.record(pull.Step{ID: f.id, Subject: blob.Digest, Status: StatusInconclusive, Reason: reasonOf(ctx)}, i)
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			reports[i] = f.run(ctx)
		})
	}
	asking, stop := context.WithCancel(ctx)
	head := make(chan pull.Step, 1)
	if complete {
		head <- pull.Step{}
	} else {
		go func() { head <- s.head(asking, reg, w, list) }()
	}
	wg.Wait()
	s.recordPostponed()
	time.AfterFunc(pingGrace, stop) // no pull needs it
	s.compareHead(reg, <-head, list, reports)
	s.finished = true
	if complete {
		s.proof = proofOf(s.digest, s.inStore, reports)
	}
}

// proofOf is nil unless every report says that all bytes came and their digest
// was right.
func proofOf(digest string, inStore int, reports []*registry.Report) *Proof {
	p := &Proof{Digest: digest, Layers: len(reports) - 1, InNodeStore: inStore}
	for _, r := range reports {
		if r == nil || !r.Complete {
			return nil
		}
		p.Bytes += r.Bytes
	}
	return p
}

// fetch is one blob on its way from the registry to where its bytes are.
type fetch struct {
	s             *source
	reg           *endpoint
	w             *registry.Walk
	id            StepID
	blob          registry.Descriptor
	mode          registry.Mode
	index         int
	authorization string
	begun         bool // some of it has come
	postponed     bool // behind another that was given up in silence
}

// run returns the last report, nil if a hop could not be asked.
func (f *fetch) run(ctx context.Context) *registry.Report {
	f.authorization = f.s.auth.current(ctx, "")
	if r, settled := f.foreign(ctx); settled {
		return r
	}
	return f.registry(ctx)
}

// ask makes one request at e when it is its turn there.
func (f *fetch) ask(ctx context.Context, e *endpoint, do func(*registry.Walk, http.RoundTripper) *registry.Report) pull.Step {
	st := pull.Step{ID: f.id, Subject: f.blob.Digest}
	select {
	case e.turns <- struct{}{}:
		defer func() { <-e.turns }()
	case <-ctx.Done():
		st.Status, st.Reason = StatusInconclusive, reasonOf(ctx)
		return st
	}
	if !f.begun && f.s.behind(e, f.reg) {
		f.postponed, st.Status = true, StatusBlocked
		f.s.postpone(e, st, f.index)
		return st
	}
	st = f.s.persist(ctx, e, st, func(_ context.Context, rt http.RoundTripper, wt *watch) outcome {
		own := *f.w
		own.OnBytes, own.Authorization = wt.heard, f.authorization
		return outcome{Step: requestStatus(st, do(&own, rt))}
	}).Step
	f.s.noteSilence(e, st, f.index) // before the next has its turn
	return st
}

// follow takes the redirects of a request at e. Each hop that leads on is
// recorded, and the last step is not: what it amounts to may depend on the next.
func (f *fetch) follow(ctx context.Context, e *endpoint, st pull.Step) (*endpoint, pull.Step) {
	for st.Request != nil && pull.Passes(st.Status) && st.Request.Redirect() != nil {
		e.record(st, f.index)
		prev := st.Request
		t, err := targetOf(prev.Redirect(), endpoints.RoleBlob, "a redirect of "+prev.Host)
		if err != nil {
			return nil, pull.Step{} // the report says already what is wrong with the Location
		}
		t.ownRoots = e.ownRoots
		if e = f.s.endpoint(ctx, t); e == nil {
			return nil, pull.Step{} // the overflow is told
		}
		st = f.ask(ctx, e, func(w *registry.Walk, rt http.RoundTripper) *registry.Report {
			return w.Follow(ctx, rt, prev, f.blob, f.mode)
		})
	}
	return e, st
}

// maxResumes bounds how often one blob is taken up again.
const maxResumes = 8

// registry asks the registry for the blob, and for the rest of a download that
// broke off.
func (f *fetch) registry(ctx context.Context) *registry.Report {
	var broken *registry.Report
	renewed := false
	for resumed := 0; ; {
		st := f.ask(ctx, f.reg, func(w *registry.Walk, rt http.RoundTripper) *registry.Report {
			if broken != nil {
				return w.Resume(ctx, rt, broken, f.blob)
			}
			return w.Blob(ctx, rt, f.blob, f.mode)
		})
		if !renewed && st.Request != nil && st.Request.Status == http.StatusUnauthorized {
			// The token may have run out during a long download: the runtime fetches
			// another and asks again.
			if next := f.s.auth.current(ctx, f.authorization); next != f.authorization {
				f.authorization, renewed = next, true
				continue
			}
		}
		e, st := f.follow(ctx, f.reg, st)
		if e == nil || f.postponed {
			return nil
		}
		if got := st.Request; got != nil && got.Resumable() && resumed < maxResumes && (broken == nil || got.Bytes > broken.Bytes) {
			// As the runtimes: from the byte that is missing, while there is progress.
			broken, f.begun = got, true
			resumed++
			continue
		}
		if f.mode == registry.Ranged64K && st.Status == StatusFailed {
			return f.whole(ctx, e, st)
		}
		return e.record(st, f.index).Request
	}
}
