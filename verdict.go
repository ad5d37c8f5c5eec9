package pullwalk

import (
	"context"
	"fmt"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/engine"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// stepOf is a judged step as it stands in the result.
func stepOf(s pull.Step, hostPort, image string) Step {
	out := Step{
		ID: s.ID, Subject: s.Subject, Layer: s.Layer, Status: s.Status, Addr: s.Addr, BlockedBy: s.BlockedBy, Reason: s.Reason,
		Retry: (*endpoints.Retry)(s.Retry), ElapsedMS: s.ElapsedMS, Findings: s.Findings, Access: s.Access,
		Endpoint: hostPort, Image: image,
	}
	if s.Request != nil {
		out.Request = (*endpoints.RequestReport)(&s.Request.Request)
	}
	switch rep := s.Report.(type) {
	case *reach.Report:
		out.Reach = rep
	case *dnscheck.Report:
		out.DNS = rep
	case *tlsauth.TLSReport:
		out.TLS = rep
	}
	for _, r := range s.Rounds {
		out.Rounds = append(out.Rounds, Round(r))
	}
	return out
}

// sourceOf is a judged source as it stands in the result.
func sourceOf(s judge.Source, image string) Source {
	out := Source{Host: s.Host, Kind: s.Kind, Verdict: s.Verdict, Reason: s.Reason}
	for _, e := range s.Endpoints {
		x := Endpoint{Scheme: e.Scheme, Host: e.Host, Port: e.Port, Roles: e.Roles, Via: e.Via, FoundBy: e.FoundBy, Hint: judge.Hint(e)}
		for _, st := range e.Steps {
			x.Steps = append(x.Steps, stepOf(st, e.HostPort(), image))
		}
		out.Endpoints = append(out.Endpoints, x)
	}
	return out
}

// answer looks, and says what was seen.
func (q *question) answer(ctx context.Context) ([]*Result, error) {
	started := time.Now()
	call, err := engine.Look(ctx, q.refs, q.engine())
	if err != nil {
		return nil, err
	}
	results := make([]*Result, len(q.refs))
	for i, ref := range q.refs {
		r := q.result(call, ref, call.Images[i])
		r.Started, r.ElapsedMS = started.UTC(), call.Images[i].Elapsed.Milliseconds()
		r.Reported = q.compare(r, ref, call.View)
		results[i] = r
	}
	if call.Sandbox != nil {
		sandbox, walked := q.sandbox(call)
		for _, r := range results {
			r.joinSandbox(sandbox, walked)
		}
	}
	return results, nil
}

// result says what was seen of an image and what it amounts to.
func (q *question) result(call *engine.Call, ref registry.Reference, img engine.Image) *Result {
	if q.opts.judging != nil {
		q.opts.judging(img.Log)
	}
	j := judge.Judge(img.Log)
	r := &Result{
		Schema: Schema, Pull: q.opts.Pull, ManifestRequests: img.ManifestRequests, Image: q.imageRef(ref),
		Vantage: vantage(call.View, call.Settings, q.opts.Node.Labels),
	}
	if id := img.Identity; id.Source != "" {
		r.Vantage.Identity = id.Source
		if id.Username != "" {
			r.Vantage.Identity += " (user " + id.Username + ")"
		}
	}
	for i, s := range j.Sources {
		r.Sources = append(r.Sources, sourceOf(s, ref.Given))
		if s.Digest != "" && (j.Served < 0 || i == j.Served) {
			r.Image.Digest = s.Digest
		}
	}
	if j.Settled && img.Proofs[j.Served] != nil {
		p := img.Proofs[j.Served]
		r.Proof = &Proof{Digest: p.Digest, Layers: p.Layers, Bytes: p.Bytes, InNodeStore: p.InStore, HandEdits: handEdits(r.Sources, j.Served)}
	}
	r.take(j)
	return r
}

// imageRef is the image as the runtime reads it, before anything was asked.
func (q *question) imageRef(ref registry.Reference) ImageRef {
	return ImageRef{
		Given: ref.Given, Reference: ref.String(), Registry: ref.Registry, Repository: ref.Repository,
		Tag: ref.Tag, Digest: ref.Digest, Platform: q.platform.String(),
	}
}

// sandbox says what became of the sandbox image; the result is nil if it was not walked.
func (q *question) sandbox(call *engine.Call) (*Sandbox, *Result) {
	s := call.Sandbox
	out := &Sandbox{Image: s.Image, File: s.File, Verdict: s.Verdict, Reason: s.Reason, Primary: s.Primary}
	if s.Seen == nil {
		return out, nil
	}
	r := q.result(call, s.Reference, *s.Seen)
	r.ElapsedMS = s.Seen.Elapsed.Milliseconds()
	out.Verdict, out.Reason, out.Primary, out.Identity, out.Sources = r.Verdict, r.Inconclusive, r.Primary, r.Vantage.Identity, r.Sources
	if r.Verdict == StatusFailed && s.StoredErr != nil {
		out.Verdict, out.Primary = StatusInconclusive, nil
		out.Reason = fmt.Sprintf("it cannot be pulled (%s), and whether the node has it already is not known: %s", r.Primary.Cause, classify.Redact(s.StoredErr.Error(), 200))
	}
	return out, r
}

// take sets what the judge decides.
func (r *Result) take(j judge.Result) {
	r.Verdict, r.Inconclusive, r.Findings = j.Verdict, j.Inconclusive, j.Findings
	r.Primary, r.Decisions = nil, nil
	if j.Primary != nil {
		r.Primary = &r.Findings[0]
	}
	for _, x := range j.Decisions {
		r.Decisions = append(r.Decisions, Decision(x))
	}
}

// joinSandbox adds the sandbox image to the result of the image itself.
func (r *Result) joinSandbox(s *Sandbox, walked *Result) {
	r.Sandbox = s
	r.compareSandbox()
	found := judge.Sandbox{Image: s.Image, Verdict: s.Verdict}
	switch {
	case walked != nil:
		r.ManifestRequests += walked.ManifestRequests
		r.ElapsedMS = max(r.ElapsedMS, walked.ElapsedMS) // it was walked beside
		found.Findings, found.Decisions = walked.Findings, decisionsOf(walked)
		if s.Verdict != walked.Verdict {
			found.Doubt = s.Reason
		}
	case s.Primary != nil:
		found.Findings = []classify.Finding{*s.Primary}
	}
	j := judge.Result{Verdict: r.Verdict, Inconclusive: r.Inconclusive, Primary: r.Primary, Findings: r.Findings, Decisions: decisionsOf(r)}
	judge.JoinSandbox(&j, found)
	r.take(j)
}

func decisionsOf(r *Result) (out []judge.Decision) {
	for _, d := range r.Decisions {
		out = append(out, judge.Decision(d))
	}
	return out
}
