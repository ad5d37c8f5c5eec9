package registry

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// The kinds of a wrong-looking address that a server gives out, the values of the
// fact "reason". A registry behind a proxy that was never told its outer name,
// port and scheme makes each of them.
const (
	lintPlain        = "plain http behind https"
	lintHTTPOn443    = "http on port 443"
	lintHTTPSOn80    = "https on port 80"
	lintDoubledPath  = "path given twice"
	lintSlashes      = "double slash in the path"
	lintInternalName = "internal name"
	lintPort         = "another port than the one that was asked"
	lintPlaceholder  = "a name that was never filled in"
)

// lint says what looks wrong in an address to, which the server at from gave out.
// An address that cannot be used at all is not for here.
func lint(from, to *url.URL) (kinds []string) {
	host := strings.ToLower(to.Hostname())
	same := strings.EqualFold(from.Hostname(), host)
	switch {
	case to.Scheme == "http" && to.Port() == "443":
		kinds = append(kinds, lintHTTPOn443)
	case to.Scheme == "https" && to.Port() == "80":
		kinds = append(kinds, lintHTTPSOn80)
	case from.Scheme == "https" && to.Scheme == "http":
		kinds = append(kinds, lintPlain)
	}
	if same && to.Scheme == from.Scheme && HostPort(from) != HostPort(to) {
		kinds = append(kinds, lintPort)
	}
	if strings.HasPrefix(to.Path, "//") || same && strings.Contains(to.Path, "//") {
		kinds = append(kinds, lintSlashes)
	}
	if doubled(to.Path) {
		kinds = append(kinds, lintDoubledPath)
	}
	switch {
	case slices.Contains([]string{"null", "undefined", "none", "hostname", "example.com", "your-domain.com", "reg.mydomain.com"}, host), strings.ContainsAny(host, "{}$<>"):
		kinds = append(kinds, lintPlaceholder)
	case !same && internalName(host) && !internalName(strings.ToLower(from.Hostname())):
		kinds = append(kinds, lintInternalName)
	}
	return kinds
}

// doubled says whether a path begins with the same two or more components twice,
// "/service/token/service/token", or carries a whole URL.
func doubled(p string) bool {
	if strings.Contains(p, "http://") || strings.Contains(p, "https:/") {
		return true
	}
	parts := strings.Split(strings.Trim(p, "/"), "/")
	if n := len(parts) / 2; n >= 2 && len(parts) == 2*n && slices.Equal(parts[:n], parts[n:]) {
		return true
	}
	return len(parts) > 1 && parts[0] == "v2" && parts[1] == "v2"
}

// internalName says whether a host is a name or an address that means something
// in one cluster or machine only.
func internalName(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback() || addr.IsUnspecified()
	}
	if host == "localhost" || !strings.Contains(host, ".") {
		return true
	}
	for _, suffix := range []string{".local", ".internal", ".svc", ".localhost", ".localdomain", ".docker"} {
		if strings.HasSuffix(host, suffix) {
			return !strings.HasSuffix(host, "compute.internal")
		}
	}
	return false
}

// harmless kinds are worth a word and not a warning: many healthy installations
// have them.
func harmless(kind string) bool { return kind == lintSlashes || kind == lintPort }

// lintRealms warns of token servers that look wrong. The request to them decides;
// the warning says why it may fail.
func (r *Report) lintRealms(asked *url.URL) {
	for _, c := range r.challenges {
		realm, err := RealmURL(c)
		if c.Scheme != "bearer" || err != nil {
			continue
		}
		r.linted(classify.EndpointBadRealm, lint(asked, realm), fmt.Sprintf("%s names the token server %s", r.Endpoint, RedactURL(realm)),
			classify.Fact{Key: classify.FactRealm, Value: RedactURL(realm)})
	}
}

func (r *Report) linted(cause classify.Cause, kinds []string, what string, facts ...classify.Fact) {
	if len(kinds) == 0 {
		return
	}
	f := classify.New(cause, what+", which looks wrong: "+strings.Join(kinds, ", "), append(facts, classify.Fact{Key: classify.FactReason, Value: strings.Join(kinds, ", ")})...)
	f.Severity, f.Certainty = classify.SeverityWarn, classify.CertaintyLikely
	if !slices.ContainsFunc(kinds, func(k string) bool { return !harmless(k) }) {
		f.Severity, f.Certainty = classify.SeverityInfo, classify.CertaintyPossible
	}
	r.add(f)
}

// unusable says why the address that a server gave out is none, in the words of
// the lint where it can be told.
func unusable(raw string) string {
	_, rest, _ := strings.Cut(raw, "://")
	authority, _, _ := strings.Cut(rest, "/")
	switch {
	case strings.HasPrefix(raw, "null:") || strings.HasPrefix(raw, "null/"):
		return "its scheme is null"
	case strings.Count(authority, ":") > 1 && !strings.HasPrefix(authority, "["):
		return "its port stands twice"
	case strings.Count(raw, "://") > 1:
		return "one URL stands in the other"
	}
	if _, port, err := net.SplitHostPort(authority); err == nil && strings.Trim(port, "0123456789") != "" {
		return "its port is no number"
	}
	return "it is not a URL"
}
