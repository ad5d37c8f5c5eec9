package tlsauth

import (
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// AccessReport is what an identity may do with one repository.
type AccessReport struct {
	Registry   string             `json:"registry,omitempty"` // host[:port] that was asked; "" = nobody was
	Repository string             `json:"repository"`         // without host, "team/app"
	Challenge  classify.Challenge `json:"challenge"`          // what the registry asked for; zero = nothing
	Credential CredentialInfo     `json:"credential"`         // the one that was used last, or that worked
	// Attempts are the requests to the token server, in order, of all credentials.
	Attempts    []TokenAttempt `json:"attempts,omitempty"`
	TokenIssued bool           `json:"tokenIssued"`
	ExpiresInMS int64          `json:"expiresInMs,omitempty"` // as the token server said; 0 = it did not
	// Granted are the actions on Repository that the token claims; nil = the token cannot be
	// read, empty = it claims none. Nobody verified the claim.
	Granted []string `json:"granted"`
	Rights  *Rights  `json:"rights,omitempty"` // what the identity could do besides; nil = not asked
	// ClockSkewMS is how far this node's clock is behind the registry's (negative: ahead), by
	// the Date field of an answer over verified TLS; nil = not known.
	ClockSkewMS *int64 `json:"clockSkewMs,omitempty"`
	// Read says that a manifest was seen to be served to this identity. false alone proves
	// nothing.
	Read         bool   `json:"read"`
	Inconclusive string `json:"inconclusive,omitempty"` // why it was not decided; "" = decided
	ElapsedMS    int64  `json:"elapsedMs"`

	findings []classify.Finding
}

// CredentialInfo says which credential was offered, never the secret.
type CredentialInfo struct {
	// Source is "anonymous", "keychain", or where in a pull secret it stands:
	// "dockerconfigjson key registry.corp.test/team".
	Source string `json:"source"`
	// Username is the user name where a registry or a token showed that it is one, or where
	// it is one of those that say the kind of the secret ("AWS", "_json_key"). Else it is
	// only how long the name is ("[12 characters]"): in a secret whose fields were swapped it
	// would be the password. "" = the credential has none.
	Username string `json:"username,omitempty"`
	// Unmatched says that a keychain was given and has nothing for this image.
	Unmatched bool `json:"unmatched,omitempty"`
	// NearestMiss is the key that came nearest, and what separates it. Only a keychain of
	// [DockerConfig] can tell; not empty implies Unmatched.
	NearestMiss string `json:"nearestMiss,omitempty"`
	// IssuedAt and ExpiresAt are what the secret says of itself, unverified; zero = it does
	// not say.
	IssuedAt  time.Time `json:"issuedAt,omitzero"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Ignored are the parts of the credential that the runtime does not send, see
	// [Offer.ForRuntime].
	Ignored []string `json:"ignored,omitempty"`
}

// TokenAttempt is one request to a token server.
type TokenAttempt struct {
	Method       string `json:"method"`
	URL          string `json:"url"`              // without query
	Status       int    `json:"status,omitempty"` // 0 = no answer
	Credentialed bool   `json:"credentialed"`
	ElapsedMS    int64  `json:"elapsedMs"`
}

// Rights are what a token server would grant an identity, beyond what the pull needs.
type Rights struct {
	Grants []Grant `json:"grants,omitempty"`
	// Inconclusive is why it is not known: the tokens cannot be read, or none came. "" =
	// known, as far as the tokens' own claims go.
	Inconclusive string `json:"inconclusive,omitempty"`

	findings []classify.Finding
}

// Findings returns what is too much, as warnings; they stand among those of the report as
// well.
func (r *Rights) Findings() []classify.Finding {
	if r == nil {
		return nil
	}
	return slices.Clone(r.findings)
}

// Grant is one thing that was asked for.
type Grant struct {
	Repository string   `json:"repository"`
	Asked      []string `json:"asked"`
	Granted    []string `json:"granted"` // what the token claims; empty = refused
}

// Held reports whether a manifest was read and nothing failed on the way.
func (r *AccessReport) Held() bool {
	return r != nil && r.Read && r.Inconclusive == "" &&
		!slices.ContainsFunc(r.findings, func(f classify.Finding) bool { return f.Severity == classify.SeverityFail })
}

// Findings returns what is wrong, in the order in which it was met.
func (r *AccessReport) Findings() []classify.Finding {
	if r == nil {
		return nil
	}
	return slices.Clone(r.findings)
}

// accessReport is the public form of an internal report.
func accessReport(a *registry.Access) *AccessReport {
	if a == nil {
		return nil
	}
	out := &AccessReport{
		Registry: a.Registry, Repository: a.Repository, Challenge: a.Challenge, Credential: CredentialInfo(a.Credential),
		TokenIssued: a.TokenIssued, ExpiresInMS: a.ExpiresInMS, Granted: a.Granted, ClockSkewMS: a.ClockSkewMS,
		Read: a.Read, Inconclusive: a.Inconclusive, ElapsedMS: a.ElapsedMS, findings: a.Found,
	}
	for _, t := range a.Attempts {
		out.Attempts = append(out.Attempts, TokenAttempt(t))
	}
	if a.Rights != nil {
		out.Rights = &Rights{Inconclusive: a.Rights.Inconclusive, findings: a.Rights.Found}
		for _, g := range a.Rights.Grants {
			out.Rights.Grants = append(out.Rights.Grants, Grant(g))
		}
	}
	return out
}

func (c CredentialInfo) internal() registry.CredentialInfo { return registry.CredentialInfo(c) }
