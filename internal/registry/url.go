package registry

import (
	"net"
	"net/url"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// RedactURL returns scheme, host and path of u. The query may be a signature and the user
// information a password, so neither is ever printed.
func RedactURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	safe := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return classify.Redact(safe.String(), 512)
}

// HostPort returns host:port with the scheme's own port filled in.
func HostPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "http":
		port = "80"
	case IsSOCKS(u): // RFC 1928, section 3
		port = "1080"
	default:
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// SameOrigin reports whether two URLs lead to the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(HostPort(a), HostPort(b))
}

// keepsAuthorization reports whether net/http's client keeps Authorization on the way from
// first to u: at the same host name or one below it.
func keepsAuthorization(first, u *url.URL) bool {
	a, b := strings.ToLower(first.Hostname()), strings.ToLower(u.Hostname())
	return a == b || strings.HasSuffix(b, "."+a) && !strings.ContainsAny(b, ":%")
}

// IsSOCKS reports whether net/http speaks SOCKS 5 to a proxy of this URL. Both schemes are
// the same to it: the proxy looks names up.
func IsSOCKS(proxy *url.URL) bool { return proxy.Scheme == "socks5" || proxy.Scheme == "socks5h" }
