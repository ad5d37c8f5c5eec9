package pullwalk

import (
	"context"
	"net/http"

	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

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
		t, err := targetOf(u, endpoints.RoleBlob, "the manifest")
		if err != nil {
			f.reg.record(pull.Step{ID: f.id, Subject: f.blob.Digest, Status: StatusInconclusive, Reason: "the layer's own place cannot be asked: " + err.Error()}, f.index)
			return nil, true
		}
		t.ownRoots = !f.s.d.profile.Client.ForeignSettings                 // containerd asks with its default client there
		t.hint = f.s.d.profile.Client.ForeignSettings && i < len(places)-1 // CRI-O goes on, whatever happens
		e := f.s.endpoint(ctx, t)
		if e == nil {
			return nil, true // the overflow is told
		}
		e, st := f.follow(ctx, e, f.ask(ctx, e, func(w *registry.Walk, rt http.RoundTripper) *registry.Report {
			return w.Foreign(ctx, rt, u, f.blob, f.mode)
		}))
		if e == nil || f.postponed {
			return nil, true
		}
		st = e.record(st, f.index)
		if t.hint && st.Status == StatusBlocked {
			continue
		}
		if st.Request == nil || st.Request.Outcome != endpoints.OutcomeNotNeeded {
			return st.Request, true
		}
	}
	return nil, false
}
