package registry

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// JudgeRefusal says what a registry's refusal of a manifest means, given what is
// known of the identity: r is the report of the exchange before it, from
// [JudgeToken] (or one with only the Credential, for Basic). challenges are those
// of the answer. It is pure. The meaning of the status alone is classify's; what
// is added here:
//
//   - 401 or 403 to a token that claims no pull: the right is missing;
//   - 401 to a token that claims it: the token is not accepted as such;
//   - 401 to a password: it is wrong, or, if it says so itself, expired;
//   - 404: missing, if the token that was accepted grants pull; else missing or
//     hidden, which registries do not tell apart for those without rights.
func JudgeRefusal(answer *classify.HTTPAnswer, r *Access, challenges []Challenge) classify.Finding {
	f := classify.Error(answer)
	if !answer.Credentialed {
		return f
	}
	denied := answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden
	insufficient := slices.ContainsFunc(challenges, func(c Challenge) bool { return c.Error == "insufficient_scope" })
	direct := r.Challenge.Scheme == "basic" || len(r.Attempts) == 0 // the registry saw the credential itself
	switch {
	case f.Layer == classify.LayerIdentity && direct && r.Credential.Expired(time.Now()) > 0:
		return Refine(f, classify.IdentityTokenExpired, fmt.Sprintf("%s refused the credential (%s) with %d; by its own word it expired %v ago, at %s",
			answer.Host, r.Credential.Source, answer.Status, r.Credential.Expired(time.Now()).Round(time.Second), r.Credential.ExpiresAt.Format(time.RFC3339)))
	case answer.Status == http.StatusUnauthorized && r.Challenge.Scheme == "basic":
		return Refine(f, classify.IdentityBadCredentials, fmt.Sprintf("%s refused the credential (%s) with 401", answer.Host, r.Credential.Source))
	case insufficient: // RFC 6750, section 3.1
		return Refine(f, classify.IdentityInsufficientScope, fmt.Sprintf("%s says that the token does not suffice to pull %s", answer.Host, r.Repository))
	case f.Layer == classify.LayerIdentity && denied && r.TokenIssued && r.Granted != nil && !canPull(r.Granted):
		return Refine(f, classify.IdentityInsufficientScope, fmt.Sprintf("the token grants %s on %s, not pull, and %s refuses it with %d", list(r.Granted), r.Repository, answer.Host, answer.Status))
	case f.Cause == classify.IdentityUnauthorized && r.TokenIssued && canPull(r.Granted):
		f = Refine(f, classify.IdentityTokenRejected, fmt.Sprintf("%s refuses with 401 a token that was just issued and claims to grant pull on %s: it does not accept the token as such (issuer, audience, key or clock)", answer.Host, r.Repository))
		f.Certainty, f.Alternatives = classify.CertaintyLikely, []classify.Cause{classify.IdentityUnauthorized}
		return f
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

// list is what a token grants, in words.
func list(granted []string) string {
	if len(granted) == 0 {
		return "nothing"
	}
	return strings.Join(granted, ", ")
}
