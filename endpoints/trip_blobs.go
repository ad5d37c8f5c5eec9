package endpoints

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// blobs walks every blob, a few at once and begun in their order, and returns the
// last report of each. A runtime reads the config before it asks for a layer; here
// nothing depends on it, so the layers do not wait. When only the first bytes are read, as many more are on
// their way: while bytes come from one host, the registry is asked for the next
// blob. No host is asked more at once than the runtime would. Whole downloads do
// not begin ahead, because a signed address may expire while it waits.
func (t *trip) blobs(ctx context.Context, blobs []Descriptor, modes []Mode) []*RequestReport {
	logs := make([]ledger, len(blobs))
	last := make([]*RequestReport, len(blobs))
	ahead := t.parallel()
	if t.c.Mode != Whole {
		ahead *= 2
	}
	slots := make(chan struct{}, ahead)
	var running sync.WaitGroup
	for i, d := range blobs {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			mode := t.c.Mode
			if mode == First64K {
				mode = modes[i]
			}
			last[i] = t.blob(ctx, &logs[i], d, mode)
		})
	}
	var extra ledger
	one := slices.IndexFunc(blobs, func(d Descriptor) bool { return d.Digest != blobs[0].Digest && len(d.ForeignURLs()) == 0 })
	if t.c.Mode != Whole && one > 0 && ctx.Err() == nil {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			t.head(ctx, &extra, blobs[one])
		})
	}
	running.Wait()
	for i := range logs {
		t.merge(&logs[i])
	}
	if len(extra.requests) > 0 {
		head := extra.requests[0]
		head.Found = CompareHead(head, last[one])
		if !head.Held() { // no pull depends on it
			head.Outcome, head.Inconclusive = OutcomeNotNeeded, ""
		}
		t.merge(&extra)
	}
	return last
}

// head asks the registry for one layer by HEAD. Redirects are not followed: an
// address that was signed for GET refuses HEAD with good reason.
func (t *trip) head(ctx context.Context, l *ledger, d Descriptor) {
	_, by := t.origin()
	h, err := t.pool(l, t.w.Origin(), RoleBlob, by)
	if err != nil {
		return
	}
	l.note(h.ask(ctx, func(rt http.RoundTripper) *RequestReport { return t.w.Head(ctx, rt, d) }))
}

func (t *trip) parallel() int {
	if t.c.Concurrency > 0 {
		return t.c.Concurrency
	}
	return t.files.Parallel
}

// host is one host of a trip: its connections, and how many requests may use them
// at once.
type host struct {
	registry.Pool
	slots chan struct{}
}

// ask makes one request step at a host, when it is its turn there.
func (h *host) ask(ctx context.Context, step func(http.RoundTripper) *RequestReport) *RequestReport {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done(): // the step says so
	}
	return step(h)
}

// blob walks one blob: its foreign places first, then the source, then the rest of
// a download that broke off.
func (t *trip) blob(ctx context.Context, l *ledger, d Descriptor, mode Mode) *RequestReport {
	w := *t.w
	w.OnBytes = t.progress(&w, d)
	for _, u := range d.ForeignURLs() {
		rt, err := t.poolWith(l, t.foreign(), u, RoleBlob, "the manifest")
		if err != nil {
			return nil
		}
		r := rt.ask(ctx, func(rt http.RoundTripper) *RequestReport { return w.Foreign(ctx, rt, u, d, mode) })
		r = t.follow(ctx, l, &w, t.foreign(), r, d, mode)
		if r == nil || r.Outcome != OutcomeNotNeeded {
			return r
		}
	}
	_, by := t.origin()
	ask := func(step func(http.RoundTripper) *RequestReport) *RequestReport {
		h, err := t.pool(l, t.w.Origin(), RoleBlob, by)
		if err != nil {
			return nil
		}
		return t.follow(ctx, l, &w, t.src, h.ask(ctx, step), d, mode)
	}
	r := ask(func(rt http.RoundTripper) *RequestReport { return w.Blob(ctx, rt, d, mode) })
	for r != nil && r.Resumable() {
		broken := r
		if r = ask(func(rt http.RoundTripper) *RequestReport { return w.Resume(ctx, rt, broken, d) }); r != nil {
			broken.Superseded(r)
		}
	}
	if r != nil && mode == Ranged64K && r.Outcome == OutcomeFailed {
		ranged := r
		mode = First64K
		r = ask(func(rt http.RoundTripper) *RequestReport { return w.Blob(ctx, rt, d, mode) })
		if findings := CompareRange(ranged, r); findings != nil {
			ranged.Outcome, ranged.Found = OutcomeNotNeeded, findings
		}
	}
	return r
}

// follow takes the redirects of one blob request.
func (t *trip) follow(ctx context.Context, l *ledger, w *Walk, src noderuntime.Source, r *RequestReport, d Descriptor, mode Mode) *RequestReport {
	l.note(r)
	for r.Redirect() != nil {
		h, err := t.poolWith(l, src, r.Redirect(), RoleBlob, r.Host)
		if err != nil {
			return nil
		}
		prev := r
		r = l.note(h.ask(ctx, func(rt http.RoundTripper) *RequestReport { return w.Follow(ctx, rt, prev, d, mode) }))
	}
	return r
}

// progress returns what tells the caller about the bytes of one blob.
func (t *trip) progress(w *Walk, d Descriptor) func(int64) {
	if t.c.OnBytes == nil && t.c.OnProgress == nil {
		return nil
	}
	start := time.Now()
	var bytes, told int64
	return func(n int64) {
		t.telling.Lock()
		defer t.telling.Unlock()
		if t.c.OnBytes != nil {
			t.c.OnBytes(n)
		}
		bytes += n
		if t.c.OnProgress == nil || bytes-told < progressStep && bytes < d.Size {
			return
		}
		told = bytes
		p := Progress{Digest: d.Digest, Source: cmp.Or(w.Origin().Host, t.src.Host), Bytes: bytes, Size: d.Size}
		if elapsed := time.Since(start); elapsed > 0 {
			p.BytesPerSecond = int64(float64(bytes) / elapsed.Seconds())
		}
		t.c.OnProgress(p)
	}
}

// Progress is how the download of one blob stands.
type Progress struct {
	Digest         string
	Source         string // host[:port] that was asked for it; its bytes may come from elsewhere
	Bytes, Size    int64  // arrived, of how many; Size 0 = not known
	BytesPerSecond int64  // since the blob was asked for
}

const progressStep = 256 << 10
