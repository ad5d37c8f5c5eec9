package registry

import (
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Access is what an identity may do with one repository.
type Access struct {
	Registry   string             `json:"registry,omitempty"` // host[:port] that was asked; "" from JudgeToken
	Repository string             `json:"repository"`         // without host, "team/app"
	Challenge  classify.Challenge `json:"challenge"`          // what the registry asked for; zero = nothing
	Credential CredentialInfo     `json:"credential"`         // the one that was used last, or that worked
	// Attempts are the requests to the token server, in order, of all credentials.
	Attempts    []TokenAttempt `json:"attempts,omitempty"`
	TokenIssued bool           `json:"tokenIssued"`
	ExpiresInMS int64          `json:"expiresInMs,omitempty"` // as the token server said; 0 = it did not
	// Granted are the actions on Repository that the token claims; nil = the token cannot
	// be read, empty = it claims none. Nobody verified the claim.
	Granted []string `json:"granted"`
	Rights  *Rights  `json:"rights,omitempty"` // what the identity could do besides; nil = not asked
	// ClockSkewMS is how far this node's clock is behind the registry's (negative: ahead),
	// by the Date field of an answer over verified TLS; nil = not known.
	ClockSkewMS *int64 `json:"clockSkewMs,omitempty"`
	// Read says that a manifest was seen to be served to this identity. false alone proves
	// nothing; JudgeToken never sets it.
	Read         bool   `json:"read"`
	Inconclusive string `json:"inconclusive,omitempty"` // why it was not decided; "" = decided
	ElapsedMS    int64  `json:"elapsedMs"`

	Found []classify.Finding `json:"-"` // what is wrong, in the order in which it was met
}

// CredentialInfo says which credential was offered, never the secret.
type CredentialInfo struct {
	// Source is "anonymous", "keychain", or where in a pull secret it stands:
	// "dockerconfigjson key registry.corp.test/team".
	Source string `json:"source"`
	// Username is the user name where a registry or a token showed that it is one, or where
	// it is one of those that say the kind of the secret ("AWS", "_json_key"). Else it is
	// only how long the name is ("[12 characters]"): in a secret whose fields were swapped
	// it would be the password. "" = the credential has none.
	Username string `json:"username,omitempty"`
	// Unmatched says that a keychain was given and has nothing for this image.
	Unmatched bool `json:"unmatched,omitempty"`
	// NearestMiss is the key that came nearest, and what separates it; not empty implies
	// Unmatched.
	NearestMiss string `json:"nearestMiss,omitempty"`
	// IssuedAt and ExpiresAt are what the secret says of itself, unverified; zero = it does
	// not say.
	IssuedAt  time.Time `json:"issuedAt,omitzero"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Ignored are the parts of the credential that the runtime does not send.
	Ignored []string `json:"ignored,omitempty"`
}

// HadNothing reports whether a keychain was asked and had nothing for the image.
func (c CredentialInfo) HadNothing() bool { return c.Unmatched || c.NearestMiss != "" }

// Expired returns for how long a credential has been of no use by its own word; 0 = it is
// not, or does not say.
func (c CredentialInfo) Expired(now time.Time) time.Duration {
	if c.ExpiresAt.IsZero() || !now.After(c.ExpiresAt) {
		return 0
	}
	return now.Sub(c.ExpiresAt)
}

// Held reports whether a manifest was read and nothing failed on the way.
func (r *Access) Held() bool {
	return r != nil && r.Read && r.Inconclusive == "" &&
		!slices.ContainsFunc(r.Found, func(f classify.Finding) bool { return f.Severity == classify.SeverityFail })
}

// Findings returns a copy of Found.
func (r *Access) Findings() []classify.Finding {
	if r == nil {
		return nil
	}
	return slices.Clone(r.Found)
}

// Add records a finding with who was asked, for what, and with which credential.
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
func (r *Access) Take(err *UnreachedError, op classify.Operation) {
	for _, f := range err.Findings {
		f.Operation = op
		r.Found = append(r.Found, f)
	}
	r.Inconclusive = err.Inconclusive
}

// Deny adds a refusal. If the keychain had nothing for the image, that is the better
// reading of it, and the refusal what it led to.
func (r *Access) Deny(f classify.Finding) {
	if f.Layer == classify.LayerIdentity && r.Credential.HadNothing() && f.Severity == classify.SeverityFail {
		better := r.NoMatch("so the pull is anonymous and was refused: " + f.Summary)
		better.Operation, better.Endpoint, better.Certainty = f.Operation, f.Endpoint, f.Certainty
		better.Facts = append(better.Facts, f.Facts...)
		better.Alternatives = append([]classify.Cause{f.Cause}, f.Alternatives...)
		f = better.WithError(f.Unwrap())
	}
	r.Add(f, r.realmHost())
}

// NoMatch says that the keychain has nothing for this image.
func (r *Access) NoMatch(consequence string) classify.Finding {
	summary := "no key of the pull secret matches this image"
	if r.Credential.NearestMiss != "" {
		summary += " (the nearest: " + r.Credential.NearestMiss + ")"
	}
	return classify.New(classify.IdentityNoMatchingCredential, summary+", "+consequence)
}

// realmHost is the host of the token server, "" if there is none.
func (r *Access) realmHost() string {
	if r.Challenge.Scheme != "bearer" {
		return ""
	}
	return realmHost(Challenge{Realm: r.Challenge.Realm})
}

func realmHost(ch Challenge) string {
	if u, err := RealmURL(ch); err == nil {
		return classify.Redact(u.Host, 255)
	}
	return ""
}

// canPull reports whether what a token grants suffices.
func canPull(granted []string) bool {
	return slices.Contains(granted, "pull") || slices.Contains(granted, "*")
}

// list is what a token grants, in words.
func list(granted []string) string {
	if len(granted) == 0 {
		return "nothing"
	}
	return strings.Join(granted, ", ")
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
