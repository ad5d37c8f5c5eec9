package registry

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Credential is what a keychain gave, as plain strings. The zero Credential is anonymous.
type Credential struct {
	Username      string `json:"-"` // some registries take a token as user name, too
	Password      string `json:"-"`
	IdentityToken string `json:"-"` // a refresh token, exchanged at the realm
	RegistryToken string `json:"-"` // a bearer token, sent as it is
}

// IsZero reports whether nothing was given.
func (c Credential) IsZero() bool { return c == Credential{} }

// exchanges reports whether there is something to offer to a token server. A user name
// without a password is nothing to containerd, CRI-O and docker alike.
func (c Credential) exchanges() bool {
	return c.IdentityToken != "" || c.Username != "" && c.Password != ""
}

// String names the kind of credential and nothing in it.
func (c Credential) String() string {
	switch {
	case c.IsZero():
		return "anonymous"
	case c.IdentityToken != "":
		return "an identity token"
	case c.RegistryToken != "":
		return "a registry token"
	}
	return "a user name and password"
}

// GoString keeps %#v from printing a secret.
func (c Credential) GoString() string { return c.String() }

// Basic returns the Authorization value of HTTP Basic (RFC 7617).
func (c Credential) Basic() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password))
}

// Token is a bearer token. It has no printable form.
type Token struct{ value string }

// NewToken wraps a token that was configured and not fetched.
func NewToken(value string) Token { return Token{value} }

// Authorization returns the Authorization value.
func (t Token) Authorization() string { return "Bearer " + t.value }

// String never prints the token.
func (Token) String() string { return "token" }

// GoString keeps %#v from printing the token.
func (Token) GoString() string { return "token" }

const maxActions = 16

// payload returns the claims of a token that is a JWT, nil for any other.
func (t Token) payload() []byte {
	parts := strings.Split(t.value, ".")
	if len(parts) != 3 {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return nil
	}
	return raw
}

// subject returns whom the token says it is for, "" if it does not say.
func (t Token) subject() string {
	var doc struct {
		Subject string `json:"sub"`
	}
	if json.Unmarshal(t.payload(), &doc) != nil {
		return ""
	}
	return doc.Subject
}

// granted reads which actions on repository a token says it grants, from the access claim
// of the distribution token specification. Nothing is verified: a forged claim misleads
// nobody, because the read that follows decides.
func (t Token) granted(repository string) (actions []string, readable bool) {
	var doc struct {
		Access json.RawMessage `json:"access"`
	}
	if json.Unmarshal(t.payload(), &doc) != nil || !present(doc.Access) {
		return nil, false
	}
	rights, more, err := entries[struct {
		Type    string          `json:"type"`
		Name    string          `json:"name"`
		Actions json.RawMessage `json:"actions"`
	}](doc.Access, maxEntries)
	if err != nil || more {
		return nil, false
	}
	actions = []string{}
	for _, right := range rights {
		if right.Type != "repository" || right.Name != repository {
			continue
		}
		more, _, err := entries[string](right.Actions, maxActions-len(actions))
		if err != nil {
			return nil, false
		}
		for _, action := range more {
			actions = append(actions, classify.Redact(action, 32))
		}
	}
	return actions, true
}
