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
	"github.com/pullwalk/pullwalk/internal/wire"
)

// resource is how a keychain is asked for an image. Docker Hub has another name
// there.
type resource struct{ registry, repository string }

func (r resource) String() string      { return r.registry + "/" + r.repository }
func (r resource) RegistryStr() string { return r.registry }

// credential asks the keychain. Anonymous is no error.
func (t *trip) credential(ctx context.Context) (wire.Credential, error) {
	if t.c.Keychain == nil || t.src.Credential == CredentialNone {
		return wire.Credential{}, nil
	}
	target := resource{t.m.Reference.Registry, t.m.Reference.Repository}
	if target.registry == dockerHub {
		target.registry = name.DefaultRegistry
	}
	a, err := authn.Resolve(ctx, t.c.Keychain, target)
	if err != nil {
		return wire.Credential{}, err
	}
	conf, err := authn.Authorization(ctx, a)
	if err != nil {
		return wire.Credential{}, err
	}
	return wire.Credential{Username: conf.Username, Password: conf.Password, IdentityToken: conf.IdentityToken, RegistryToken: conf.RegistryToken}, nil
}

// authorize answers the challenge of r and says whether the walk has something
// to offer now.
func (t *trip) authorize(ctx context.Context, l *ledger, r *RequestReport) bool {
	cred, err := t.credential(ctx)
	if err != nil {
		t.m.unknown("the keychain gave nothing: " + classify.Redact(err.Error(), 200))
		return false
	}
	for _, ch := range r.challenges {
		switch {
		case ch.Scheme == "bearer" && cred.RegistryToken != "":
			t.w.Authorization = wire.NewToken(cred.RegistryToken).Authorization()
			return true
		case ch.Scheme == "bearer":
			return t.exchange(ctx, l, ch, cred, r.Host)
		case ch.Scheme == "basic" && cred.Username != "":
			t.w.Authorization = cred.Basic()
			return true
		case ch.Scheme == "basic":
			f := classify.New(classify.IdentityNoBasicAuth, fmt.Sprintf("%s wants a user name and password, and there is no credential for it", r.endpoint))
			f.Endpoint, f.Operation = r.endpoint, r.Operation
			t.m.findings = append(t.m.findings, f)
			return false
		}
	}
	return false
}

// exchange fetches a token and adds its requests to the map.
func (t *trip) exchange(ctx context.Context, l *ledger, ch wire.Challenge, cred wire.Credential, foundBy string) bool {
	realm, err := wire.RealmURL(ch)
	if err != nil {
		f := classify.New(classify.EndpointBadRealm, "the challenge names no usable token server: "+err.Error())
		f.Endpoint, f.Operation = t.w.base().Host, classify.OperationFetchToken
		t.m.findings = append(t.m.findings, f)
		return false
	}
	rt, err := t.pool(l, realm, RoleToken, foundBy)
	if err != nil {
		return false
	}
	from := hostPort(realm)
	res := wire.FetchToken(ctx, rt, wire.TokenRequest{
		Challenge: ch, Repository: t.w.Reference.Repository, Credential: cred, UserAgent: t.w.UserAgent, Way: t.way.Token(),
		Fields: t.src.TokenFields(),
		Next: func(_ context.Context, u *url.URL) (http.RoundTripper, error) {
			by := from
			from = hostPort(u)
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
		r := tokenReport(realm, wire.TokenAttempt{Method: "GET", URL: wire.RedactURL(realm)}, false)
		t.tokenError(ctx, r, res.Err)
		l.note(r)
	}
	if !res.HasToken {
		return false
	}
	t.w.Authorization = res.Token.Authorization()
	return true
}

func tokenReport(realm *url.URL, a wire.TokenAttempt, held bool) *RequestReport {
	if u, err := url.Parse(a.URL); err == nil && u.Host != "" {
		realm = u // or where it was redirected to
	}
	r := &RequestReport{
		Operation: classify.OperationFetchToken, Role: RoleToken, Method: a.Method, URL: a.URL, Host: hostPort(realm), Hop: 1,
		Status: a.Status, Credentialed: a.Credentialed, ElapsedMS: a.ElapsedMS, Outcome: OutcomeFailed, endpoint: realm.Host,
		asked: ask{kind: askManifest},
	}
	if held {
		r.Outcome = OutcomeHeld
	}
	return r
}

// tokenError judges what ended a token exchange.
func (t *trip) tokenError(ctx context.Context, r *RequestReport, err error) {
	var (
		withheld  *wire.WithheldError
		malformed *wire.MalformedTokenError
		answer    *classify.HTTPAnswer
		found     classify.Finding
	)
	switch {
	case err == nil:
	case errors.As(err, &withheld):
		r.unknown("credential withheld: " + withheld.Reason)
	case errors.As(err, &found):
		r.fail(found)
	case errors.As(err, &malformed):
		r.fail(classify.New(classify.IdentityTokenMalformed, fmt.Sprintf("%s answers, but not with a token: %s", r.endpoint, classify.Redact(err.Error(), 200)),
			classify.Fact{Key: classify.FactRealm, Value: r.URL}))
	case errors.As(err, &answer):
		r.refused(answer)
	default:
		r.broken(ctx, classify.StageHeaders, err)
	}
}
