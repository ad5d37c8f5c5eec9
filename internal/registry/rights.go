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

// Rights are what a token server would grant an identity, beyond what the pull needs.
// Asking has no side effect: a token is issued and thrown away.
type Rights struct {
	Grants []Grant `json:"grants,omitempty"`
	// Inconclusive is why it is not known: the tokens cannot be read, or none came. "" =
	// known, as far as the tokens' own claims go.
	Inconclusive string `json:"inconclusive,omitempty"`

	Found []classify.Finding `json:"-"` // what is too much, as warnings
}

// Grant is one thing that was asked for.
type Grant struct {
	Repository string   `json:"repository"`
	Asked      []string `json:"asked"`
	Granted    []string `json:"granted"` // what the token claims; empty = refused
}

// Findings returns a copy of Found.
func (r *Rights) Findings() []classify.Finding {
	if r == nil {
		return nil
	}
	return slices.Clone(r.Found)
}

// neighbour is a repository beside the one that is pulled. Nothing of that name needs to
// exist: rights go by name.
const neighbour = "pullwalk-audit"

// AuditRights asks the token server of ch what it would grant this identity: to push and
// delete in repository, and to read a repository beside it and one elsewhere. A registry
// that answers with readable claims makes identity.over-broad a likely finding; only a
// write would prove it, and none is tried. rt must reach the realm over verified TLS.
// Anonymous identities and challenges without a token server have nothing to audit, which
// is said.
func AuditRights(ctx context.Context, rt http.RoundTripper, ch Challenge, secret Credential, repository, userAgent string) *Rights {
	switch {
	case ch.Scheme != "bearer":
		return &Rights{Inconclusive: "the registry uses no tokens, so that what else the login may do is not said"}
	case secret.IsZero():
		return &Rights{Inconclusive: "the pull is anonymous"}
	case secret.RegistryToken != "":
		return &Rights{Inconclusive: "the credential is a ready token, with which no other can be asked for"}
	}
	beside := repository[:strings.LastIndexByte(repository, '/')+1] + neighbour
	questions := []Grant{
		{Repository: repository, Asked: []string{"pull", "push", "delete"}},
		{Repository: beside, Asked: []string{"pull", "push"}},
	}
	if beside != neighbour {
		questions = append(questions, Grant{Repository: neighbour + "/" + neighbour, Asked: []string{"pull", "push"}})
	}
	r := &Rights{}
	for _, q := range questions {
		scoped := ch
		scoped.Scope = q.scope()
		if !r.add(q, FetchToken(ctx, rt, TokenRequest{Challenge: scoped, Repository: q.Repository, Credential: secret, UserAgent: userAgent})) {
			break
		}
	}
	for _, g := range r.Grants {
		r.judge(g, repository, realmHost(ch))
	}
	return r
}

func (g Grant) scope() string { return "repository:" + g.Repository + ":" + strings.Join(g.Asked, ",") }

// add takes one answer; false ends the audit.
func (r *Rights) add(q Grant, res TokenResult) bool {
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

// judge says what is too much of a grant.
func (r *Rights) judge(g Grant, repository, realm string) {
	var more []string
	for _, action := range g.Granted {
		if g.Repository != repository || action != "pull" {
			more = append(more, action)
		}
	}
	if len(more) == 0 {
		return
	}
	summary := fmt.Sprintf("the identity that pulls would also be granted %s on %s", strings.Join(more, ", "), g.Repository)
	if g.Repository != repository {
		summary = fmt.Sprintf("the identity that pulls %s would also be granted %s on other repositories (asked for %s)", repository, strings.Join(more, ", "), g.Repository)
	}
	f := classify.New(classify.IdentityOverBroad, summary,
		classify.Fact{Key: classify.FactGranted, Value: strings.Join(g.Granted, ", ")},
		classify.Fact{Key: classify.FactScope, Value: "repository:" + classify.Redact(g.Repository, 200) + ":" + strings.Join(g.Asked, ",")})
	f.Severity, f.Certainty, f.Operation, f.Endpoint = classify.SeverityWarn, classify.CertaintyLikely, classify.OperationFetchToken, realm
	r.Found = append(r.Found, f)
}
