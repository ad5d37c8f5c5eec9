package tlsauth

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// maxCredentials bounds how many matching credentials are tried: each costs
// requests, and a registry may lock an account that fails often.
const maxCredentials = 16

// Offer is one credential to try, and how it may be spoken of.
type Offer struct {
	Secret registry.Credential // prints nothing secret
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
		dates(&o.Info, o.Secret)
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

func secretOf(a authn.AuthConfig) registry.Credential {
	s := registry.Credential{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}
	if s.Username == "" && s.Password == "" && a.Auth != "" {
		if user, password, err := decodeAuth(a.Auth); err == nil {
			s.Username, s.Password = user, password
		}
	}
	return s
}

// within runs f and returns when ctx ends, even if f does not.
func within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	got := make(chan result, 1)
	go func() {
		v, err := f()
		got <- result{v, err}
	}()
	select {
	case r := <-got:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}
