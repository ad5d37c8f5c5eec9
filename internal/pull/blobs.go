package pull

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/internal/registry"
)

// blobs asks for the configuration and every layer, a few at a time as the
// runtimes do. When only the first bytes are read, as many more are on their way:
// while bytes come from one host, the registry is asked for the next blob, and no
// host is asked more at once than by the runtime. Whole downloads do not begin
// ahead, because a signed address may expire while it waits.
func (r *Run) blobs(ctx context.Context, reg *Host, m *registry.Manifest) {
	list, modes := m.Blobs(), m.TouchModes()
	complete := r.Depth == Complete
	ahead := max(r.Parallel, 1)
	if !complete {
		ahead *= 2
	}
	slots := make(chan struct{}, ahead)
	r.Blobs = make([]*registry.Report, len(list))
	var wg sync.WaitGroup
	for i, blob := range list {
		f := &fetch{r: r, reg: reg, id: StepLayer, blob: blob, mode: modes[i], index: i}
		if i == 0 {
			f.id = StepConfig
		}
		if complete {
			f.mode = registry.Whole
		}
		select { // here and not in the goroutine, so that they begin in their order
		case slots <- struct{}{}:
		case <-ctx.Done():
			reg.Record(Step{ID: f.id, Subject: blob.Digest, Status: StatusInconclusive, Reason: EndOf(ctx)}, i)
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			r.Blobs[i] = f.run(ctx)
		})
	}
	asking, stop := context.WithCancel(ctx)
	head := make(chan Step, 1)
	if complete {
		head <- Step{}
	} else {
		go func() { head <- r.head(asking, reg, list) }()
	}
	wg.Wait()
	r.recordPostponed()
	time.AfterFunc(pingGrace, stop) // no pull needs it
	r.compareHead(reg, <-head, list)
	r.Finished = true
}

// fetch is one blob on its way from the registry to where its bytes are.
type fetch struct {
	r             *Run
	reg           *Host
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
	f.authorization = f.r.auth.current(ctx, "")
	if rep, ok := f.foreign(ctx); ok {
		return rep
	}
	return f.registry(ctx)
}

// ask makes one request at h when it is its turn there.
func (f *fetch) ask(ctx context.Context, h *Host, do func(*registry.Walk, http.RoundTripper) *registry.Report) Step {
	st := Step{ID: f.id, Subject: f.blob.Digest}
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-ctx.Done():
		st.Status, st.Reason = StatusInconclusive, EndOf(ctx)
		return st
	}
	if !f.begun && f.r.behind(h, f.reg) {
		f.postponed, st.Status = true, StatusBlocked
		f.r.postpone(h, st, f.index)
		return st
	}
	st = f.r.persist(ctx, h, st, func(_ context.Context, rt http.RoundTripper, heard func(int64)) Outcome {
		own := f.r.Requests
		own.OnBytes, own.Authorization = heard, f.authorization
		return Outcome{Step: requestStatus(st, do(&own, rt))}
	}).Step
	f.r.noteSilence(h, st, f.index) // before the next has its turn
	return st
}

// follow takes the redirects of a request at h. Each hop that leads on is
// recorded, and the last step is not: what it amounts to may depend on the next.
func (f *fetch) follow(ctx context.Context, h *Host, st Step) (*Host, Step) {
	for st.Request != nil && Passes(st.Status) && st.Request.Redirect() != nil {
		h.Record(st, f.index)
		prev := st.Request
		t, err := TargetOf(prev.Redirect(), registry.RoleBlob, "a redirect of "+prev.Host)
		if err != nil {
			return nil, Step{} // the report says already what is wrong with the Location
		}
		t.OwnRoots = h.OwnRoots
		if h = f.r.Host(ctx, t); h == nil {
			return nil, Step{} // it is counted
		}
		st = f.ask(ctx, h, func(w *registry.Walk, rt http.RoundTripper) *registry.Report {
			return w.Follow(ctx, rt, prev, f.blob, f.mode)
		})
	}
	return h, st
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
			if next := f.r.auth.current(ctx, f.authorization); next != f.authorization {
				f.authorization, renewed = next, true
				continue
			}
		}
		h, st := f.follow(ctx, f.reg, st)
		if h == nil || f.postponed {
			return nil
		}
		if got := st.Request; got != nil && got.Resumable() && resumed < maxResumes && (broken == nil || got.Bytes > broken.Bytes) {
			// As the runtimes: from the byte that is missing, while there is progress.
			broken, f.begun = got, true
			resumed++
			continue
		}
		if f.mode == registry.Ranged64K && st.Status == StatusFailed {
			return f.whole(ctx, h, st)
		}
		return h.Record(st, f.index).Request
	}
}

// whole asks again for a layer of which a part was refused, as the runtime asks
// for it. That decides; the part is held against it.
func (f *fetch) whole(ctx context.Context, h *Host, part Step) *registry.Report {
	own := *f
	own.mode = registry.First64K
	rep := own.registry(ctx)
	part.Findings, part.Retry = registry.CompareRange(part.Request, rep), nil
	part.Status, part.Reason = StatusSkipped, "only a part was asked for, which no runtime does at first; the request for the whole decides"
	if len(part.Findings) > 0 {
		part.Status, part.Reason = StatusDegraded, ""
		part.Request.Outcome = registry.OutcomeNotNeeded
	}
	h.Record(part, f.index)
	return rep
}

// head asks the registry for one layer by HEAD, beside the others and when it is its
// turn. Redirects are not followed: an address that was signed for GET refuses HEAD
// with good reason. No runtime makes the request: it is not repeated, and that
// nobody answers it says nothing of the next blob. The step has no ID if there is no
// layer that the registry is asked for.
func (r *Run) head(ctx context.Context, reg *Host, list []registry.Descriptor) Step {
	i := layerOfRegistry(list)
	if i < 0 {
		return Step{}
	}
	st := Step{ID: StepLayer, Subject: list[i].Digest}
	select {
	case reg.turns <- struct{}{}:
		defer func() { <-reg.turns }()
	case <-ctx.Done():
		st.Status, st.Reason = StatusInconclusive, EndOf(ctx)
		return st
	}
	return reg.Request(ctx, st, func(ctx context.Context, rt http.RoundTripper, _ func(int64)) Outcome {
		own := r.Requests
		own.Authorization = r.auth.current(ctx, "")
		return Outcome{Step: requestStatus(st, own.Head(ctx, rt, list[i]))}
	}).Step
}

// layerOfRegistry is the first blob behind the configuration that names no place of
// its own, -1 if there is none.
func layerOfRegistry(list []registry.Descriptor) int {
	for i, d := range list {
		if i > 0 && len(d.ForeignURLs()) == 0 {
			return i
		}
	}
	return -1
}

// compareHead records the HEAD, and where it is refused and GET is not. No pull
// depends on it.
func (r *Run) compareHead(reg *Host, st Step, list []registry.Descriptor) {
	if st.ID == "" {
		return
	}
	if !Passes(st.Status) {
		st.Status, st.Reason, st.BlockedBy, st.Findings = StatusSkipped, "no pull asks for a layer by HEAD", "", nil
	}
	if differ := registry.CompareHead(st.Request, r.Blobs[layerOfRegistry(list)]); len(differ) > 0 {
		st = StatusOf(st, true, "", differ)
	}
	if st.Request != nil && st.Request.Outcome == registry.OutcomeFailed {
		st.Request.Outcome = registry.OutcomeNotNeeded
	}
	reg.Record(st, len(r.Blobs))
}

// foreign asks the places that a layer names itself, which the runtimes do before
// they ask the registry. It reports false if the registry is to be asked.
func (f *fetch) foreign(ctx context.Context) (*registry.Report, bool) {
	places := f.blob.ForeignURLs()
	if len(places) == 0 {
		return nil, false
	}
	if f.mode == registry.Ranged64K {
		f.mode = registry.First64K // what was seen of the registry's layers says nothing of this host
	}
	for i, u := range places {
		t, err := TargetOf(u, registry.RoleBlob, "the manifest")
		if err != nil {
			f.reg.Record(Step{ID: f.id, Subject: f.blob.Digest, Status: StatusInconclusive, Reason: "the layer's own place cannot be asked: " + err.Error()}, f.index)
			return nil, true
		}
		own := f.r.Requests.Client.ForeignSettings
		t.OwnRoots = !own                     // containerd asks with its default client there
		t.Expected = own && i < len(places)-1 // CRI-O goes on, whatever happens
		h := f.r.Host(ctx, t)
		if h == nil {
			return nil, true // it is counted
		}
		h, st := f.follow(ctx, h, f.ask(ctx, h, func(w *registry.Walk, rt http.RoundTripper) *registry.Report {
			return w.Foreign(ctx, rt, u, f.blob, f.mode)
		}))
		if h == nil || f.postponed {
			return nil, true
		}
		st = h.Record(st, f.index)
		if t.Expected && st.Status == StatusBlocked {
			continue
		}
		if st.Request == nil || st.Request.Outcome != registry.OutcomeNotNeeded {
			return st.Request, true
		}
	}
	return nil, false
}
