package registry

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Info returns what may be said of a credential that nobody has accepted.
func (c Credential) Info(source string) CredentialInfo {
	info := CredentialInfo{Source: source, Username: printableUser(c.Username)}
	for _, s := range []string{c.RegistryToken, c.IdentityToken, c.Password} {
		if s != "" {
			info.IssuedAt, info.ExpiresAt = lifetime(s)
			break
		}
	}
	return info
}

// constantUsers are user names that say which kind of secret stands beside them.
// Their issuers document them, so none of them can be a secret: Azure's registry
// for tokens, Google's for keys and access tokens, AWS, Docker's credential store
// for identity tokens, GitHub, GitLab, IBM and
// NVIDIA for their own tokens.
var constantUsers = []string{
	"00000000-0000-0000-0000-000000000000",
	"_json_key", "_json_key_base64", "_dcgcr_token", "oauth2accesstoken",
	"AWS", "<token>", "oauth2", "x-access-token", "gitlab-ci-token", "iamapikey", "iambearer", "$oauthtoken",
}

// printableUser is what a report may say of a user name that nobody has accepted:
// in a secret whose two fields were swapped it is the password.
func printableUser(name string) string {
	if name == "" || slices.Contains(constantUsers, name) {
		return name
	}
	return fmt.Sprintf("[%d characters]", utf8.RuneCountInString(name))
}

// maxSecret bounds what is looked into for dates.
const maxSecret = 64 << 10

// lifetime reads when a secret was issued and when it ends, where it says so
// itself: a JSON Web Token (the refresh tokens of Azure, the access tokens of
// Google and GitLab), or the base64 JSON that Amazon ECR gives out as a password.
// Nothing is verified: a wrong claim changes a sentence, not a verdict. Zero
// times = not said.
func lifetime(secret string) (issued, expires time.Time) {
	if secret == "" || len(secret) > maxSecret {
		return time.Time{}, time.Time{}
	}
	var doc struct {
		IssuedAt   float64 `json:"iat"`
		Expires    float64 `json:"exp"`
		Expiration float64 `json:"expiration"` // ECR: seconds
	}
	payload := secret
	if parts := strings.Split(secret, "."); len(parts) == 3 {
		payload = parts[1]
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(payload, "="))
	if err != nil {
		if raw, err = base64.StdEncoding.DecodeString(payload); err != nil {
			return time.Time{}, time.Time{}
		}
	}
	if json.Unmarshal(raw, &doc) != nil {
		return time.Time{}, time.Time{}
	}
	if doc.Expires == 0 {
		doc.Expires = doc.Expiration
	}
	return instant(doc.IssuedAt), instant(doc.Expires)
}

// instant is a number of seconds since 1970, zero if it is no sensible one.
func instant(s float64) time.Time {
	if !(s > 946684800 && s < 7258118400) { // the years 2000 and 2200; also not NaN
		return time.Time{}
	}
	return time.Unix(int64(s), 0).UTC()
}
