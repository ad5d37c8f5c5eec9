package pullwalk

import (
	"context"
	"net/http"

	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// whole asks again for a layer of which a part was refused, as the runtime asks
// for it. That decides; the part is held against it.
func (f *fetch) whole(ctx context.Context, e *endpoint, part pull.Step) *registry.Report {
	own := *f
	own.mode = registry.First64K
	r := own.registry(ctx)
	part.Findings, part.Retry = registry.CompareRange(part.Request, r), nil
	part.Status, part.Reason = StatusSkipped, "only a part was asked for, which no runtime does at first; the request for the whole decides"
	if len(part.Findings) > 0 {
		part.Status, part.Reason = StatusDegraded, ""
		part.Request.Outcome = endpoints.OutcomeNotNeeded
	}
	e.record(part, f.index)
	return r
}

// head asks the registry for one layer by HEAD, beside the others and when it is its
// turn. Redirects are not followed: an address that was signed for GET refuses HEAD
// with good reason. No runtime makes the request: it is not repeated, and that
// nobody answers it says nothing of the next blob. The step has no ID if there is no
// layer that the registry is asked for.
func (s *source) head(ctx context.Context, reg *endpoint, w *registry.Walk, list []registry.Descriptor) pull.Step {
	i := layerOfRegistry(list)
	if i < 0 {
		return pull.Step{}
	}
	st := pull.Step{ID: StepLayer, Subject: list[i].Digest}
	select {
	case reg.turns <- struct{}{}:
		defer func() { <-reg.turns }()
	case <-ctx.Done():
		st.Status, st.Reason = StatusInconclusive, reasonOf(ctx)
		return st
	}
	return reg.request(ctx, st, func(ctx context.Context, rt http.RoundTripper, _ *watch) outcome {
		own := *w
		own.Authorization = s.auth.current(ctx, "")
		return outcome{Step: requestStatus(st, own.Head(ctx, rt, list[i]))}
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
func (s *source) compareHead(reg *endpoint, st pull.Step, list []registry.Descriptor, reports []*registry.Report) {
	if st.ID == "" {
		return
	}
	if !pull.Passes(st.Status) {
		st.Status, st.Reason, st.BlockedBy, st.Findings = StatusSkipped, "no pull asks for a layer by HEAD", "", nil
	}
	if differ := registry.CompareHead(st.Request, reports[layerOfRegistry(list)]); len(differ) > 0 {
		st = pull.StatusOf(st, true, "", differ)
	}
	if st.Request != nil && st.Request.Outcome == endpoints.OutcomeFailed {
		st.Request.Outcome = endpoints.OutcomeNotNeeded
	}
	reg.record(st, len(reports))
}
