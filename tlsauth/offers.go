package tlsauth

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/wire"
)

// maxCredentials bounds how many matching credentials are tried: each costs
// requests, and a registry may lock an account that fails often.
const maxCredentials = 16

// Offer is one credential to try, and how it may be spoken of.
type Offer struct {
	Secret wire.Credential // prints nothing secret
	Info   CredentialInfo
}

// Offers returns what a pull of image would try, in order: all that keychain
// lists if it is a [CredentialLister], else the one that it resolves; at most 16.
// Without any, which includes a nil keychain, the one offer is anonymous. The
// error says that the keychain failed or that image is no image reference; when
// ctx ends, Offers returns although the keychain may not have.
func Offers(ctx context.Context, keychain authn.Keychain, image string) ([]Offer, error) {
	anonymous := Offer{Info: CredentialInfo{Source: "anonymous"}}
	if keychain == nil {
		return []Offer{anonymous}, nil
	}
	found, err := within(ctx, func() ([]Credential, error) { return credentials(ctx, keychain, image) })
	if err != nil {
		return nil, fmt.Errorf("tlsauth: the keychain failed: %s", classify.Redact(err.Error(), 200))
	}
	var out []Offer
	for _, cred := range found[:min(len(found), maxCredentials)] {
		o := Offer{Secret: secretOf(cred.Authn), Info: CredentialInfo{Source: cred.Source}}
		o.Info.Username = printableUser(o.Secret.Username)
		o.Info.dates(o.Secret)
		out = append(out, o)
	}
	if len(out) > 0 {
		return out, nil
	}
	if k, ok := keychain.(interface{ unknown(image string) string }); ok {
		if why := k.unknown(image); why != "" {
			// Not "nothing matches": something does, and was not asked.
			anonymous.Info.Source = "anonymous (" + why + ")"
			return []Offer{anonymous}, nil
		}
	}
	anonymous.Info.Unmatched = true
	if k, ok := keychain.(interface{ NearestMiss(image string) string }); ok {
		anonymous.Info.NearestMiss = k.NearestMiss(image)
	}
	return []Offer{anonymous}, nil
}

func credentials(ctx context.Context, keychain authn.Keychain, image string) ([]Credential, error) {
	if lister, ok := keychain.(CredentialLister); ok {
		return lister.Credentials(ctx, image)
	}
	ref, err := parseImage(image)
	if err != nil {
		return nil, err
	}
	auth, err := authn.Resolve(ctx, keychain, ref.Context())
	if err != nil || auth == nil || auth == authn.Anonymous {
		return nil, err
	}
	config, err := authn.Authorization(ctx, auth)
	if err != nil || config == nil || *config == (authn.AuthConfig{}) {
		return nil, err
	}
	return []Credential{{Authn: *config, Source: "keychain"}}, nil
}

func secretOf(a authn.AuthConfig) wire.Credential {
	s := wire.Credential{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}
	if s.Username == "" && s.Password == "" && a.Auth != "" {
		if user, password, err := decodeAuth(a.Auth); err == nil {
			s.Username, s.Password = user, password
		}
	}
	return s
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
func (o Offer) Exchanged(res wire.TokenResult) CredentialInfo {
	if res.HasToken && res.ForUser {
		return o.Accepted()
	}
	return o.Info
}

// ForRuntime returns the offer as a runtime sends it: kinds of credentials that
// it ignores are taken out and named in Info.Ignored. runtime is the name of the
// process ("containerd", "k3s", "rke2", "crio", "dockerd"); any other name, and
// "", changes nothing.
//
//	                   containerd        CRI-O     cri-dockerd
//	user and password  sent              sent      sent
//	identity token     refresh by POST   ignored   refresh by POST
//	registry token     ignored           ignored   sent
func (o Offer) ForRuntime(runtime string) Offer {
	identity, registry := true, true
	switch runtime {
	case "containerd", "k3s", "k3s-server", "k3s-agent", "rke2":
		registry = false
	case "crio":
		identity, registry = false, false
	default:
		return o
	}
	if o.Secret.IdentityToken != "" && !identity {
		o.Secret.IdentityToken = ""
		o.Info.Ignored = append(o.Info.Ignored[:len(o.Info.Ignored):len(o.Info.Ignored)], "identity token")
	}
	if o.Secret.RegistryToken != "" && !registry {
		o.Secret.RegistryToken = ""
		o.Info.Ignored = append(o.Info.Ignored[:len(o.Info.Ignored):len(o.Info.Ignored)], "registry token")
	}
	return o
}

// Digest returns 16 hexadecimal digits that are equal on two nodes if both would
// offer the same credential, given the same salt; "" for an anonymous offer. The
// salt must be secret and random, at least 16 bytes, and be thrown away after the
// comparison: who knows it can try out weak passwords. A shorter salt gives "".
func (o Offer) Digest(salt []byte) string {
	if o.Secret.IsZero() || len(salt) < 16 {
		return ""
	}
	parts := []string{o.Secret.Username, o.Secret.Password, o.Secret.IdentityToken, o.Secret.RegistryToken}
	// Each part with its length, so that no two credentials run into one.
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(hex.EncodeToString([]byte(p)))
		b.WriteByte('.')
	}
	sum, err := pbkdf2.Key(sha256.New, b.String(), salt, 20000, 8)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(sum)
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
