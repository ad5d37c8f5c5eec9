package tlsauth

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// maxCredentials bounds how many matching credentials are tried: each costs
// requests, and a registry may lock an account that fails often.
const maxCredentials = 16

// Offer is one credential that a pull would try. The zero Offer is anonymous. Only
// [Offer.Auth] gives the secret; no way of printing an Offer does.
type Offer struct {
	Info CredentialInfo // what a report may say of the credential

	held func() registry.Credential // a function, because package fmt prints unexported fields; nil = anonymous
}

func newOffer(secret registry.Credential, info CredentialInfo) Offer {
	return Offer{Info: info, held: func() registry.Credential { return secret }}
}

func (o Offer) secret() registry.Credential {
	if o.held == nil {
		return registry.Credential{}
	}
	return o.held()
}

// Auth returns the credential; the zero AuthConfig is anonymous. The field Auth is
// never set: user name and password are.
func (o Offer) Auth() authn.AuthConfig {
	s := o.secret()
	return authn.AuthConfig{Username: s.Username, Password: s.Password, IdentityToken: s.IdentityToken, RegistryToken: s.RegistryToken}
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
		secret := secretOf(cred.Authn)
		out = append(out, newOffer(secret, CredentialInfo(secret.Info(cred.Source))))
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

func secretOf(a authn.AuthConfig) registry.Credential {
	s := registry.Credential{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}
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
		info.Username = classify.Redact(o.secret().Username, 128)
	}
	return info
}

// ForRuntime returns the offer as a runtime sends it: kinds of credentials that
// it ignores are taken out and named in Info.Ignored. runtime is the name of the
// process ("containerd", "k3s", "rke2", "crio", "podman", "dockerd"); any other name,
// and "", changes nothing.
//
//	                   containerd        CRI-O, podman   cri-dockerd
//	user and password  sent              sent            sent
//	identity token     refresh by POST   ignored         refresh by POST
//	registry token     ignored           ignored         sent
func (o Offer) ForRuntime(runtime string) Offer {
	sends := noderuntime.Of(runtime, "")
	secret, info := o.secret(), o.Info
	info.Ignored = slices.Clip(info.Ignored)
	if !sends.IdentityToken && secret.IdentityToken != "" {
		secret.IdentityToken = ""
		info.Ignored = append(info.Ignored, "identity token")
	}
	if !sends.RegistryToken && secret.RegistryToken != "" {
		secret.RegistryToken = ""
		info.Ignored = append(info.Ignored, "registry token")
	}
	return newOffer(secret, info)
}

// Digest returns 16 hexadecimal digits that are equal on two nodes if both would
// offer the same credential, given the same salt; "" for an anonymous offer. The
// salt must be secret and random, at least 16 bytes, and be thrown away after the
// comparison: who knows it can try out weak passwords. A shorter salt gives "".
func (o Offer) Digest(salt []byte) string {
	secret := o.secret()
	if secret.IsZero() || len(salt) < 16 {
		return ""
	}
	var b strings.Builder
	for _, p := range []string{secret.Username, secret.Password, secret.IdentityToken, secret.RegistryToken} {
		fmt.Fprintf(&b, "%x.", p) // kept apart, so that no two credentials run into one
	}
	sum, err := pbkdf2.Key(sha256.New, b.String(), salt, 20000, 8)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(sum)
}
