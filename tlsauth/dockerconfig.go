package tlsauth

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
)

// Credential is one credential with where it came from.
type Credential struct {
	// Authn is what is offered; the zero AuthConfig offers nothing, which is an
	// anonymous attempt. It is never marshalled.
	Authn authn.AuthConfig `json:"-"`
	// Source says where it came from, never the secret.
	Source string `json:"source"`
}

// String returns the source, never the secret.
func (c Credential) String() string { return c.Source }

// GoString keeps %#v from printing the secret.
func (c Credential) GoString() string { return "tlsauth.Credential{" + c.Source + "}" }

// CredentialLister lists all credentials that the kubelet would try for an image,
// in its order. A keychain that is no CredentialLister counts as one credential.
type CredentialLister interface {
	Credentials(ctx context.Context, image string) ([]Credential, error)
}

// Keychain is a pull secret, matched as the kubelet matches it. It implements
// [authn.Keychain] and [CredentialLister]. The zero Keychain holds no key. Build
// one with [DockerConfig].
type Keychain struct {
	entries []entry // in the kubelet's order
	helpers bool    // the secret names credential helpers, which the kubelet ignores
}

// entry is one key of a pull secret.
type entry struct {
	from    string // which source it stands in, "" = a dockerconfigjson
	written string // as it stands in the secret
	key     string // without scheme and without a leading /v1 or /v2
	login   authn.AuthConfig
	idToken bool // it has an identity token, which the kubelet does not read
}

// String tells how many keys there are, and nothing of them.
func (k *Keychain) String() string {
	if k == nil {
		return "no keychain"
	}
	return fmt.Sprintf("pull secret with %d keys", len(k.entries))
}

// GoString keeps %#v from printing secrets.
func (k *Keychain) GoString() string { return k.String() }

// maxDockerConfig bounds a pull secret: Kubernetes stores at most 1 MiB.
const maxDockerConfig = 4 << 20

// DockerConfig reads a pull secret: the value of .dockerconfigjson, or of the
// older .dockercfg, which holds the entries without "auths" around them.
//
// An error means that the kubelet cannot read the secret either, and stops the
// pull with it. It names what is wrong and where, and prints nothing of the
// content but the key concerned. A key that is no host is passed over.
func DockerConfig(data []byte) (*Keychain, error) { return dockerConfig(data, "", eitherForm) }

// form is which of the two documents the kubelet expects. It never tries the
// other: a .dockercfg in a secret of the newer type gives it nothing.
type form int

const (
	eitherForm form = iota // the kind is not known, only the content
	newForm                // entries below "auths": .dockerconfigjson, config.json
	oldForm                // entries alone: .dockercfg
)

// dockerConfig reads a document that from names.
func dockerConfig(data []byte, from string, form form) (*Keychain, error) {
	if len(data) > maxDockerConfig {
		return nil, fmt.Errorf("docker config: larger than %d bytes", maxDockerConfig)
	}
	var config struct {
		Auths   json.RawMessage `json:"auths"`
		Helpers json.RawMessage `json:"credHelpers"`
		Store   json.RawMessage `json:"credsStore"`
		Headers json.RawMessage `json:"HttpHeaders"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("docker config: %w", unspoken(err))
	}
	k := &Keychain{helpers: config.Helpers != nil || config.Store != nil}
	raw := config.Auths
	switch {
	case form == oldForm, raw == nil && form == eitherForm && !k.helpers && config.Headers == nil:
		raw = data
	case raw == nil:
		return k, nil
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, fmt.Errorf("docker config: the entries: %w", unspoken(err))
	}
	for written, value := range entries {
		e := entry{from: from, written: written}
		if err := e.read(value); err != nil {
			return nil, fmt.Errorf("docker config: entry %q: %w", classify.Redact(written, 128), err)
		}
		if e.key = effectiveKey(written); e.key != "" {
			k.entries = append(k.entries, e)
		}
	}
	k.sort()
	return k, nil
}

// sort puts the entries into the kubelet's order: reverse lexical, so that a
// longer path comes before a shorter one of the same host. Among equal keys of
// one document the kubelet's order is that of a Go map, which is none; ours is
// fixed. Equal keys of several documents keep the order of these.
func (k *Keychain) sort() {
	slices.SortStableFunc(k.entries, func(a, b entry) int {
		if c := strings.Compare(b.key, a.key); c != 0 {
			return c
		}
		if a.from != b.from {
			return 0
		}
		return strings.Compare(a.written, b.written)
	})
}

// unspoken is a JSON error without a byte of the document: the errors of
// encoding/json quote what they stumble over.
func unspoken(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("invalid JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("JSON of the wrong type at byte %d, where %s is expected", kind.Offset, expected(kind))
	}
	return errors.New("invalid JSON")
}

func expected(err *json.UnmarshalTypeError) string {
	if err.Type != nil && err.Type.Kind().String() == "string" {
		return "a string"
	}
	return "an object"
}

// read takes what the kubelet takes from an entry: username and password, and
// auth, which wins over both.
func (e *entry) read(value json.RawMessage) error {
	var doc struct {
		Username string          `json:"username"`
		Password string          `json:"password"`
		Email    string          `json:"email"`
		Auth     string          `json:"auth"`
		IDToken  json.RawMessage `json:"identitytoken"`
	}
	if err := json.Unmarshal(value, &doc); err != nil {
		return unspoken(err)
	}
	e.login = authn.AuthConfig{Username: doc.Username, Password: doc.Password}
	e.idToken = len(doc.IDToken) > 0 && !bytes.Equal(doc.IDToken, []byte(`""`)) && !bytes.Equal(doc.IDToken, []byte("null"))
	if doc.Auth == "" {
		return nil
	}
	user, password, err := decodeAuth(doc.Auth)
	if err != nil {
		return err
	}
	e.login = authn.AuthConfig{Username: user, Password: password}
	return nil
}

// decodeAuth splits base64("user:password"), padded or not.
func decodeAuth(auth string) (user, password string, err error) {
	encoding := base64.RawStdEncoding
	if strings.HasSuffix(strings.TrimSpace(auth), "=") {
		encoding = base64.StdEncoding
	}
	plain, err := encoding.DecodeString(auth)
	if err != nil {
		return "", "", errors.New("auth is not valid base64") // the decoder's own error quotes nothing, but its offset is of no use
	}
	user, password, ok := strings.Cut(string(plain), ":")
	if !ok {
		return "", "", errors.New(`auth is not of the form "user:password"`)
	}
	return user, password, nil
}

// Credentials returns all that the kubelet would try for image, in its order;
// empty if no key matches. An error means that image is no image reference.
func (k *Keychain) Credentials(_ context.Context, image string) ([]Credential, error) {
	repository, err := kubeletName(image)
	if err != nil {
		return nil, err
	}
	return k.lookup(repository), nil
}

// Resolve returns the first credential that the kubelet would try,
// [authn.Anonymous] if there is none.
func (k *Keychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	for _, c := range k.lookup(dockerName(target.String())) {
		return authn.FromConfig(c.Authn), nil
	}
	return authn.Anonymous, nil
}

// lookup matches a repository, host and path without tag or digest.
func (k *Keychain) lookup(repository string) []Credential {
	if k == nil {
		return nil
	}
	var out []Credential
	for _, e := range k.entries {
		if matches(e.key, repository) {
			out = append(out, e.credential())
		}
	}
	if len(out) > 0 || !ofDockerHub(repository) {
		return out
	}
	for _, e := range k.entries {
		if e.key == dockerHubKey {
			out = append(out, e.credential())
		}
	}
	return out
}

// matched returns the keys that apply to a repository, in order.
func (k *Keychain) matched(repository string) []string {
	var out []string
	for _, e := range k.entries {
		if matches(e.key, repository) || e.key == dockerHubKey && ofDockerHub(repository) {
			out = append(out, classify.Redact(e.written, 128))
		}
	}
	return out
}

// NearestMiss says which key comes nearest to image without matching, and what
// is missing; "" if a key matches or image is no image reference.
func (k *Keychain) NearestMiss(image string) string {
	repository, err := kubeletName(image)
	if err != nil || k == nil {
		return ""
	}
	return k.nearest(repository)
}

func (k *Keychain) nearest(repository string) string {
	if len(k.lookup(repository)) > 0 {
		return ""
	}
	if len(k.entries) == 0 {
		if k.helpers {
			return "the pull secret names credential helpers, which the kubelet ignores, and holds no key of its own"
		}
		return "the pull secret holds no key"
	}
	written := make([]string, len(k.entries))
	for i, e := range k.entries {
		written[i] = e.written
	}
	return nearestOf(written, "key", repository)
}

func (e *entry) credential() Credential {
	from := e.from
	if from == "" {
		from = "dockerconfigjson"
	}
	source := from + " key " + classify.Redact(e.written, 128)
	if e.login.Username == "" && e.login.Password == "" {
		source += ", which has no user name and password"
		if e.idToken {
			source += " (the kubelet ignores its identity token)"
		}
	}
	return Credential{Authn: e.login, Source: source}
}
