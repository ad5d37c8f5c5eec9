package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/pullwalk/pullwalk/classify"
)

// WithheldError says that a credential was not sent although the runtime might have sent
// it: what follows is therefore not known.
type WithheldError struct {
	Host, Reason string
	Redirected   bool // a redirect led there
}

func (e *WithheldError) Error() string {
	return fmt.Sprintf("credential withheld from %s: %s", e.Host, e.Reason)
}

// tokenRedirects follows the redirects of a token request by the rules of net/http's
// client: 301, 302 and 303 turn a POST into a GET without its form, 307 and 308 keep method
// and form, and Authorization goes along as long as every host is the first one or one
// below it, whatever its port and scheme.
//
// One thing is done otherwise. A credential is sent to the scheme, host and port of the
// realm only: where the runtime would send it on, a [WithheldError] ends the exchange,
// since what it would get there is not known.
type tokenRedirects struct {
	first    *url.URL
	basic    string // the Authorization of the first request
	left     bool   // one went to a host to which net/http sends no Authorization
	requests int
	fields   Fields
	bare     bool // the last request lacks fields that the runtime would send
}

// next returns the request that follows a redirect; nil if resp is none that net/http would
// follow. It closes the body where it returns a request or an error.
func (t *tokenRedirects) next(req *http.Request, resp *http.Response) (*http.Request, error) {
	location := resp.Header.Get("Location")
	if !isRedirect(resp.StatusCode) || location == "" {
		return nil, nil
	}
	_, _ = io.CopyN(io.Discard, resp.Body, MaxErrorBody) // so that its connection can be used again
	_ = resp.Body.Close()
	to, err := t.target(req, resp.StatusCode, location)
	if err != nil {
		return nil, err
	}
	withheld := &WithheldError{Host: classify.Redact(to.Host, 255), Reason: "it was named by a redirect", Redirected: true}
	inside := SameOrigin(t.first, to) && to.Scheme == "https"
	out := newRequest(req.Context(), http.MethodGet, to, "", req.Header.Get("User-Agent"))
	keeps := resp.StatusCode == http.StatusTemporaryRedirect || resp.StatusCode == http.StatusPermanentRedirect
	if req.Method == http.MethodPost && keeps {
		if !inside {
			return nil, withheld
		}
		out.Method, out.GetBody, out.ContentLength = req.Method, req.GetBody, req.ContentLength
		if out.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
		out.Header.Set("Content-Type", req.Header.Get("Content-Type"))
	}
	t.left = t.left || !keepsAuthorization(t.first, to)
	if t.basic != "" && !t.left {
		if !inside {
			return nil, withheld
		}
		out.Header.Set("Authorization", t.basic)
	}
	t.bare = !inside && !t.fields.IsZero()
	if inside {
		t.fields.Apply(out)
	}
	return out, nil
}

// target reads a Location. No error repeats its query.
func (t *tokenRedirects) target(req *http.Request, status int, location string) (*url.URL, error) {
	bad := func(cause classify.Cause, what string) error {
		f := classify.New(cause, fmt.Sprintf("%s answered a token request with %d, %s", req.URL.Host, status, what),
			classify.Fact{Key: classify.FactStatus, Value: fmt.Sprint(status)}, classify.Fact{Key: classify.FactURL, Value: RedactURL(req.URL)})
		f.Operation, f.Endpoint = classify.OperationFetchToken, req.URL.Host
		return f
	}
	if t.requests++; t.requests >= MaxRequests {
		return nil, bad(classify.EndpointHTTPRedirectLoop, fmt.Sprintf("the last of %d redirects", t.requests))
	}
	to, err := parseLocation(req.URL, location)
	if errors.Is(err, errUserInformation) { // net/http would make a login from it
		return nil, &WithheldError{Host: classify.Redact(to.Host, 255), Reason: "the redirect carries user information", Redirected: true}
	}
	if err != nil {
		return nil, bad(classify.EndpointBadLocation, "a redirect that cannot be followed: "+err.Error())
	}
	return to, nil
}
