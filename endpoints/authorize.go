package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// resource is how a keychain is asked for an image. Docker Hub has another name
// there.
type resource struct{ registry, repository string }

func (r resource) String() string      { return r.registry + "/" + r.repository }
func (r resource) RegistryStr() string { return r.registry }

// credential asks the keychain. Anonymous is no error.
func (t *trip) credential(ctx context.Context) (registry.Credential, error) {
	if t.c.Keychain == nil || t.src.Credential == noderuntime.CredentialNone {
		return registry.Credential{}, nil
	}
	target := resource{t.m.Reference.Registry, t.m.Reference.Repository}
	if target.registry == registry.DockerHub {
		target.registry = name.DefaultRegistry
	}
	a, err := authn.Resolve(ctx, t.c.Keychain, target)
	if err != nil {
		return registry.Credential{}, err
	}
	conf, err := authn.Authorization(ctx, a)
	if err != nil {
		return registry.Credential{}, err
	}
	return registry.Credential{Username: conf.Username, Password: conf.Password, IdentityToken: conf.IdentityToken, RegistryToken: conf.RegistryToken}, nil
}

// authorize answers the challenge of r and says whether the walk has something
// to offer now.
func (t *trip) authorize(ctx context.Context, l *ledger, r *RequestReport) bool {
	cred, err := t.credential(ctx)
	if err != nil {
		t.m.unknown("the keychain gave nothing: " + classify.Redact(err.Error(), 200))
		return false
	}
	for _, ch := range r.Challenge() {
		switch {
		case ch.Scheme == "bearer" && cred.RegistryToken != "":
			t.w.Authorization = registry.NewToken(cred.RegistryToken).Authorization()
			return true
		case ch.Scheme == "bearer":
			return t.exchange(ctx, l, ch, cred, r.Host)
		case ch.Scheme == "basic" && cred.Username != "":
			t.w.Authorization = cred.Basic()
			return true
		case ch.Scheme == "basic":
			f := classify.New(classify.IdentityNoBasicAuth, fmt.Sprintf("%s wants a user name and password, and there is no credential for it", r.Endpoint))
			f.Endpoint, f.Operation = r.Endpoint, r.Operation
			t.m.findings = append(t.m.findings, f)
			return false
		}
	}
	return false
}

// exchange fetches a token and adds its requests to the map.
func (t *trip) exchange(ctx context.Context, l *ledger, ch registry.Challenge, cred registry.Credential, foundBy string) bool {
	realm, err := registry.RealmURL(ch)
	if err != nil {
		f := classify.New(classify.EndpointBadRealm, "the challenge names no usable token server: "+err.Error())
		f.Endpoint, f.Operation = t.w.Origin().Host, classify.OperationFetchToken
		t.m.findings = append(t.m.findings, f)
		return false
	}
	rt, err := t.pool(l, realm, RoleToken, foundBy)
	if err != nil {
		return false
	}
	from := registry.HostPort(realm)
	res := registry.FetchToken(ctx, rt, registry.TokenRequest{
		Challenge: ch, Repository: t.w.Reference.Repository, Credential: cred, UserAgent: t.w.UserAgent, Way: t.files.Client.Token,
		Fields: t.src.TokenFields,
		Next: func(_ context.Context, u *url.URL) (http.RoundTripper, error) {
			by := from
			from = registry.HostPort(u)
			h, err := t.pool(l, u, RoleToken, by)
			if err != nil {
				return nil, err
			}
			return h, nil
		},
	})
	for i, a := range res.Attempts {
		r := tokenReport(realm, a, res.HasToken && i == len(res.Attempts)-1)
		if i == len(res.Attempts)-1 {
			t.tokenError(ctx, r, res.Err)
		}
		l.note(r)
	}
	if len(res.Attempts) == 0 {
		r := tokenReport(realm, registry.TokenAttempt{Method: "GET", URL: registry.RedactURL(realm)}, false)
		t.tokenError(ctx, r, res.Err)
		l.note(r)
	}
	if !res.HasToken {
		return false
	}
	t.w.Authorization = res.Token.Authorization()
	return true
}

func tokenReport(realm *url.URL, a registry.TokenAttempt, held bool) *RequestReport {
	if u, err := url.Parse(a.URL); err == nil && u.Host != "" {
		realm = u // or where it was redirected to
	}
	r := &RequestReport{Endpoint: realm.Host, Request: registry.Request{
		Operation: classify.OperationFetchToken, Role: RoleToken, Method: a.Method, URL: a.URL, Host: registry.HostPort(realm), Hop: 1,
		Status: a.Status, Credentialed: a.Credentialed, ElapsedMS: a.ElapsedMS, Outcome: OutcomeFailed,
	}}
	if held {
		r.Outcome = OutcomeHeld
	}
	return r
}

// tokenError judges what ended a token exchange.
func (t *trip) tokenError(ctx context.Context, r *RequestReport, err error) {
	var (
		withheld  *registry.WithheldError
		malformed *registry.MalformedTokenError
		answer    *classify.HTTPAnswer
		found     classify.Finding
	)
	switch {
	case err == nil:
	case errors.As(err, &withheld):
		r.Unknown("credential withheld: " + withheld.Reason)
	case errors.As(err, &found):
		r.Fail(found)
	case errors.As(err, &malformed):
		r.Fail(classify.New(classify.IdentityTokenMalformed, fmt.Sprintf("%s answers, but not with a token: %s", r.Endpoint, classify.Redact(err.Error(), 200)),
			classify.Fact{Key: classify.FactRealm, Value: r.URL}))
	case errors.As(err, &answer):
		r.Refused(answer)
	default:
		r.Broken(ctx, classify.StageHeaders, err)
	}
}
