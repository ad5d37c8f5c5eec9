package pullwalk

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// walk is the pull, told in order: the registry, the challenge, a token for each
// credential until one may read, the index, the manifest of the platform, and
// every blob wherever it is redirected to.
func (s *source) walk(ctx context.Context) {
	if s.skipped != "" {
		return
	}
	base := s.base(ctx)
	t, err := targetOf(base, s.role(), s.foundBy())
	if err != nil {
		return
	}
	reg := s.endpoint(ctx, t)
	reg.registry = true
	s.recordSettings(reg)
	s.recordPlan(reg)
	defer s.hints(ctx, base)()
	w := s.cfg.Walk(s.ref, s.d.profile.Client)
	w.Base, w.UserAgent = base, s.d.userAgent

	asking, stop := context.WithCancel(ctx)
	if !s.d.profile.Client.Pings { // what this runtime never asks must not hold the verdict up
		defer func() { time.AfterFunc(pingGrace, stop) }()
	}
	pinged := s.ping(ctx, asking, reg, w)
	top, challenge := s.authorize(ctx, reg, w)
	way := *w
	s.d.climbing.Go(func() {
		defer stop()
		s.comparePing(reg, &way, <-pinged, challenge)
	})
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
	s.stored(reg, manifest)
	s.blobs(ctx, reg, w, manifest)
}

// pingGrace is how long a ping that nobody needs is waited for when the walk has
// come to its end.
const pingGrace = time.Second

// ping asks for /v2/ itself, which CRI-O and docker need and containerd never
// does, beside the first request for the manifest. It names no repository: one
// answer is every image's.
func (s *source) ping(ctx, asking context.Context, reg *endpoint, w *registry.Walk) <-chan pull.Step {
	out := make(chan pull.Step, 1)
	own := *w // the walk gets its Authorization meanwhile
	go func() {
		answer, ok := reg.once(ctx, asking, common{s.d.company, "ping " + own.Base.Path}, func(ctx context.Context) pull.Step {
			return reg.request(ctx, pull.Step{ID: StepPing}, func(ctx context.Context, rt http.RoundTripper, _ *watch) outcome {
				r := own.Ping(ctx, rt)
				st := requestStatus(pull.Step{ID: StepPing}, r)
				if r.NeedsToken() { // what an open registry would not ask
					st = pull.StatusOf(pull.Step{ID: StepPing, Request: r}, true, "", r.Findings())
				}
				return outcome{Step: st}
			}).Step
		})
		if !ok {
			answer = pull.Step{ID: StepPing, Status: StatusInconclusive, Reason: reasonOf(asking)}
		}
		out <- answer
	}()
	return out
}

// comparePing records the ping, and where its challenge differs from that of the
// manifest.
func (s *source) comparePing(reg *endpoint, w *registry.Walk, st pull.Step, manifest *registry.Report) {
	if st.Request != nil && manifest != nil && pull.Passes(st.Status) {
		if more := w.ComparePing(st.Request, manifest); len(more) > 0 {
			st = pull.StatusOf(st, true, "", slices.Concat(st.Findings, more))
		}
	}
	if st.Status == StatusInconclusive && !s.d.profile.Client.Pings {
		st.Status = StatusSkipped // the runtime does not ask it
	}
	reg.record(st, 0)
}

// stored says which of the image's content lies on the node already: the runtime
// will not ask for that, so its success would prove less.
func (s *source) stored(reg *endpoint, m *registry.Manifest) {
	store := s.d.store
	if store == nil {
		return
	}
	present, findings := store.Present(m)
	s.inStore = len(present)
	if len(findings) > 0 {
		reg.record(pull.StatusOf(pull.Step{ID: StepStore}, true, "", findings), 0)
	}
}

// resolve asks for the tag or digest by HEAD, and by GET where the registry has
// no HEAD, as containerd does.
func (s *source) resolve(ctx context.Context, reg *endpoint, w *registry.Walk, index int) pull.Step {
	subject := cmp.Or(s.ref.Digest, s.ref.Tag)
	ask := func(method string) pull.Step {
		st := pull.Step{ID: StepResolve, Subject: subject}
		return s.persist(ctx, reg, st, func(ctx context.Context, rt http.RoundTripper, _ *watch) outcome {
			s.d.countManifest()
			r := w.Resolve(ctx, rt, method)
			if r.NeedsToken() && w.Authorization == "" {
				return outcome{Step: pull.Step{ID: StepChallenge, Status: StatusOK, Request: r}}
			}
			return outcome{Step: s.refused(requestStatus(st, r))}
		}).Step
	}
	st := ask(s.d.profile.Client.Method())
	if st.Request != nil && st.Request.NeedsGet() {
		head := st
		st = ask(http.MethodGet)
		if head.Status == StatusFailed && pull.Passes(st.Status) {
			st = s.headBlocked(reg, head, st)
		}
	}
	st = reg.record(st, index)
	s.noteSilence(reg, st, index)
	st, _ = s.followManifest(ctx, w, st, index)
	return st
}

// headBlocked judges a registry that answers GET and refuses HEAD with something
// else than 405: containerd stops at the refusal, others ask again by GET.
func (s *source) headBlocked(reg *endpoint, head, get pull.Step) pull.Step {
	f := classify.New(classify.EndpointMethodBlocked,
		fmt.Sprintf("HEAD of the manifest is refused with %d where GET is answered; containerd resolves a tag by HEAD.", head.Request.Status),
		classify.Fact{Key: classify.FactMethod, Value: http.MethodHead}, classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(head.Request.Status)})
	f.Operation = classify.OperationResolveManifest
	if s.d.profile.HeadOnly {
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
func (s *source) followManifest(ctx context.Context, w *registry.Walk, st pull.Step, index int) (pull.Step, *registry.Manifest) {
	var m *registry.Manifest
	for st.Request != nil && pull.Passes(st.Status) && st.Request.Redirect() != nil {
		prev := st.Request
		t, err := targetOf(prev.Redirect(), endpoints.RoleManifest, "a redirect of "+prev.Host)
		if err != nil {
			return st, nil
		}
		e := s.endpoint(ctx, t)
		if e == nil {
			return pull.Step{}, nil
		}
		ask := pull.Step{ID: st.ID, Subject: st.Subject}
		out := s.persist(ctx, e, ask, func(ctx context.Context, rt http.RoundTripper, _ *watch) outcome {
			s.d.countManifest()
			r, m := w.FollowManifest(ctx, rt, prev)
			return outcome{Step: requestStatus(ask, r), manifest: m}
		})
		st, m = e.record(out.Step, index), out.manifest
	}
	return st, m
}

// requestStatus settles the step of a request.
func requestStatus(s pull.Step, r *registry.Report) pull.Step {
	s.Request = r
	return pull.StatusOf(s, r.Held(), r.Inconclusive, r.Findings())
}

// manifests fetches what the reference leads to, and from an index the manifest
// of the platform.
func (s *source) manifests(ctx context.Context, reg *endpoint, w *registry.Walk, top *registry.Report) *registry.Manifest {
	s.digest = top.Digest
	m := s.manifest(ctx, reg, w, top.Digest, top.MediaType, 1)
	if m != nil {
		s.digest = m.Digest
	}
	for i := 2; m != nil && m.Index; i++ { // an index may name another
		step := pull.Step{ID: StepManifest, Subject: s.d.platform.String()}
		d, err := m.Select(s.d.platform)
		if err != nil {
			reg.record(pull.StatusOf(step, false, "", []classify.Finding{classify.Error(err)}), i)
			return nil
		}
		if i > maxIndexes {
			reg.record(pull.StatusOf(step, false, fmt.Sprintf("more than %d indexes, one in the other", maxIndexes), nil), i)
			return nil
		}
		m = s.manifest(ctx, reg, w, d.Digest, d.MediaType, i)
	}
	return m
}

// maxIndexes bounds indexes that name indexes; a cycle is refused by it, too.
const maxIndexes = 4

// manifest fetches one manifest by digest, following redirects by hand.
func (s *source) manifest(ctx context.Context, reg *endpoint, w *registry.Walk, digest, mediaType string, index int) *registry.Manifest {
	out := s.persist(ctx, reg, pull.Step{ID: StepManifest, Subject: digest}, func(ctx context.Context, rt http.RoundTripper, _ *watch) outcome {
		s.d.countManifest()
		r, m := w.Manifest(ctx, rt, digest, mediaType)
		return outcome{Step: requestStatus(pull.Step{ID: StepManifest, Subject: digest}, r), manifest: m}
	})
	st, m := reg.record(out.Step, index), out.manifest
	if st.Request != nil && st.Request.Redirect() != nil {
		st, m = s.followManifest(ctx, w, st, index)
	}
	if !pull.Passes(st.Status) {
		return nil
	}
	return m
}
