package tlsauth

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

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

// Accepted returns what may be said of the credential once a registry has read it
// as a login and let it in: the user name is one then.
func (o Offer) Accepted() CredentialInfo {
	info := o.Info
	if info.Username != "" {
		info.Username = classify.Redact(o.Secret.Username, 128)
	}
	return info
}

// Exchanged returns what may be said of the credential after a token exchange: the
// user name where the token says that it was issued for this user. That a token
// came is not enough, because some servers answer a wrong password with an
// anonymous one.
func (o Offer) Exchanged(res registry.TokenResult) CredentialInfo {
	if res.HasToken && res.ForUser {
		return o.Accepted()
	}
	return o.Info
}
