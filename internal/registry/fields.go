package registry

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Fields are the header fields that a runtime's configuration adds to its requests. Any
// value may be a secret, so none has a printable form; names may be shown. The zero Fields
// is none.
type Fields struct{ list *[]field } // a pointer, which %+v prints as such wherever it stands

type field struct {
	name   string // as configured: net/http keeps its case
	values []string
}

// NewFields takes fields as they are configured.
func NewFields(fields map[string][]string) Fields {
	if len(fields) == 0 {
		return Fields{}
	}
	var list []field
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		list = append(list, field{name, slices.Clone(fields[name])})
	}
	return Fields{&list}
}

// With returns the fields of f, and then those of more: a name in both keeps the values of
// both.
func (f Fields) With(more Fields) Fields {
	all := map[string][]string{}
	for _, x := range slices.Concat(f.all(), more.all()) {
		all[x.name] = append(all[x.name], x.values...)
	}
	return NewFields(all)
}

// IsZero reports whether there are none.
func (f Fields) IsZero() bool { return f.list == nil }

// String says how many there are and nothing of them.
func (f Fields) String() string { return fmt.Sprintf("%d header fields", len(f.all())) }

// GoString keeps %#v from printing a value.
func (f Fields) GoString() string { return f.String() }

func (f Fields) all() []field {
	if f.list == nil {
		return nil
	}
	return *f.list
}

// Names returns the names, sorted, and Unsent those that [Fields.Apply] never sends: what
// net/http refuses, what belongs to one connection, and what would change which bytes are
// asked for.
func (f Fields) Names() []string { return f.names(func(field) bool { return true }) }

// Unsent returns the names that are never sent, see [Fields.Names].
func (f Fields) Unsent() []string { return f.names(func(x field) bool { return !x.sendable() }) }

func (f Fields) names(which func(field) bool) []string {
	var out []string
	for _, x := range f.all() {
		if which(x) {
			out = append(out, classify.Redact(x.name, 64))
		}
	}
	return out
}

// Apply adds the fields to a request as containerd does: each is one more value of its
// name, only a User-Agent takes the place of the client's own. What the request has already
// as Authorization wins, as the token does there, and so does Accept of a GET. Over plain
// http a field whose name sounds like a credential is left out; Apply then returns true.
func (f Fields) Apply(req *http.Request) (withheld bool) {
	for _, x := range f.all() {
		switch canonical := http.CanonicalHeaderKey(x.name); {
		case !x.sendable():
		case req.URL.Scheme != "https" && x.soundsSecret():
			withheld = true
		case canonical == "Authorization" && x.name == canonical && req.Header.Get(canonical) != "":
		case canonical == "Accept" && req.Method == http.MethodGet && req.Header.Get(canonical) != "":
		case x.name == "User-Agent":
			req.Header[x.name] = slices.Clone(x.values)
		default:
			req.Header[x.name] = append(slices.Clone(req.Header[x.name]), x.values...)
		}
	}
	return withheld
}

// unsendable are fields of one connection or of the body's form. Host, Content-Length,
// Transfer-Encoding and Trailer net/http leaves out as well.
var unsendable = []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer", "Connection", "Keep-Alive", "Te", "Upgrade", "Expect", "Accept-Encoding", "Range"}

func (x field) sendable() bool {
	if x.name == "" || strings.ContainsFunc(x.name, func(r rune) bool { return !isTokenRune(r) }) || slices.Contains(unsendable, http.CanonicalHeaderKey(x.name)) {
		return false
	}
	return !slices.ContainsFunc(x.values, func(v string) bool { return strings.ContainsFunc(v, isControl) })
}

// soundsSecret errs on the side of secrecy: X-Api-Key is one, X-Team is none.
func (x field) soundsSecret() bool {
	name := strings.ToLower(x.name)
	return slices.ContainsFunc([]string{"auth", "token", "key", "secret", "pass", "cred", "cookie", "session", "sig", "jwt", "bearer"},
		func(s string) bool { return strings.Contains(name, s) })
}

// isControl reports what net/http refuses in a header.
func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }
