package registry

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// What can look wrong in an address that a server gives out, the values of the fact
// "reason". A registry behind a proxy that was never told its outer name, port and scheme
// makes each of them.
const (
	oddPlain        = "plain http behind https"
	oddHTTPOn443    = "http on port 443"
	oddHTTPSOn80    = "https on port 80"
	oddDoubledPath  = "path given twice"
	oddSlashes      = "double slash in the path"
	oddInternalName = "internal name"
	oddPort         = "another port than the one that was asked"
	oddPlaceholder  = "a name that was never filled in"
)

var placeholders = []string{"null", "undefined", "none", "hostname", "example.com", "your-domain.com", "reg.mydomain.com"}

// oddities lists what looks wrong in an address that the server at from gave out.
func oddities(from, to *url.URL) (kinds []string) {
	host := strings.ToLower(to.Hostname())
	same := strings.EqualFold(from.Hostname(), host)
	switch {
	case to.Scheme == "http" && to.Port() == "443":
		kinds = append(kinds, oddHTTPOn443)
	case to.Scheme == "https" && to.Port() == "80":
		kinds = append(kinds, oddHTTPSOn80)
	case from.Scheme == "https" && to.Scheme == "http":
		kinds = append(kinds, oddPlain)
	}
	if same && to.Scheme == from.Scheme && HostPort(from) != HostPort(to) {
		kinds = append(kinds, oddPort)
	}
	if strings.HasPrefix(to.Path, "//") || same && strings.Contains(to.Path, "//") {
		kinds = append(kinds, oddSlashes)
	}
	if doubled(to.Path) {
		kinds = append(kinds, oddDoubledPath)
	}
	switch {
	case slices.Contains(placeholders, host), strings.ContainsAny(host, "{}$<>"):
		kinds = append(kinds, oddPlaceholder)
	case !same && internalName(host) && !internalName(strings.ToLower(from.Hostname())):
		kinds = append(kinds, oddInternalName)
	}
	return kinds
}

// doubled reports whether a path is the same two or more components twice,
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

// internalName reports whether a host means something in one cluster or machine only.
func internalName(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback() || addr.IsUnspecified()
	}
	if host == "localhost" || !strings.Contains(host, ".") {
		return true
	}
	if strings.HasSuffix(host, "compute.internal") {
		return false
	}
	return slices.ContainsFunc([]string{".local", ".internal", ".svc", ".localhost", ".localdomain", ".docker"},
		func(suffix string) bool { return strings.HasSuffix(host, suffix) })
}

// odd warns of an address that looks wrong. Double slashes and other ports are for
// information: many healthy installations have them.
func (r *Report) odd(cause classify.Cause, kinds []string, what string, facts ...classify.Fact) {
	if len(kinds) == 0 {
		return
	}
	f := classify.New(cause, what+", which looks wrong: "+strings.Join(kinds, ", "), append(facts, classify.Fact{Key: classify.FactReason, Value: strings.Join(kinds, ", ")})...)
	f.Severity, f.Certainty = classify.SeverityWarn, classify.CertaintyLikely
	if !slices.ContainsFunc(kinds, func(k string) bool { return k != oddSlashes && k != oddPort }) {
		f.Severity, f.Certainty = classify.SeverityInfo, classify.CertaintyPossible
	}
	r.Add(f)
}

// unusable says why an address that a server gave out does not parse.
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
