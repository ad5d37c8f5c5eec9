package pullwalk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
)

// walk is the pull, told in order: the registry, the challenge, a token for each
// credential until one may read, the index, the manifest of the platform, and
// every blob wherever it is redirected to.
func (s *source) walk(ctx context.Context) {
	if s.skipped != "" {
		return
	}
	base := s.base(ctx)
	t, err := targetOf(base, s.role(), cmp.Or(s.cfg.File, "the image reference"))
	if err != nil {
		return
	}
	reg := s.endpoint(ctx, t)
	w := &endpoints.Walk{Reference: s.d.ref, Base: base, Namespace: s.cfg.Namespace, UserAgent: s.d.userAgent}

	top := s.authorize(ctx, reg, w)
	if top == nil {
		if !reg.has(StepResolve) {
			reg.blockRest(StepResolve)
		}
		reg.blockRest(StepManifest, StepConfig, StepLayer)
		return
	}
	if s.d.opts.Pull == Connect {
		s.finished = true
		return
	}
	manifest := s.manifests(ctx, reg, w, top)
	if manifest == nil {
		reg.blockRest(StepConfig, StepLayer)
		return
	}
	s.blobs(ctx, reg, w, manifest)
}

// resolve asks for the tag or digest by HEAD, and by GET where the registry has
// no HEAD, as containerd does.
func (s *source) resolve(ctx context.Context, reg *endpoint, w *endpoints.Walk, index int) Step {
	subject := s.d.ref.Digest
	if subject == "" {
		subject = s.d.ref.Tag
	}
	ask := func(method string) Step {
		st := Step{ID: StepResolve, Subject: subject}
		return reg.request(ctx, st, func(ctx context.Context, rt http.RoundTripper, _ *watch) Step {
			s.d.countManifest()
			r := w.Resolve(ctx, rt, method)
			if r.NeedsToken() && w.Authorization == "" {
				return Step{ID: StepChallenge, Status: StatusOK, Request: r}
			}
			return basicRefused(w, requestStatus(st, r))
		})
	}
	st := ask(http.MethodHead)
	if st.Request != nil && st.Request.NeedsGet() {
		head := st
		st = ask(http.MethodGet)
		if head.Status == StatusFailed && st.Status.passes() {
			st = s.headBlocked(reg, head, st)
		}
	}
	st = reg.record(st, index)
	st, _ = s.followManifest(ctx, w, st, index)
	return st
}

// headBlocked judges a registry that answers GET and refuses HEAD with something
// else than 405: containerd stops at the refusal, others ask again by GET.
func (s *source) headBlocked(reg *endpoint, head, get Step) Step {
	f := classify.New(classify.EndpointMethodBlocked,
		fmt.Sprintf("HEAD of the manifest is refused with %d where GET is answered; containerd resolves a tag by HEAD.", head.Request.Status),
		classify.Fact{Key: classify.FactMethod, Value: http.MethodHead}, classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(head.Request.Status)})
	f.Operation = classify.OperationResolveManifest
	if s.d.view.runtime.Name == "containerd" || strings.HasPrefix(s.d.view.runtime.Name, "k3s") || s.d.view.runtime.Name == "rke2" {
		head.Findings, head.Status = []classify.Finding{f}, StatusFailed
		return head
	}
	f.Severity = classify.SeverityWarn
	get.Findings = append(get.Findings, f)
	get.Status = StatusDegraded
	return get
}

// followManifest takes the further hops of a manifest request that was
// redirected, and returns the last.
func (s *source) followManifest(ctx context.Context, w *endpoints.Walk, st Step, index int) (Step, *endpoints.Manifest) {
	var m *endpoints.Manifest
	for st.Request != nil && st.Status.passes() && st.Request.Redirect() != nil {
		prev := st.Request
		t, err := targetOf(prev.Redirect(), endpoints.RoleManifest, "a redirect of "+prev.Host)
		if err != nil {
			return st, nil
		}
		e := s.endpoint(ctx, t)
		if e == nil {
			return Step{}, nil
		}
		ask := Step{ID: st.ID, Subject: st.Subject}
		st = e.record(e.request(ctx, ask, func(ctx context.Context, rt http.RoundTripper, _ *watch) Step {
			r, got := w.FollowManifest(ctx, rt, prev)
			m = got
			return requestStatus(ask, r)
		}), index)
	}
	return st, m
}

// requestStatus settles the step of a request.
func requestStatus(s Step, r *endpoints.RequestReport) Step {
	s.Request = r
	return settle(s, r.Held(), r.Inconclusive, r.Findings())
}

// manifests fetches what the reference leads to, and from an index the manifest
// of the platform.
func (s *source) manifests(ctx context.Context, reg *endpoint, w *endpoints.Walk, top *endpoints.RequestReport) *endpoints.Manifest {
	s.digest = top.Digest
	m := s.manifest(ctx, reg, w, top.Digest, top.MediaType, 1)
	if m == nil || !m.Index {
		if m != nil {
			s.digest = m.Digest
		}
		return m
	}
	s.digest = m.Digest
	d, err := m.Select(s.d.platform)
	if err != nil {
		var f classify.Finding
		if !errors.As(err, &f) {
			f = classify.Error(err)
		}
		reg.record(settle(Step{ID: StepManifest, Subject: s.d.platform.String()}, false, "", []classify.Finding{f}), 2)
		return nil
	}
	m = s.manifest(ctx, reg, w, d.Digest, d.MediaType, 2)
	if m != nil && m.Index {
		f := classify.New(classify.ImageManifestInvalid, "The index names another index for this platform; runtimes do not look further.")
		f.Operation = classify.OperationResolveManifest
		reg.record(settle(Step{ID: StepManifest, Subject: d.Digest}, false, "", []classify.Finding{f}), 3)
		return nil
	}
	return m
}

// manifest fetches one manifest by digest, following redirects by hand.
func (s *source) manifest(ctx context.Context, reg *endpoint, w *endpoints.Walk, digest, mediaType string, index int) *endpoints.Manifest {
	var m *endpoints.Manifest
	st := reg.request(ctx, Step{ID: StepManifest, Subject: digest}, func(ctx context.Context, rt http.RoundTripper, _ *watch) Step {
		s.d.countManifest()
		r, got := w.Manifest(ctx, rt, digest, mediaType)
		m = got
		return requestStatus(Step{ID: StepManifest, Subject: digest}, r)
	})
	st = reg.record(st, index)
	if st.Request != nil && st.Request.Redirect() != nil {
		st, m = s.followManifest(ctx, w, st, index)
	}
	if !st.Status.passes() {
		return nil
	}
	return m
}

// blobs asks for the configuration and every layer, a few at a time as the
// runtimes do.
func (s *source) blobs(ctx context.Context, reg *endpoint, w *endpoints.Walk, m *endpoints.Manifest) {
	mode := endpoints.First64K
	if s.d.opts.Pull == Complete {
		mode = endpoints.Whole
	}
	list := m.Blobs()
	reports := make([]*endpoints.RequestReport, len(list))
	var wg sync.WaitGroup
	for i, blob := range list {
		id := StepLayer
		if i == 0 {
			id = StepConfig
		}
		select { // here and not in the goroutine, so that they begin in their order
		case s.d.slots <- struct{}{}:
		case <-ctx.Done():
			reg.record(Step{ID: id, Subject: blob.Digest, Status: StatusInconclusive, Reason: reasonOf(ctx)}, i)
			continue
		}
		wg.Go(func() {
			defer func() { <-s.d.slots }()
			reports[i] = s.blob(ctx, reg, w, id, blob, mode, i)
		})
	}
	wg.Wait()
	s.finished = true
	if mode == endpoints.Whole {
		s.proof = proofOf(s.digest, reports)
	}
}

// proofOf is nil unless every report says that all bytes came and their digest
// was right.
func proofOf(digest string, reports []*endpoints.RequestReport) *Proof {
	p := &Proof{Digest: digest, Layers: len(reports) - 1}
	for _, r := range reports {
		if r == nil || !r.Complete {
			return nil
		}
		p.Bytes += r.Bytes
	}
	return p
}

// blob follows one blob from the registry to where its bytes are. It returns the
// last report, nil if a hop could not be asked.
func (s *source) blob(ctx context.Context, reg *endpoint, w *endpoints.Walk, id StepID, blob endpoints.Descriptor, mode endpoints.Mode, index int) *endpoints.RequestReport {
	e, r := reg, (*endpoints.RequestReport)(nil)
	for {
		prev := r
		st := e.request(ctx, Step{ID: id, Subject: blob.Digest}, func(ctx context.Context, rt http.RoundTripper, wt *watch) Step {
			own := *w
			own.OnBytes = wt.heard
			var r *endpoints.RequestReport
			if prev == nil {
				r = own.Blob(ctx, rt, blob, mode)
			} else {
				r = own.Follow(ctx, rt, prev, blob, mode)
			}
			return requestStatus(Step{ID: id, Subject: blob.Digest}, r)
		})
		st = e.record(st, index)
		r = st.Request
		if r == nil || !st.Status.passes() || r.Redirect() == nil {
			return r
		}
		t, err := targetOf(r.Redirect(), endpoints.RoleBlob, "a redirect of "+r.Host)
		if err == nil {
			e = s.endpoint(ctx, t)
		}
		if err != nil || e == nil {
			return nil // the report already says what is wrong with the Location, or the overflow is told
		}
	}
}
