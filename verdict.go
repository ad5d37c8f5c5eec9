package pullwalk

import (
	"context"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/endpoints"
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
		Retry: (*endpoints.Retry)(s.Retry), ElapsedMS: s.ElapsedMS, Findings: s.Findings, Access: accessOf(s.Access),
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

// accessOf is what a token exchange showed, as it stands in the result.
func accessOf(a *registry.Access) *tlsauth.AccessReport {
	if a == nil {
		return nil
	}
	out := &tlsauth.AccessReport{
		Registry: a.Registry, Repository: a.Repository, Challenge: a.Challenge, Credential: tlsauth.CredentialInfo(a.Credential),
		TokenIssued: a.TokenIssued, ExpiresInMS: a.ExpiresInMS, Granted: a.Granted, ClockSkewMS: a.ClockSkewMS,
		Read: a.Read, Inconclusive: a.Inconclusive, ElapsedMS: a.ElapsedMS,
	}
	for _, t := range a.Attempts {
		out.Attempts = append(out.Attempts, tlsauth.TokenAttempt(t))
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

// log is what was seen of the image. It is made when nothing of it runs any more.
func (d *imageRun) log(ctx context.Context, sources []*source) pull.Log {
	log := pull.Log{Unsure: d.unsure}
	if ctx.Err() != nil {
		log.Ended = reasonOf(ctx)
	}
	for _, s := range sources {
		log.Sources = append(log.Sources, s.log())
	}
	return log
}

// result says what was seen and what it amounts to.
func (d *imageRun) result(log pull.Log, proofs []*Proof) *Result {
	if d.opts.judging != nil {
		d.opts.judging(log)
	}
	j := judge.Judge(log)
	r := &Result{
		Schema: Schema, Pull: d.opts.Pull, ManifestRequests: d.manifestsSent(),
		Image: d.imageRef(), Vantage: d.view.vantage(d.settings),
	}
	r.Vantage.Identity = d.identity
	for i, s := range j.Sources {
		r.Sources = append(r.Sources, sourceOf(s, d.ref.Given))
		if s.Digest != "" && (j.Served < 0 || i == j.Served) {
			r.Image.Digest = s.Digest
		}
	}
	if j.Settled && proofs[j.Served] != nil {
		p := *proofs[j.Served]
		p.HandEdits, r.Proof = handEdits(r.Sources, j.Served), &p
	}
	r.take(j)
	r.Reported = d.compare(r)
	return r
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
func (r *Result) joinSandbox(w sandboxWalk) {
	s := w.sandbox
	r.Sandbox = s
	if s == nil {
		return
	}
	r.compareSandbox()
	found := judge.Sandbox{Image: s.Image, Verdict: s.Verdict}
	switch {
	case w.result != nil:
		r.ManifestRequests += w.result.ManifestRequests
		r.ElapsedMS = max(r.ElapsedMS, w.result.ElapsedMS) // it was walked beside
		found.Findings = w.result.Findings
		for _, x := range w.result.Decisions {
			found.Decisions = append(found.Decisions, judge.Decision(x))
		}
		if s.Verdict != w.result.Verdict {
			found.Doubt = s.Reason
		}
	case s.Primary != nil:
		found.Findings = []classify.Finding{*s.Primary}
	}
	j := judge.Result{Verdict: r.Verdict, Inconclusive: r.Inconclusive, Primary: r.Primary, Findings: r.Findings}
	for _, x := range r.Decisions {
		j.Decisions = append(j.Decisions, judge.Decision(x))
	}
	judge.JoinSandbox(&j, found)
	r.take(j)
}
