package tlsauth

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// CheckAccess asks whether this identity may read the manifest of image, with
// the requests that containerd sends for it: HEAD without a credential, the
// token exchange that the challenge names, HEAD again; then the same for the
// next credential, as the kubelet does. The names are resolved by DialContext;
// the registry is asked over https only, and never without a verified chain.
//
// image without tag and digest is read as the kubelet reads it, with the tag
// latest. If that tag does not exist, the answer is inconclusive: the access was
// not refused, and no read was seen.
//
// An error means an invalid argument: no image reference, no usable roots, a
// keychain that fails.
func (c *Checker) CheckAccess(ctx context.Context, image string) (*AccessReport, error) {
	start := time.Now()
	ref, err := parseImage(image)
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
	a := &access{
		c: &own, hosts: &hosts{c: &own, pools: map[string]*registry.Pool{}}, offers: offers,
		host: hostOf(ref), repository: ref.Context().RepositoryStr(), reference: ref.Identifier(),
		defaulted: untagged(image),
	}
	defer a.hosts.close()
	r := &AccessReport{}
	if ctx.Err() != nil {
		r.Inconclusive = ended(ctx)
	} else {
		r = a.run(ctx)
	}
	if skew := a.hosts.skew; skew != nil {
		ms := skew.Milliseconds()
		r.ClockSkewMS = &ms
		if skew.Abs() > maxSkew {
			f := classify.New(classify.TLSClockSkew, fmt.Sprintf("this node's clock is %s the time that %s tells over verified TLS: certificates, tokens and signed addresses are judged by it", skewed(*skew), a.host))
			f.Severity, f.Endpoint, f.Operation = classify.SeverityWarn, a.host, classify.OperationResolveManifest
			r.Found = append(r.Found, f)
		}
	}
	r.Registry, r.Repository = a.host, a.repository
	r.ElapsedMS = time.Since(start).Milliseconds()
	return r, nil
}

// untagged reports whether an image names neither tag nor digest.
func untagged(image string) bool {
	return !strings.ContainsAny(image[strings.LastIndexByte(image, '/')+1:], ":@")
}

// hostOf is the host that a runtime contacts for a reference.
func hostOf(ref name.Reference) string {
	if host := ref.Context().RegistryStr(); host != name.DefaultRegistry {
		return host
	}
	return "registry-1.docker.io"
}

// access is one run of CheckAccess.
type access struct {
	c     *Checker
	hosts *hosts

	host, repository, reference string
	defaulted                   bool // the image names no tag
	offers                      []Offer
}

// run asks without a credential and, if there is a challenge, with each.
func (a *access) run(ctx context.Context) *AccessReport {
	first := a.offers[0].Info
	r := &AccessReport{Credential: CredentialInfo{Source: "anonymous", Unmatched: first.Unmatched, NearestMiss: first.NearestMiss}}
	challenges := a.read(ctx, r, "")
	if len(challenges) == 0 {
		if r.Read && r.Credential.HadNothing() {
			warnNoMatch(r, a.host)
		}
		return r
	}
	var tries []*AccessReport
	for _, o := range a.offers {
		r := a.try(ctx, choose(challenges), o)
		tries = append(tries, r)
		if r.Read || ctx.Err() != nil {
			break
		}
	}
	return join(tries)
}

// join makes one report of all tries: the one that worked, which makes the
// failures before it warnings, else the first.
func join(tries []*AccessReport) *AccessReport {
	out := tries[0]
	if last := tries[len(tries)-1]; last.Read {
		out = last
	}
	var attempts []TokenAttempt
	var findings []classify.Finding
	for _, t := range tries {
		attempts = append(attempts, t.Attempts...)
		for _, f := range t.Found {
			if out.Read && t != out {
				f.Severity = classify.SeverityWarn
			}
			findings = append(findings, f)
		}
		if !out.Read && out.Inconclusive == "" {
			out.Inconclusive = t.Inconclusive
		}
	}
	out.Attempts, out.Found = attempts, findings
	return out
}

// choose takes the challenge that containerd takes: Bearer before Basic.
func choose(challenges []registry.Challenge) registry.Challenge {
	for _, scheme := range []string{"bearer", "basic"} {
		for _, ch := range challenges {
			if ch.Scheme == scheme {
				return ch
			}
		}
	}
	return challenges[0]
}

// try answers the challenge with one credential and reads.
func (a *access) try(ctx context.Context, ch registry.Challenge, o Offer) *AccessReport {
	var res registry.TokenResult
	authorization := ""
	switch {
	case ch.Scheme == "bearer" && o.secret().RegistryToken != "":
		res.Token, res.HasToken = registry.NewToken(o.secret().RegistryToken), true
	case ch.Scheme == "bearer":
		res = registry.FetchToken(ctx, a.hosts, registry.TokenRequest{
			Challenge: ch, Repository: a.repository, Credential: o.secret(), UserAgent: a.c.userAgent(),
			Next: func(context.Context, *url.URL) (http.RoundTripper, error) { return a.hosts, nil },
		})
	case ch.Scheme == "basic" && o.secret().Username != "" && o.secret().Password != "":
		authorization = o.secret().Basic()
	case ch.Scheme == "basic": // containerd sends no half of a login
		o.Info.Username = ""
	}
	r := registry.JudgeToken(ch, o.exchanged(res), res, a.repository)
	r.Challenge.Product = registry.ChallengeProduct(a.host, r.Challenge)
	if strings.HasPrefix(r.Challenge.Realm, "http://") && r.Inconclusive == "" {
		f := classify.New(classify.EndpointBadRealm, fmt.Sprintf("%s speaks https and names a token server in clear http, %s: tokens travel readable, and a credential is not sent there", a.host, r.Challenge.Realm))
		f.Severity = classify.SeverityWarn
		r.Add(f, a.host)
	}
	if ctx.Err() != nil && res.Err != nil {
		r.Found, r.Inconclusive = nil, ended(ctx)
		return r
	}
	if res.HasToken {
		authorization = res.Token.Authorization()
	}
	if authorization == "" {
		for i := range r.Found {
			if r.Found[i].Endpoint == "" {
				r.Found[i].Endpoint = a.host
			}
		}
		return r
	}
	// What the token claims is a claim: the read decides.
	var claims, remarks []classify.Finding
	for _, f := range r.Found {
		if f.Severity == classify.SeverityFail {
			claims = append(claims, f)
		} else {
			remarks = append(remarks, f)
		}
	}
	r.Found = nil
	a.read(ctx, r, authorization)
	if r.Read && ch.Scheme == "basic" { // without it, the registry refused
		r.Credential = o.Accepted()
	}
	switch {
	case len(claims) == 0 || r.Read:
	case refusal(r.Found): // the registry agrees with the claim, which says more
		for i := range claims {
			claims[i].Certainty = classify.CertaintyProven
		}
		r.Found = claims
	default:
		r.Found = append(r.Found, claims...)
	}
	r.Found = append(r.Found, remarks...)
	if r.Read && o.Info.HadNothing() {
		warnNoMatch(r, a.host)
	}
	if r.Read && a.c.AuditRights {
		r.Rights = registry.AuditRights(ctx, a.hosts, ch, o.secret(), a.repository, a.c.userAgent())
		r.Found = append(r.Found, r.Rights.Found...)
	}
	return r
}

func refusal(findings []classify.Finding) bool {
	return slices.ContainsFunc(findings, func(f classify.Finding) bool { return f.Layer == classify.LayerIdentity })
}

func warnNoMatch(r *AccessReport, host string) {
	f := r.NoMatch("and anonymous access suffices")
	f.Severity, f.Endpoint, f.Operation = classify.SeverityWarn, host, classify.OperationResolveManifest
	r.Found = append(r.Found, f)
}
