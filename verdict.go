package pullwalk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/engine"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/node"
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

// resultOf says what was seen of an image and what it amounts to.
func resultOf(call *engine.Call, img engine.Image, ref registry.Reference, o *Options, platform registry.Platform) *Result {
	if o.judging != nil {
		o.judging(img.Log)
	}
	j := judge.Judge(img.Log)
	r := &Result{
		Schema: Schema, Pull: o.Pull, ManifestRequests: img.ManifestRequests, Image: imageRef(ref, platform),
		Vantage: vantage(call.View, call.Settings, o.Node.Labels),
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
		r.Proof = &Proof{Digest: p.Digest, Layers: p.Layers, Bytes: p.Bytes, InNodeStore: p.InStore, HandEdits: drifted(r.Sources, j.Served)}
	}
	r.take(j)
	return r
}

// imageRef is the image as the runtime reads it, before anything was asked.
func imageRef(ref registry.Reference, platform registry.Platform) ImageRef {
	return ImageRef{
		Given: ref.Given, Reference: ref.String(), Registry: ref.Registry, Repository: ref.Repository,
		Tag: ref.Tag, Digest: ref.Digest, Platform: platform.String(),
	}
}

// sandboxOf says what became of the sandbox image; the result is nil if it was not walked.
func sandboxOf(call *engine.Call, o *Options, platform registry.Platform) (*Sandbox, *Result) {
	s := call.Sandbox
	out := &Sandbox{Image: s.Image, File: s.File, Verdict: s.Verdict, Reason: s.Reason, Primary: s.Primary}
	if s.Seen == nil {
		return out, nil
	}
	r := resultOf(call, *s.Seen, s.Reference, o, platform)
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

// vantage says who looked, before anything was asked.
func vantage(v *node.View, settings dnscheck.Settings, labels map[string]string) Vantage {
	out := Vantage{
		HostName: v.HostName, NetworkNamespace: v.NetNS,
		ResolverFile: settings.File, Proxy: v.ProxySource, Identity: "anonymous",
	}
	for _, ns := range settings.Nameservers {
		out.Nameservers = append(out.Nameservers, ns.String())
	}
	switch {
	case v.RootFiles != nil:
		out.Roots = v.RootFiles.Files
	case v.Roots != nil:
		out.Roots = []string{"the caller's pool"}
	}
	if v.KnowsRuntime() {
		out.Runtime, out.RuntimePID = v.Runtime.Name, v.Runtime.PID
		out.RuntimeVersion, out.RuntimeGo = v.Runtime.Version, v.Runtime.GoVersion
	}
	for key, value := range labels {
		out.Labels = append(out.Labels, Label{key, value})
	}
	slices.SortFunc(out.Labels, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// drifted lists what was changed by hand and took part in the pull that served
// served, the nameservers' routes with it.
func drifted(sources []Source, served int) []string {
	var out []string
	add := func(edit string) {
		if !slices.Contains(out, edit) {
			out = append(out, edit)
		}
	}
	for i, s := range sources {
		for _, e := range s.Endpoints {
			if i != served && e.Scheme != pull.SchemeDNS || len(e.Roles) == 1 && e.Roles[0] == endpoints.RoleExpected {
				continue
			}
			for _, st := range e.Steps {
				for _, f := range st.Findings {
					switch f.Cause {
					case classify.DNSHostsOverride:
						add(fmt.Sprintf("%s: entry for %s", cmp.Or(f.Fact(classify.FactFile), "hosts file"), e.Host))
					case classify.NodeHandEdit:
						add(e.HostPort() + ": " + f.Summary)
					}
				}
			}
		}
	}
	return out
}
