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

// JudgeToken says what a token exchange means for the identity. It is pure: the exchange
// was made by somebody else, at the realm of ch, for repository ("team/app"). Challenges
// that need no exchange are judged too: Basic without a credential, and schemes that no
// runtime speaks.
func JudgeToken(ch Challenge, cred CredentialInfo, res TokenResult, repository string) *Access {
	r := &Access{
		Repository: repository, Challenge: ch.printable(), Credential: cred, Attempts: slices.Clone(res.Attempts),
		TokenIssued: res.HasToken, ExpiresInMS: res.ExpiresIn.Milliseconds(),
	}
	if _, err := RealmURL(ch); err != nil {
		r.Challenge.Realm = "" // that of Basic is a title and no place
	}
	r.Challenge.Product = ChallengeProduct("", r.Challenge)
	if res.Readable {
		r.Granted = append([]string{}, res.Granted...)
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
		unreached *UnreachedError
		found     classify.Finding
		answer    *classify.HTTPAnswer
		stage     *classify.StageError
	)
	switch err := res.Err; {
	case err == nil:
		r.judgeGrant()
	case errors.As(err, &unreached):
		r.Take(unreached, classify.OperationFetchToken)
	case errors.As(err, &found):
		r.Found = append(r.Found, found)
	case errors.As(err, &realm):
		r.Add(classify.New(classify.EndpointBadRealm, fmt.Sprintf("the challenge names no usable token server: %s", realm.Reason),
			classify.Fact{Key: classify.FactRealm, Value: classify.Redact(realm.Realm, 200)}).WithError(err), "")
	case errors.As(err, &withheld) && withheld.Redirected:
		r.Inconclusive = fmt.Sprintf("credential withheld from %s: %s", classify.Redact(withheld.Host, 200), withheld.Reason)
	case errors.As(err, &withheld):
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
			classify.Redact(malformed.Host, 200), malformed.Reason)).WithError(err), realmHost(ch))
	case errors.As(err, &answer):
		r.denied(answer)
	case errors.As(err, &stage):
		r.Found = append(r.Found, classify.Error(err))
	default: // the caller's context ended, or the transport was the caller's own
		r.Inconclusive = "the token exchange did not end: " + classify.Redact(err.Error(), 200)
	}
}

// denied reads a token server's refusal. The meaning of a status is classify's; what is
// known here in addition is whether a password was offered.
func (r *Access) denied(a *classify.HTTPAnswer) {
	f := classify.Error(a)
	if a.Credentialed && f.Layer == classify.LayerIdentity {
		who := "the token server " + a.Host
		if better, ok := r.expired(f, who, a.Status); ok {
			f = better
		} else if a.Status == http.StatusUnauthorized {
			f = Refine(f, classify.IdentityBadCredentials, fmt.Sprintf("%s refused the credential (%s) with 401", who, r.Credential.Source))
			f.Alternatives = []classify.Cause{classify.IdentityTokenFetchDenied} // some servers answer 401 for a missing right, too
		}
	}
	r.Deny(f)
}

// expired says that a credential was refused after its own end, if that has passed.
func (r *Access) expired(f classify.Finding, who string, status int) (classify.Finding, bool) {
	age := r.Credential.Expired(time.Now())
	if age == 0 {
		return f, false
	}
	return Refine(f, classify.IdentityTokenExpired, fmt.Sprintf("%s refused the credential (%s) with %d; by its own word it expired %v ago, at %s",
		who, r.Credential.Source, status, age.Round(time.Second), r.Credential.ExpiresAt.Format(time.RFC3339))), true
}

// judgeGrant looks whether the token claims the right to pull, and no more.
func (r *Access) judgeGrant() {
	switch more := slices.DeleteFunc(slices.Clone(r.Granted), func(a string) bool { return a == "pull" }); {
	case !r.TokenIssued || r.Granted == nil:
	case !canPull(r.Granted):
		f := classify.New(classify.IdentityInsufficientScope, fmt.Sprintf("the token server issued a token that grants %s on %s, not pull", list(r.Granted), r.Repository),
			classify.Fact{Key: classify.FactGranted, Value: list(r.Granted)})
		f.Certainty = classify.CertaintyLikely // a claim: the read decides
		r.Deny(f)
	case len(more) > 0:
		f := classify.New(classify.IdentityOverBroad, fmt.Sprintf("only pull was asked for, and the token claims %s on %s as well", strings.Join(more, ", "), r.Repository),
			classify.Fact{Key: classify.FactGranted, Value: strings.Join(r.Granted, ", ")})
		f.Severity, f.Certainty = classify.SeverityInfo, classify.CertaintyLikely // said, not asked about
		r.Add(f, r.realmHost())
	}
}

// JudgeRefusal says what a registry's refusal of a manifest means, given what is known of
// the identity: r is the report of the exchange before it, from [JudgeToken] (or one with
// only the Credential, for Basic). challenges are those of the answer. It is pure. The
// meaning of the status alone is classify's; what is added here:
//
//   - 401 or 403 to a token that claims no pull: the right is missing;
//   - 401 to a token that claims it: the token is not accepted as such;
//   - 401 to a password: it is wrong, or, if it says so itself, expired;
//   - 404: missing, if the token that was accepted grants pull; else missing or hidden,
//     which registries do not tell apart for those without rights.
func JudgeRefusal(answer *classify.HTTPAnswer, r *Access, challenges []Challenge) classify.Finding {
	f := classify.Error(answer)
	if !answer.Credentialed {
		return f
	}
	identity := f.Layer == classify.LayerIdentity
	if r.Challenge.Scheme == "basic" || len(r.Attempts) == 0 { // the registry saw the credential itself
		if better, ok := r.expired(f, answer.Host, answer.Status); ok && identity {
			return better
		}
	}
	denied := answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden
	insufficient := slices.ContainsFunc(challenges, func(c Challenge) bool { return c.Error == "insufficient_scope" })
	switch {
	case answer.Status == http.StatusUnauthorized && r.Challenge.Scheme == "basic":
		return Refine(f, classify.IdentityBadCredentials, fmt.Sprintf("%s refused the credential (%s) with 401", answer.Host, r.Credential.Source))
	case insufficient: // RFC 6750, section 3.1
		return Refine(f, classify.IdentityInsufficientScope, fmt.Sprintf("%s says that the token does not suffice to pull %s", answer.Host, r.Repository))
	case identity && denied && r.TokenIssued && r.Granted != nil && !canPull(r.Granted):
		return Refine(f, classify.IdentityInsufficientScope, fmt.Sprintf("the token grants %s on %s, not pull, and %s refuses it with %d", list(r.Granted), r.Repository, answer.Host, answer.Status))
	case f.Cause == classify.IdentityUnauthorized && r.TokenIssued && canPull(r.Granted):
		f = Refine(f, classify.IdentityTokenRejected, fmt.Sprintf("%s refuses with 401 a token that was just issued and claims to grant pull on %s: it does not accept the token as such (issuer, audience, key or clock)", answer.Host, r.Repository))
		f.Certainty, f.Alternatives = classify.CertaintyLikely, []classify.Cause{classify.IdentityUnauthorized}
	case answer.Status == http.StatusNotFound && f.Layer == classify.LayerImage:
		return hiddenOrMissing(f, r)
	}
	return f
}

func hiddenOrMissing(f classify.Finding, r *Access) classify.Finding {
	const hidden = classify.IdentityAccessDeniedOrMissing
	if canPull(r.Granted) {
		f.Alternatives = slices.DeleteFunc(slices.Clone(f.Alternatives), func(c classify.Cause) bool { return c == hidden })
		f.Summary += "; the token grants pull on the repository, so it is missing and not hidden"
		f.Facts = append(slices.Clone(f.Facts), classify.Fact{Key: classify.FactGranted, Value: list(r.Granted)})
		return f
	}
	f.Summary += "; whether it is missing or hidden from this identity, nothing shows: an account that can list the repository would decide"
	if !slices.Contains(f.Alternatives, hidden) {
		f.Alternatives = append(slices.Clone(f.Alternatives), hidden)
	}
	return f
}
