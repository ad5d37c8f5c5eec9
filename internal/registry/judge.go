package registry

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// JudgeToken says what a token exchange means for the identity. It is pure: the
// exchange was made by somebody else, at the realm of ch, for repository
// ("team/app"). Challenges that need no exchange are judged too: Basic without a
// credential, and schemes that no runtime speaks.
func JudgeToken(ch Challenge, cred CredentialInfo, res TokenResult, repository string) *Access {
	r := &Access{
		Repository: repository, Challenge: describeChallenge(ch), Credential: cred,
		TokenIssued: res.HasToken, ExpiresInMS: res.ExpiresIn.Milliseconds(),
	}
	if res.Readable {
		r.Granted = append([]string{}, res.Granted...)
	}
	for _, a := range res.Attempts {
		r.Attempts = append(r.Attempts, a)
	}
	switch ch.Scheme {
	case "bearer":
		r.judgeExchange(ch, res)
		r.noteDropped(res.Dropped)
	case "basic":
		if cred.Username == "" {
			r.Deny(classify.New(classify.IdentityNoBasicAuth, "the registry demands a user name and password, and there is no credential to send"))
		}
	default:
		r.Deny(classify.New(classify.IdentityChallengeUnsupported, fmt.Sprintf(
			"the registry demands the authentication scheme %q, which no runtime speaks", classify.Redact(ch.Scheme, 32))))
	}
	return r
}

// noteDropped adds to a refusal that the credential was lost on a redirect: what was
// refused is an anonymous request then.
func (r *Access) noteDropped(host string) {
	if host == "" {
		return
	}
	for i, f := range r.Found {
		if f.Severity == classify.SeverityFail && f.Layer == classify.LayerIdentity {
			r.Found[i].Summary += fmt.Sprintf("; the token server redirects to %s, and a runtime does not send the credential along", host)
		}
	}
}

// judgeExchange reads a bearer exchange.
func (r *Access) judgeExchange(ch Challenge, res TokenResult) {
	var (
		realm     *BadRealmError
		malformed *MalformedTokenError
		withheld  *WithheldError
		trust     *UnreachedError
		found     classify.Finding
		answer    *classify.HTTPAnswer
		stage     *classify.StageError
	)
	host := realmHost(ch)
	switch err := res.Err; {
	case err == nil:
		r.judgeGrant()
	case errors.As(err, &trust):
		r.Take(trust, classify.OperationFetchToken)
	case errors.As(err, &found):
		r.Found = append(r.Found, found)
	case errors.As(err, &realm):
		r.Add(classify.New(classify.EndpointBadRealm, fmt.Sprintf("the challenge names no usable token server: %s", realm.Reason),
			classify.Fact{Key: classify.FactRealm, Value: classify.Redact(realm.Realm, 200)}).WithError(err), "")
	case errors.As(err, &withheld):
		if withheld.Redirected {
			r.Inconclusive = fmt.Sprintf("credential withheld from %s: %s", classify.Redact(withheld.Host, 200), withheld.Reason)
			return
		}
		f := classify.New(classify.IdentityPlaintextRefused, fmt.Sprintf("the credential was not sent to %s: %s", classify.Redact(withheld.Host, 200), withheld.Reason)).WithError(err)
		f.Severity = classify.SeverityWarn // what the runtime would get was not seen
		r.Add(f, withheld.Host)
		r.Inconclusive = f.Summary
	case errors.As(err, &malformed):
		cause := classify.IdentityTokenMalformed
		if malformed.Answerer == AnswererHTML { // a page: somebody else answers there
			cause = classify.EndpointHTMLInsteadOfRegistry
		}
		r.Add(classify.New(cause, fmt.Sprintf("the token server %s answered 200 without a usable token: %s",
			classify.Redact(malformed.Host, 200), malformed.Reason)).WithError(err), host)
	case errors.As(err, &answer):
		r.denyAnswer(answer)
	case errors.As(err, &stage):
		r.Found = append(r.Found, classify.Error(err))
	default: // the caller's context ended, or the transport was the caller's own
		r.Inconclusive = "the token exchange did not end: " + classify.Redact(err.Error(), 200)
	}
}

// denyAnswer reads a token server's refusal. The meaning of a status is
// classify's; what is known here in addition is whether a password was offered.
func (r *Access) denyAnswer(a *classify.HTTPAnswer) {
	f := classify.Error(a)
	if age := r.Credential.Expired(time.Now()); age > 0 && a.Credentialed && f.Layer == classify.LayerIdentity {
		f = Refine(f, classify.IdentityTokenExpired, fmt.Sprintf("the token server %s refused the credential (%s) with %d; by its own word it expired %v ago, at %s",
			a.Host, r.Credential.Source, a.Status, age.Round(time.Second), r.Credential.ExpiresAt.Format(time.RFC3339)))
	} else if a.Status == http.StatusUnauthorized && a.Credentialed && f.Layer == classify.LayerIdentity {
		f = Refine(f, classify.IdentityBadCredentials, fmt.Sprintf("the token server %s refused the credential (%s) with 401", a.Host, r.Credential.Source))
		f.Alternatives = []classify.Cause{classify.IdentityTokenFetchDenied} // some servers answer 401 for a missing right, too
	}
	r.Deny(f)
}

// judgeGrant looks whether the token claims the right to pull, and no more.
func (r *Access) judgeGrant() {
	if more := beyondPull(r.Granted); r.TokenIssued && canPull(r.Granted) && len(more) > 0 {
		f := classify.New(classify.IdentityOverBroad, fmt.Sprintf("only pull was asked for, and the token claims %s on %s as well", strings.Join(more, ", "), r.Repository),
			classify.Fact{Key: classify.FactGranted, Value: strings.Join(r.Granted, ", ")})
		f.Severity, f.Certainty = classify.SeverityInfo, classify.CertaintyLikely // said, not asked about
		r.Add(f, realmHostOf(r.Challenge))
	}
	if !r.TokenIssued || r.Granted == nil || canPull(r.Granted) {
		return
	}
	granted := list(r.Granted)
	f := classify.New(classify.IdentityInsufficientScope, fmt.Sprintf("the token server issued a token that grants %s on %s, not pull", granted, r.Repository),
		classify.Fact{Key: classify.FactGranted, Value: granted})
	f.Certainty = classify.CertaintyLikely // a claim: the read decides
	r.Deny(f)
}

// beyondPull returns the granted actions that no pull needs.
func beyondPull(granted []string) []string {
	return slices.DeleteFunc(slices.Clone(granted), func(a string) bool { return a == "pull" })
}

func canPull(granted []string) bool {
	return slices.Contains(granted, "pull") || slices.Contains(granted, "*")
}

// Deny adds a refusal. If the keychain had nothing for the image, that is the
// better reading of it, and the refusal what it led to.
func (r *Access) Deny(f classify.Finding) {
	if f.Layer == classify.LayerIdentity && r.Credential.HadNothing() && f.Severity == classify.SeverityFail {
		better := r.NoMatch("so the pull is anonymous and was refused: " + f.Summary)
		better.Operation, better.Endpoint, better.Certainty = f.Operation, f.Endpoint, f.Certainty
		better.Facts = append(better.Facts, f.Facts...)
		better.Alternatives = append([]classify.Cause{f.Cause}, f.Alternatives...)
		f = better.WithError(f.Unwrap())
	}
	r.Add(f, realmHostOf(r.Challenge))
}

// NoMatch says that the keychain has nothing for this image.
func (r *Access) NoMatch(consequence string) classify.Finding {
	summary := "no key of the pull secret matches this image"
	if r.Credential.NearestMiss != "" {
		summary += " (the nearest: " + r.Credential.NearestMiss + ")"
	}
	return classify.New(classify.IdentityNoMatchingCredential, summary+", "+consequence)
}

// Add completes a finding with who asked, and for what.
func (r *Access) Add(f classify.Finding, endpoint string) {
	if f.Endpoint == "" {
		f.Endpoint = endpoint
	}
	if f.Operation == "" {
		f.Operation = classify.OperationFetchToken
		if r.Challenge.Scheme != "bearer" {
			f.Operation = classify.OperationResolveManifest
		}
	}
	f.Facts = append(slices.Clone(f.Facts), classify.Fact{Key: classify.FactCredential, Value: r.Credential.Source})
	if r.Credential.Username != "" {
		f.Facts = append(f.Facts, classify.Fact{Key: classify.FactUser, Value: r.Credential.Username})
	}
	if r.Challenge.Realm != "" && f.Fact(classify.FactRealm) == "" {
		f.Facts = append(f.Facts, classify.Fact{Key: classify.FactRealm, Value: r.Challenge.Realm})
	}
	if r.Challenge.Scope != "" {
		f.Facts = append(f.Facts, classify.Fact{Key: classify.FactScope, Value: r.Challenge.Scope})
	}
	r.Found = append(r.Found, f)
}

// Take adds what is wrong with the way to a host, or its TLS.
func (r *Access) Take(rep *UnreachedError, op classify.Operation) {
	for _, f := range rep.Findings {
		f.Operation = op
		r.Found = append(r.Found, f)
	}
	r.Inconclusive = rep.Inconclusive
}

// Refine gives a finding a more specific cause and keeps what was observed.
func Refine(f classify.Finding, cause classify.Cause, summary string) classify.Finding {
	if f.Cause == cause {
		return f
	}
	out := classify.New(cause, summary, f.Facts...).WithError(f.Unwrap())
	out.Severity, out.Certainty, out.Operation, out.Endpoint = f.Severity, f.Certainty, f.Operation, f.Endpoint
	return out
}

func describeChallenge(ch Challenge) classify.Challenge {
	c := classify.Challenge{
		Scheme: classify.Redact(ch.Scheme, 32), Service: classify.Redact(ch.Service, 200), Scope: classify.Redact(ch.Scope, 300),
	}
	// The realm of Basic is a title; only that of Bearer is a place.
	if u, err := RealmURL(ch); err == nil {
		c.Realm = RedactURL(u)
	}
	c.Product = ChallengeProduct("", c)
	return c
}

func realmHost(ch Challenge) string {
	if u, err := RealmURL(ch); err == nil {
		return classify.Redact(u.Host, 255)
	}
	return ""
}

// realmHostOf is the host of a realm that was redacted before.
func realmHostOf(c classify.Challenge) string {
	if c.Scheme != "bearer" {
		return ""
	}
	return realmHost(Challenge{Realm: c.Realm})
}
