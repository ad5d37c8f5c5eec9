package registry

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// maxTokenRequests is how many requests one token exchange may take, redirects
// included: the tenth redirect is not followed, as in net/http's client, which the
// runtimes use for it.
const maxTokenRequests = 10

// hops follows the redirects of a token request by the rules of net/http's client:
// 301, 302 and 303 turn a POST into a GET without its form, 307 and 308 keep method
// and form, and Authorization goes along as long as every hop is the first host or
// one below it, whatever its port and scheme.
//
// One thing is done otherwise. A credential is sent to the scheme, host and port of
// the realm only: where the runtime would send it on, a [WithheldError] ends the
// exchange, since what it would get there is not known.
type hops struct {
	first    *url.URL
	basic    string // the Authorization of the first request
	left     bool   // a hop went to a host that net/http sends no Authorization to
	requests int
	fields   Fields
	bare     bool // the last request lacks fields that the runtime would send
}

// next returns the request that follows a redirect; nil if resp is none that
// net/http would follow. It closes the body where it returns a request or an error.
func (h *hops) next(req *http.Request, resp *http.Response) (*http.Request, error) {
	location := resp.Header.Get("Location")
	keep := resp.StatusCode == http.StatusTemporaryRedirect || resp.StatusCode == http.StatusPermanentRedirect
	moved := resp.StatusCode == http.StatusMovedPermanently || resp.StatusCode == http.StatusFound || resp.StatusCode == http.StatusSeeOther
	if !keep && !moved || location == "" {
		return nil, nil
	}
	_, _ = io.CopyN(io.Discard, resp.Body, MaxErrorBody) // so that its connection can be used again
	_ = resp.Body.Close()
	to, err := h.target(req, resp.StatusCode, location)
	if err != nil {
		return nil, err
	}
	inside := SameOrigin(h.first, to) && to.Scheme == "https"
	out := newRequest(req.Context(), http.MethodGet, to, "", req.Header.Get("User-Agent"))
	if req.Method == http.MethodPost && keep {
		if !inside {
			return nil, withheldAfter(to)
		}
		out.Method, out.GetBody, out.ContentLength = req.Method, req.GetBody, req.ContentLength
		if out.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
		out.Header.Set("Content-Type", req.Header.Get("Content-Type"))
	}
	h.left = h.left || !KeepsAuthorization(h.first, to)
	if h.basic != "" && !h.left {
		if !inside {
			return nil, withheldAfter(to)
		}
		out.Header.Set("Authorization", h.basic)
	}
	h.bare = !inside && !h.fields.IsZero()
	if inside {
		h.fields.Apply(out)
	}
	return out, nil
}

// target reads a Location. No error repeats its query.
func (h *hops) target(req *http.Request, status int, location string) (*url.URL, error) {
	bad := func(cause classify.Cause, what string) error {
		f := classify.New(cause, fmt.Sprintf("%s answered a token request with %d, %s", req.URL.Host, status, what),
			classify.Fact{Key: classify.FactStatus, Value: fmt.Sprint(status)}, classify.Fact{Key: classify.FactURL, Value: RedactURL(req.URL)})
		f.Operation, f.Endpoint = classify.OperationFetchToken, req.URL.Host
		return f
	}
	h.requests++
	if h.requests >= maxTokenRequests {
		return nil, bad(classify.EndpointHTTPRedirectLoop, fmt.Sprintf("the last of %d redirects", h.requests))
	}
	if len(location) > maxLocation {
		return nil, bad(classify.EndpointBadLocation, "a redirect whose Location is longer than 16 KiB")
	}
	to, err := req.URL.Parse(location)
	if err != nil {
		return nil, bad(classify.EndpointBadLocation, "a redirect whose Location is not a URL")
	}
	if to.User != nil { // net/http would make a login of it
		return nil, &WithheldError{Host: classify.Redact(to.Host, 255), Reason: "the redirect carries user information", Redirected: true}
	}
	to.Fragment, to.RawFragment = "", ""
	// What was resolved must be a URL once more, see RealmURL for what is none.
	if to, err = RealmURL(Challenge{Realm: to.String()}); err != nil {
		return nil, bad(classify.EndpointBadLocation, "a redirect that cannot be followed: "+err.(*BadRealmError).Reason)
	}
	return to, nil
}

// maxLocation bounds a redirect target.
const maxLocation = 16 << 10

func withheldAfter(to *url.URL) error {
	return &WithheldError{Host: classify.Redact(to.Host, 255), Reason: "it was named by a redirect", Redirected: true}
}

// KeepsAuthorization says whether net/http's client keeps Authorization on the way from first to
// u: to the same host name or one below it.
func KeepsAuthorization(first, u *url.URL) bool {
	a, b := strings.ToLower(first.Hostname()), strings.ToLower(u.Hostname())
	return a == b || strings.HasSuffix(b, "."+a) && !strings.ContainsAny(b, ":%")
}

// SameOrigin says whether two URLs lead to the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	port := func(u *url.URL) string {
		if u.Port() != "" {
			return u.Port()
		}
		return map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return a.Scheme == b.Scheme && strings.EqualFold(net.JoinHostPort(a.Hostname(), port(a)), net.JoinHostPort(b.Hostname(), port(b)))
}

// reach returns the transport to a further host of the exchange.
func (in TokenRequest) reach(ctx context.Context, rt http.RoundTripper, from, to *url.URL) (http.RoundTripper, error) {
	if SameOrigin(from, to) {
		return rt, nil
	}
	return in.Next(ctx, to)
}
