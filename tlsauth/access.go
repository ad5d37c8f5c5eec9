package tlsauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// CheckAccess asks whether this identity may read the manifest of image, with the requests
// that containerd sends for it: HEAD without a credential, the token exchange that the
// challenge names, HEAD again; then the same for the next credential, as the kubelet does.
// The names are resolved by DialContext; the registry is asked over https only, and never
// without a verified chain.
//
// image without tag and digest is read as the kubelet reads it, with the tag latest. If
// that tag does not exist, the answer is inconclusive: the access was not refused, and no
// read was seen.
//
// An error means an invalid argument: no image reference, no usable roots, a keychain that
// fails.
func (c *Checker) CheckAccess(ctx context.Context, image string) (*AccessReport, error) {
	start := time.Now()
	if _, err := parseImage(image); err != nil {
		return nil, err
	}
	ref, err := registry.ParseReference(image)
	if err != nil {
		return nil, err
	}
	own := *c
	if own.Hellos, err = c.hellos(); err != nil {
		return nil, err
	}
	if own.Trust, err = c.roots(); err != nil {
		return nil, err
	}
	own.Roots, own.CA = nil, nil // they are in Trust now
	if own.DialContext == nil {
		own.DialContext = guarded().DialContext
	}
	offers, err := Offers(ctx, c.Keychain, image)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	a := &access{hosts: &hosts{c: &own, pools: map[string]*registry.Pool{}}, offers: offers, host: ref.Host, untagged: untagged(image)}
	defer a.hosts.close()
	r := &registry.Access{Credential: registry.CredentialInfo{Source: "anonymous"}}
	if ctx.Err() == nil {
		r = a.walk(ctx, ref)
	}
	if ctx.Err() != nil && !r.Read {
		r.Inconclusive = ended(ctx)
	}
	r.Registry, r.Repository = ref.Host, ref.Repository
	a.clock(r)
	r.ElapsedMS = time.Since(start).Milliseconds()
	return accessReport(r), nil
}

// untagged reports whether an image names neither tag nor digest.
func untagged(image string) bool {
	return !strings.ContainsAny(image[strings.LastIndexByte(image, '/')+1:], ":@")
}

// access is one run of CheckAccess: a pull that ends when the reference is resolved.
type access struct {
	hosts    *hosts
	offers   []Offer
	host     string // of the registry, as the findings name it
	untagged bool

	mu    sync.Mutex
	taken []taken
}

// taken is a step where it was taken.
type taken struct {
	at pull.Endpoint
	pull.Step
}

// Open makes access a [pull.Opener]: each host is dialled, and its TLS checked, when it is
// asked for the first time.
func (a *access) Open(context.Context, *pull.Host) pull.Way { return pull.Opened(a.hosts) }

// Met makes access a [pull.Opener].
func (a *access) Met(context.Context, *pull.Host, pull.Target) {}

// walk resolves ref with each credential in its turn until one may read.
func (a *access) walk(ctx context.Context, ref registry.Reference) *registry.Access {
	base := &url.URL{Scheme: "https", Host: ref.Host, Path: "/v2"}
	run := &pull.Run{
		Requests: registry.Walk{Reference: ref, Base: base, UserAgent: a.hosts.c.userAgent()},
		Opener:   a, Depth: pull.Resolve, AuditRights: a.hosts.c.AuditRights,
		Credentials: func(context.Context, *pull.Host) ([]pull.Credential, *pull.Step) {
			var list []pull.Credential
			for _, o := range a.offers {
				list = append(list, pull.Credential{Secret: o.secret(), Info: o.Info.internal(), Accepted: o.Accepted().internal()})
			}
			return list, nil
		},
		Once: func(context.Context, context.Context, *pull.Host, string, func(context.Context) pull.Step) (pull.Step, bool) {
			return pull.Step{ID: pull.StepPing, Status: pull.StatusSkipped}, true // containerd does not ask it
		},
		Recorded: func(at pull.Endpoint, s pull.Step) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.taken = append(a.taken, taken{at, s})
		},
	}
	target, err := pull.TargetOf(base, registry.RoleManifest, "the image name")
	if err != nil {
		return &registry.Access{Inconclusive: err.Error()}
	}
	run.Walk(ctx, run.Base(ctx, target))
	run.Wait()
	return a.report(run)
}

// report makes one report of all tries: of the one that may read, which makes failures
// before it warnings, else of the first.
func (a *access) report(run *pull.Run) *registry.Access {
	r := &registry.Access{Credential: run.Info, Read: run.Accepted != 0}
	if run.Info.Source == "" { // nobody asked for one
		info := a.offers[0].Info
		r.Credential = registry.CredentialInfo{Source: "anonymous", Unmatched: info.Unmatched, NearestMiss: info.NearestMiss}
	}
	chosen := max(run.Accepted-1, 0)
	for _, t := range a.taken {
		if t.ID == pull.StepChallenge && len(t.Request.Challenges) > 0 {
			r.Challenge = t.Request.Challenges[0]
		}
		if t.ID == pull.StepToken && t.Access != nil {
			r.Attempts = append(r.Attempts, t.Access.Attempts...)
			if t.Index == chosen {
				r.Challenge, r.TokenIssued, r.ExpiresInMS, r.Granted = t.Access.Challenge, t.Access.TokenIssued, t.Access.ExpiresInMS, t.Access.Granted
			}
		}
		if t.ID == pull.StepRights {
			rights, ok := t.Report.(*registry.Rights)
			if !ok {
				rights = &registry.Rights{Inconclusive: t.Reason}
			}
			r.Rights = rights
		}
	}
	if r.Challenge.Scheme != "" {
		r.Challenge.Product = registry.ChallengeProduct(a.host, r.Challenge)
	}
	if run.Accepted > 0 && !r.TokenIssued && r.Challenge.Scheme == "bearer" {
		r.TokenIssued = a.offers[chosen].secret().RegistryToken != ""
	}
	a.findings(r)
	if r.Read && (r.Credential.HadNothing() || a.offers[chosen].Info.internal().HadNothing()) {
		f := r.NoMatch("and anonymous access suffices")
		f.Severity, f.Endpoint, f.Operation = classify.SeverityWarn, a.host, classify.OperationResolveManifest
		r.Found = append(r.Found, f)
	}
	if r.Rights != nil {
		r.Found = append(r.Found, r.Rights.Found...)
	}
	return r
}

// findings collects what the steps say. What a token claims is a claim, and the read
// decides: where the registry refuses the token, the claim says more; where it reads, the
// claim says nothing.
func (a *access) findings(r *registry.Access) {
	for i, t := range a.taken {
		if t.ID == pull.StepRights {
			continue
		}
		if r.Inconclusive == "" && t.Status == pull.StatusInconclusive {
			r.Inconclusive = t.Reason
		}
		claim := t.ID == pull.StepToken && t.Access != nil && t.Access.TokenIssued
		next := slices.IndexFunc(a.taken[i+1:], func(n taken) bool { return n.ID == pull.StepResolve && n.Index == t.Index+1 })
		refused := next >= 0 && refusal(a.taken[i+1+next].Findings)
		found := t.Findings
		if t.ID == pull.StepChallenge { // a token server that looks wrong
			found = t.Request.Found
		}
		for _, f := range found {
			f.Endpoint = shown(f.Endpoint, t.at)
			switch fails := f.Severity == classify.SeverityFail; {
			case claim && fails && r.Read:
				continue
			case claim && fails && refused:
				f.Certainty = classify.CertaintyProven
			case t.ID == pull.StepResolve && refusal(t.Findings) && a.claimed(t.Index-1):
				continue
			}
			a.add(r, t, f)
		}
	}
	for i := range r.Found {
		if r.Read && r.Found[i].Severity == classify.SeverityFail {
			r.Found[i].Severity = classify.SeverityWarn
		}
	}
}

// add adds a finding of one step, with the credential if it is a refusal.
func (a *access) add(r *registry.Access, t taken, f classify.Finding) {
	var answer *classify.HTTPAnswer
	if t.ID != pull.StepResolve || !errors.As(f, &answer) {
		r.Found = append(r.Found, f)
		return
	}
	if answer.Status == http.StatusNotFound && a.untagged {
		f.Severity = classify.SeverityWarn
		r.Inconclusive = fmt.Sprintf("%s has no tag latest of this repository, and the image names no other: the access was not refused, and no read was seen", a.host)
	}
	r.Deny(f)
}

// claimed reports whether the token of a try said itself that it does not suffice.
func (a *access) claimed(index int) bool {
	return slices.ContainsFunc(a.taken, func(t taken) bool {
		return t.ID == pull.StepToken && t.Index == index && t.Access != nil && t.Access.TokenIssued && pull.HasSeverity(t.Findings, classify.SeverityFail)
	})
}

func refusal(findings []classify.Finding) bool {
	return slices.ContainsFunc(findings, func(f classify.Finding) bool { return f.Layer == classify.LayerIdentity })
}

// shown is an endpoint as a URL has it, without the port of its scheme.
func shown(endpoint string, at pull.Endpoint) string {
	if endpoint != at.HostPort() {
		return endpoint
	}
	port := map[string]string{"https": ":443", "http": ":80"}[at.Scheme]
	return strings.TrimSuffix(endpoint, port)
}

// clock says how far this node's clock is off.
func (a *access) clock(r *registry.Access) {
	skew := a.hosts.skew
	if skew == nil {
		return
	}
	ms := skew.Milliseconds()
	r.ClockSkewMS = &ms
	if skew.Abs() > maxSkew {
		f := classify.New(classify.TLSClockSkew, fmt.Sprintf("this node's clock is %s the time that %s tells over verified TLS: certificates, tokens and signed addresses are judged by it", skewed(*skew), a.host))
		f.Severity, f.Endpoint, f.Operation = classify.SeverityWarn, a.host, classify.OperationResolveManifest
		r.Found = append(r.Found, f)
	}
}
