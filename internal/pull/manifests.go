package pull

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// pingGrace is how long a request that no pull needs is waited for when the walk has
// come to its end.
const pingGrace = time.Second

// ping asks for /v2/ itself, which CRI-O and docker need and containerd never does,
// beside the first request for the manifest. It names no repository: one answer is
// every image's.
func (r *Run) ping(ctx, asking context.Context, reg *Host) <-chan Step {
	out := make(chan Step, 1)
	own := r.Requests // Authorization is set meanwhile
	ask := func(ctx context.Context) Step {
		return reg.Request(ctx, Step{ID: StepPing}, func(ctx context.Context, rt http.RoundTripper, _ func(int64)) Outcome {
			rep := own.Ping(ctx, rt)
			st := requestStatus(Step{ID: StepPing}, rep)
			if rep.NeedsToken() { // what an open registry would not ask
				st = StatusOf(Step{ID: StepPing, Request: rep}, true, "", rep.Findings())
			}
			return Outcome{Step: st}
		}).Step
	}
	once := r.Once
	if once == nil {
		once = func(_, own context.Context, _ *Host, _ string, ask func(context.Context) Step) (Step, bool) {
			return ask(own), true
		}
	}
	go func() {
		answer, ok := once(ctx, asking, reg, "ping "+own.Base.Path, ask)
		if !ok {
			answer = Step{ID: StepPing, Status: StatusInconclusive, Reason: EndOf(asking)}
		}
		out <- answer
	}()
	return out
}

// comparePing records the ping, and where its challenge differs from that of the
// manifest.
func (r *Run) comparePing(reg *Host, st Step, manifest *registry.Report) {
	if st.Request != nil && manifest != nil && Passes(st.Status) {
		if more := r.Requests.ComparePing(st.Request, manifest); len(more) > 0 {
			st = StatusOf(st, true, "", slices.Concat(st.Findings, more))
		}
	}
	if st.Status == StatusInconclusive && !r.Requests.Client.Pings {
		st.Status = StatusSkipped // the runtime does not ask it
	}
	reg.Record(st, 0)
}

// resolve asks for the tag or digest by HEAD, and by GET where the registry has no
// HEAD, as containerd does.
func (r *Run) resolve(ctx context.Context, reg *Host, index int) Step {
	subject := cmp.Or(r.Requests.Reference.Digest, r.Requests.Reference.Tag)
	ask := func(method string) Step {
		st := Step{ID: StepResolve, Subject: subject}
		return r.persist(ctx, reg, st, func(ctx context.Context, rt http.RoundTripper, _ func(int64)) Outcome {
			r.manifests.Add(1)
			rep := r.Requests.Resolve(ctx, rt, method)
			if rep.NeedsToken() && r.Requests.Authorization == "" {
				return Outcome{Step: Step{ID: StepChallenge, Status: StatusOK, Request: rep}}
			}
			return Outcome{Step: r.refused(requestStatus(st, rep))}
		}).Step
	}
	st := ask(r.Requests.Client.Method())
	if st.Request != nil && st.Request.NeedsGet() {
		head := st
		st = ask(http.MethodGet)
		if head.Status == StatusFailed && Passes(st.Status) {
			st = r.headBlocked(head, st)
		}
	}
	st = reg.Record(st, index)
	r.noteSilence(reg, st, index)
	st, _ = r.followManifest(ctx, st, index)
	return st
}

// headBlocked judges a registry that answers GET and refuses HEAD with something else
// than 405: containerd stops at the refusal, others ask again by GET.
func (r *Run) headBlocked(head, get Step) Step {
	f := classify.New(classify.EndpointMethodBlocked,
		fmt.Sprintf("HEAD of the manifest is refused with %d where GET is answered; containerd resolves a tag by HEAD.", head.Request.Status),
		classify.Fact{Key: classify.FactMethod, Value: http.MethodHead}, classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(head.Request.Status)})
	f.Operation = classify.OperationResolveManifest
	if r.StopsAtHead {
		head.Findings, head.Status = []classify.Finding{f}, StatusFailed
		return head
	}
	f.Severity = classify.SeverityWarn
	get.Findings = append(get.Findings, f)
	get.Status = StatusDegraded
	return get
}

// followManifest takes the further hops of a manifest request that was redirected, and
// returns the last.
func (r *Run) followManifest(ctx context.Context, st Step, index int) (Step, *registry.Manifest) {
	var m *registry.Manifest
	for st.Request != nil && Passes(st.Status) && st.Request.Redirect() != nil {
		prev := st.Request
		t, err := TargetOf(prev.Redirect(), registry.RoleManifest, "a redirect of "+prev.Host)
		if err != nil {
			return st, nil
		}
		h := r.Host(ctx, t)
		if h == nil {
			return Step{}, nil
		}
		ask := Step{ID: st.ID, Subject: st.Subject}
		out := r.persist(ctx, h, ask, func(ctx context.Context, rt http.RoundTripper, _ func(int64)) Outcome {
			r.manifests.Add(1)
			rep, m := r.Requests.FollowManifest(ctx, rt, prev)
			return Outcome{Step: requestStatus(ask, rep), Manifest: m}
		})
		st, m = h.Record(out.Step, index), out.Manifest
	}
	return st, m
}

// requestStatus sets the status of a request's step.
func requestStatus(s Step, rep *registry.Report) Step {
	s.Request = rep
	return StatusOf(s, rep.Held(), rep.Inconclusive, rep.Findings())
}

// maxIndexes bounds indexes that name indexes; a cycle is refused by it, too.
const maxIndexes = 4

// platformManifest fetches what the reference leads to, and from an index the manifest
// of the platform.
func (r *Run) platformManifest(ctx context.Context, reg *Host, top *registry.Report) *registry.Manifest {
	r.Digest = top.Digest
	m := r.manifest(ctx, reg, top.Digest, top.MediaType, 1)
	if m != nil {
		r.Digest = m.Digest
	}
	for i := 2; m != nil && m.Index; i++ { // an index may name another
		step := Step{ID: StepManifest, Subject: r.Platform.String()}
		d, err := m.Select(r.Platform)
		if err != nil {
			reg.Record(StatusOf(step, false, "", []classify.Finding{classify.Error(err)}), i)
			return nil
		}
		if i > maxIndexes {
			reg.Record(StatusOf(step, false, fmt.Sprintf("more than %d indexes, one in the other", maxIndexes), nil), i)
			return nil
		}
		m = r.manifest(ctx, reg, d.Digest, d.MediaType, i)
	}
	return m
}

// manifest fetches one manifest by digest, following redirects by hand.
func (r *Run) manifest(ctx context.Context, reg *Host, digest string, mediaType string, index int) *registry.Manifest {
	ask := Step{ID: StepManifest, Subject: digest}
	out := r.persist(ctx, reg, ask, func(ctx context.Context, rt http.RoundTripper, _ func(int64)) Outcome {
		r.manifests.Add(1)
		rep, m := r.Requests.Manifest(ctx, rt, digest, mediaType)
		return Outcome{Step: requestStatus(ask, rep), Manifest: m}
	})
	st, m := reg.Record(out.Step, index), out.Manifest
	if st.Request != nil && st.Request.Redirect() != nil {
		st, m = r.followManifest(ctx, st, index)
	}
	if !Passes(st.Status) {
		return nil
	}
	return m
}

// persist makes one request, and once more where the runtime would by itself: a failure
// that one repetition mends does not show in its pull. The step says what the runtime
// does. It is not done to the full, since a probe must not add to a registry's load:
// after a rate limit nothing is repeated, and pauses are not kept. A mirror is not asked
// again, since the runtime has another source.
func (r *Run) persist(ctx context.Context, h *Host, st Step, do func(context.Context, http.RoundTripper, func(int64)) Outcome) Outcome {
	first := h.Request(ctx, st, do)
	if r.Retries == nil || first.Status != StatusFailed || r.Mirror {
		return first
	}
	retry := r.Retries(first.Request)
	if retry.Requests < 2 {
		return first
	}
	first.Retry = &retry
	if !mayPass(first.Request) {
		return first
	}
	second := h.Request(ctx, st, do)
	if !Passes(second.Status) {
		return first
	}
	second.Retry = &retry
	second.Findings = append(Warned(first.Findings), second.Findings...)
	if second.Status == StatusOK {
		second.Status = StatusDegraded
	}
	return second
}

// mayPass reports whether a second request is worth a try: a limit of our own has
// waited long enough, and rate limits count what is asked in vain.
func mayPass(rep *registry.Report) bool {
	switch rep.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return !slices.ContainsFunc(rep.Findings(), func(f classify.Finding) bool { return f.Fact(classify.FactLimit) != "" })
}
