package registry

import (
	"net/http"
	"net/url"

	"github.com/pullwalk/pullwalk/classify"
)

// RedactURL returns scheme, host and path of u. The query may be a signature
// and the user information a password, so neither is ever printed.
func RedactURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	safe := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return classify.Redact(safe.String(), 512)
}

// CorrelationID returns the id under which the server's owner finds the request
// in the server's own log, "" if none was sent.
func CorrelationID(h http.Header) string {
	for _, name := range []string{"X-Ms-Correlation-Request-Id", "X-Ms-Request-Id", "X-Amz-Request-Id", "X-Amzn-Requestid", "X-Request-Id", "X-Correlation-Id"} {
		if v := h.Get(name); v != "" {
			return classify.Redact(v, 80)
		}
	}
	return ""
}
