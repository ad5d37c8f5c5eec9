package registry

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Challenge is one challenge of a WWW-Authenticate field.
type Challenge struct {
	Scheme  string // lower case: "bearer", "basic", or another
	Realm   string // may hold anything the server likes: print RedactURL of RealmURL
	Service string
	Scope   string
	Error   string // "invalid_token", "insufficient_scope" (RFC 6750); redacted
}

// printable returns what may be shown of a challenge. The realm of Basic is a phrase.
func (c Challenge) printable() classify.Challenge {
	p := classify.Challenge{Scheme: classify.Redact(c.Scheme, 32), Service: classify.Redact(c.Service, 200), Scope: classify.Redact(c.Scope, 300)}
	if u, err := RealmURL(c); err == nil {
		p.Realm = RedactURL(u)
	} else {
		realm, _, _ := strings.Cut(c.Realm, "?")
		p.Realm = classify.Redact(realm, 128)
	}
	return p
}

// Bounds of what is parsed: no server needs more, and a flood must not cost.
const (
	maxChallenges     = 8
	maxChallengeBytes = 8 << 10
	maxWord           = 64 // a scheme, an error code
)

// ParseChallenges parses the values of WWW-Authenticate by the grammar of RFC 9110, section
// 11.6.1: several challenges may share a field, parameters are tokens or quoted strings, or
// one token68 stands for all of them. Parts that do not parse are passed over, and so is a
// challenge that runs over the bound of 8 KiB for a field: half a realm would be another
// realm.
func ParseChallenges(values []string) []Challenge {
	var out []Challenge
	for _, v := range values {
		cut := len(v) > maxChallengeBytes
		s, before := scanner(v[:min(len(v), maxChallengeBytes)]), len(out)
		for s != "" && len(out) < maxChallenges {
			s.skip(" \t,")
			scheme := s.token()
			if scheme == "" || len(scheme) > maxWord || s.isParam() {
				s.skipElement()
				continue
			}
			c := Challenge{Scheme: strings.ToLower(scheme)}
			if !s.token68() {
				s.params(&c)
			}
			out = append(out, c)
		}
		if cut && s == "" && len(out) > before {
			out = out[:len(out)-1]
		}
	}
	return out
}

// scanner is the rest of the field that is still to be read.
type scanner string

func (s *scanner) skip(set string) { *s = scanner(strings.TrimLeft(string(*s), set)) }

// skipElement passes over everything up to the next comma that is in no quoted string.
func (s *scanner) skipElement() {
	quoted := false
	for i := 0; i < len(*s); i++ {
		switch ch := (*s)[i]; {
		case quoted && ch == '\\':
			i++
		case ch == '"':
			quoted = !quoted
		case ch == ',' && !quoted:
			*s = (*s)[i+1:]
			return
		}
	}
	*s = ""
}

// isParam reports whether the token just read is the name of a parameter that belongs to no
// scheme.
func (s *scanner) isParam() bool { return strings.HasPrefix(strings.TrimLeft(string(*s), " \t"), "=") }

// token68 passes over the token68 form of a challenge ("Negotiate YII..=="), which ends
// where a comma or the field does.
func (s *scanner) token68() bool {
	rest := strings.TrimLeft(string(*s), " \t")
	end := strings.IndexFunc(rest, func(r rune) bool { return !isToken68Rune(r) })
	if end < 0 {
		end = len(rest)
	}
	if end == 0 || len(rest) == len(*s) {
		return false
	}
	tail := strings.TrimLeft(strings.TrimLeft(rest[end:], "="), " \t")
	if tail != "" && tail[0] != ',' {
		return false
	}
	*s = scanner(tail)
	return true
}

func isToken68Rune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~+/", r)
}

// token reads an RFC 9110 token, "" if there is none.
func (s *scanner) token() string {
	i := strings.IndexFunc(string(*s), func(r rune) bool { return !isTokenRune(r) })
	if i < 0 {
		i = len(*s)
	}
	t := string((*s)[:i])
	*s = (*s)[i:]
	return t
}

// isTokenRune reports whether a token may hold r (RFC 9110, section 5.6.2).
func isTokenRune(r rune) bool {
	return r > ' ' && r < 0x7f && !strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// params reads the parameters that follow a scheme. It stops before the next scheme: a
// token that no "=" follows.
func (s *scanner) params(c *Challenge) {
	for {
		rest := *s
		s.skip(" \t,")
		name := s.token()
		if name == "" {
			if s.skipElement(); *s == "" {
				return
			}
			continue
		}
		s.skip(" \t")
		if !strings.HasPrefix(string(*s), "=") {
			*s = rest // the scheme of the next challenge
			return
		}
		*s = (*s)[1:]
		s.skip(" \t")
		c.set(strings.ToLower(name), s.value())
	}
}

// value reads a token or a quoted string. Unquoted values run up to the next comma or
// blank, because servers send unquoted URLs.
func (s *scanner) value() string {
	if !strings.HasPrefix(string(*s), `"`) {
		i := strings.IndexAny(string(*s), ", \t")
		if i < 0 {
			i = len(*s)
		}
		v := string((*s)[:i])
		*s = (*s)[i:]
		return v
	}
	var b strings.Builder
	for i := 1; i < len(*s); i++ {
		switch ch := (*s)[i]; {
		case ch == '\\' && i+1 < len(*s):
			i++
			b.WriteByte((*s)[i])
		case ch == '"':
			*s = (*s)[i+1:]
			return b.String()
		default:
			b.WriteByte(ch)
		}
	}
	*s = ""
	return b.String()
}

func (c *Challenge) set(name, value string) {
	switch name {
	case "realm":
		c.Realm = value
	case "service":
		c.Service = value
	case "scope":
		c.Scope = value
	case "error":
		c.Error = classify.Redact(value, maxWord)
	}
}

// BadRealmError says that a bearer challenge names no usable token server.
type BadRealmError struct {
	Realm  string // redacted
	Reason string
}

func (e *BadRealmError) Error() string { return fmt.Sprintf("token realm %q: %s", e.Realm, e.Reason) }

// RealmURL returns the token server of a bearer challenge. The error is a [*BadRealmError].
func RealmURL(c Challenge) (*url.URL, error) {
	bad := func(reason string) (*url.URL, error) {
		return nil, &BadRealmError{Realm: classify.Redact(c.Realm, 200), Reason: reason}
	}
	if c.Realm == "" {
		return bad("the challenge has no realm")
	}
	u, err := url.Parse(c.Realm)
	switch {
	case err != nil:
		return bad("not a URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return bad("the scheme is neither https nor http")
	case u.Hostname() == "":
		return bad("no host")
	case u.User != nil:
		return bad("it carries user information")
	}
	return u, nil
}
