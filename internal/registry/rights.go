package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Rights are what a token server would grant an identity, beyond what the pull
// needs. Asking has no side effect: a token is issued and thrown away.
type Rights struct {
	Grants []Grant `json:"grants,omitempty"`
	// Inconclusive is why it is not known: the tokens cannot be read, or none
	// came. "" = known, as far as the tokens' own claims go.
	Inconclusive string `json:"inconclusive,omitempty"`

	Found []classify.Finding `json:"-"` // see [Rights.Findings]
}

// Grant is one thing that was asked for.
type Grant struct {
	Repository string   `json:"repository"`
	Asked      []string `json:"asked"`
	Granted    []string `json:"granted"` // what the token claims; empty = refused
}

// Findings returns what is too much, as warnings.
func (r *Rights) Findings() []classify.Finding {
	if r == nil {
		return nil
	}
	return slices.Clone(r.Found)
}

// neighbour is a repository beside the one that is pulled. Nothing of that name
// needs to exist: rights go by name.
const neighbour = "pullwalk-audit"

// AuditRights asks the token server of ch what it would grant this identity: to
// push and delete in repository, and to read a repository beside it and one
// elsewhere. A registry that answers with readable claims makes
// identity.over-broad a likely finding; only a write would prove it, and none is
// tried. rt must reach the realm over verified TLS. Anonymous identities and
// challenges without a token server have nothing to audit, which is said.
func AuditRights(ctx context.Context, rt http.RoundTripper, ch Challenge, secret Credential, repository, userAgent string) *Rights {
	r := &Rights{}
	switch {
	case ch.Scheme != "bearer":
		r.Inconclusive = "the registry uses no tokens, so that what else the login may do is not said"
		return r
	case secret.IsZero():
		r.Inconclusive = "the pull is anonymous"
		return r
	case secret.RegistryToken != "":
		r.Inconclusive = "the credential is a ready token, with which no other can be asked for"
		return r
	}
	beside := neighbour
	if i := strings.LastIndexByte(repository, '/'); i >= 0 {
		beside = repository[:i+1] + neighbour
	}
	questions := []Grant{
		{Repository: repository, Asked: []string{"pull", "push", "delete"}},
		{Repository: beside, Asked: []string{"pull", "push"}},
	}
	if elsewhere := neighbour + "/" + neighbour; beside != neighbour {
		questions = append(questions, Grant{Repository: elsewhere, Asked: []string{"pull", "push"}})
	}
	for _, q := range questions {
		if !r.ask(ctx, rt, ch, secret, userAgent, q) {
			break
		}
	}
	r.judge(repository, ch)
	return r
}

// ask makes one exchange; false ends the audit.
func (r *Rights) ask(ctx context.Context, rt http.RoundTripper, ch Challenge, secret Credential, userAgent string, q Grant) bool {
	ch.Scope = "repository:" + q.Repository + ":" + strings.Join(q.Asked, ",")
	res := FetchToken(ctx, rt, TokenRequest{Challenge: ch, Repository: q.Repository, Credential: secret, UserAgent: userAgent})
	var answer *classify.HTTPAnswer
	switch {
	case errors.As(res.Err, &answer) && (answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden):
		q.Granted = []string{} // refused as a whole, instead of granted less
	case res.Err != nil:
		r.Inconclusive = "the token server did not answer: " + classify.Redact(res.Err.Error(), 200)
		return false
	case !res.Readable:
		r.Inconclusive = "the token does not show what it grants"
		return false
	default:
		q.Granted = append([]string{}, res.Granted...)
	}
	r.Grants = append(r.Grants, q)
	return true
}

// judge says what is too much.
func (r *Rights) judge(repository string, ch Challenge) {
	for _, g := range r.Grants {
		var more []string
		for _, action := range g.Granted {
			if g.Repository != repository || action != "pull" {
				more = append(more, action)
			}
		}
		if len(more) == 0 {
			continue
		}
		what := fmt.Sprintf("the identity that pulls would also be granted %s on %s", strings.Join(more, ", "), g.Repository)
		if g.Repository != repository {
			what = fmt.Sprintf("the identity that pulls %s would also be granted %s on other repositories (asked for %s)", repository, strings.Join(more, ", "), g.Repository)
		}
		f := classify.New(classify.IdentityOverBroad, what,
			classify.Fact{Key: classify.FactGranted, Value: strings.Join(g.Granted, ", ")},
			classify.Fact{Key: classify.FactScope, Value: "repository:" + classify.Redact(g.Repository, 200) + ":" + strings.Join(g.Asked, ",")})
		f.Severity, f.Certainty, f.Operation, f.Endpoint = classify.SeverityWarn, classify.CertaintyLikely, classify.OperationFetchToken, realmHost(ch)
		r.Found = append(r.Found, f)
	}
}
