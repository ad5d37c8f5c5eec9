package tlsauth

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/internal/registry"
)

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

// dates completes how a credential may be spoken of.
func dates(i *CredentialInfo, secret registry.Credential) {
	for _, s := range []string{secret.RegistryToken, secret.IdentityToken, secret.Password} {
		if s != "" {
			i.IssuedAt, i.ExpiresAt = lifetime(s)
			return
		}
	}
}
