package registry

import (
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Access is what an identity may do with one repository.
type Access struct {
	Registry   string `json:"registry,omitempty"` // host[:port] that was asked; "" from JudgeToken
	Repository string `json:"repository"`         // without host, "team/app"
	// Challenge is what the registry asked for; zero if it asked for nothing.
	Challenge  classify.Challenge `json:"challenge"`
	Credential CredentialInfo     `json:"credential"` // the one that was used last, or that worked
	// Attempts are the requests to the token server, in order, of all credentials.
	Attempts    []TokenAttempt `json:"attempts,omitempty"`
	TokenIssued bool           `json:"tokenIssued"`
	ExpiresInMS int64          `json:"expiresInMs,omitempty"` // as the token server said; 0 = it did not
	// Granted are the actions on Repository that the token claims; nil = the
	// token cannot be read, empty = it claims none. Nobody verified the claim.
	Granted []string `json:"granted"`
	// Rights are what the identity could do besides, if that was asked for.
	Rights *Rights `json:"rights,omitempty"`
	// ClockSkewMS is how far this node's clock is behind the registry's (negative:
	// ahead), as the Date field of an answer over verified TLS shows; nil = not
	// known.
	ClockSkewMS *int64 `json:"clockSkewMs,omitempty"`
	// Read says that a manifest was seen to be served to this identity. false
	// alone proves nothing; JudgeToken never sets it.
	Read bool `json:"read"`
	// Inconclusive is why it was not decided; "" = decided.
	Inconclusive string `json:"inconclusive,omitempty"`
	ElapsedMS    int64  `json:"elapsedMs"`

	Found []classify.Finding `json:"-"` // see [Access.Findings]
}

// CredentialInfo says which credential was offered, never the secret.
type CredentialInfo struct {
	// Source is "anonymous", "keychain", or where in a pull secret it stands:
	// "dockerconfigjson key registry.corp.test/team".
	Source string `json:"source"`
	// Username is the user name where a registry or a token showed that it is one,
	// or where it is one of those that say the kind of the secret ("AWS", "_json_key").
	// Else it is only how long the name is ("[12 characters]"): in a secret whose fields
	// were swapped it would be the password. "" = the credential has none.
	Username string `json:"username,omitempty"`
	// Unmatched says that a keychain was given and has nothing for this image.
	Unmatched bool `json:"unmatched,omitempty"`
	// NearestMiss is the key that came nearest, and what separates it. Only a
	// keychain of [DockerConfig] can tell; not empty implies Unmatched.
	NearestMiss string `json:"nearestMiss,omitempty"`
	// IssuedAt and ExpiresAt are what the secret says of itself, unverified; zero =
	// it does not say.
	IssuedAt  time.Time `json:"issuedAt,omitzero"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Ignored are the parts of the credential that the runtime does not send, see
	// [Offer.ForRuntime].
	Ignored []string `json:"ignored,omitempty"`
}

// HadNothing reports whether a keychain was asked and had nothing for the image.
func (c CredentialInfo) HadNothing() bool { return c.Unmatched || c.NearestMiss != "" }

// Expired returns for how long a credential has been of no use by its own word; 0 = it
// is not, or does not say.
func (c CredentialInfo) Expired(now time.Time) time.Duration {
	if c.ExpiresAt.IsZero() || !now.After(c.ExpiresAt) {
		return 0
	}
	return now.Sub(c.ExpiresAt)
}

// Held says that a manifest was read and that nothing failed on the way.
func (r *Access) Held() bool {
	return r != nil && r.Read && r.Inconclusive == "" && !r.failed()
}

func (r *Access) failed() bool {
	return slices.ContainsFunc(r.Found, func(f classify.Finding) bool { return f.Severity == classify.SeverityFail })
}

// Findings returns what is wrong, in the order in which it was met. The slice is
// the caller's own.
func (r *Access) Findings() []classify.Finding {
	if r == nil {
		return nil
	}
	return slices.Clone(r.Found)
}
