package registry

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// MaxRequests is how many requests one manifest, blob or token may take, redirects
// included. The tenth redirect is not followed, as in net/http's client, which the runtimes
// use.
const MaxRequests = 10

// maxLocation bounds a redirect target; signed URLs stay well below.
const maxLocation = 16 << 10

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// errUserInformation says that a redirect carries a login, of which net/http's client makes
// a credential.
var errUserInformation = errors.New("the Location carries user information")

// parseLocation resolves a Location against the URL that was asked (RFC 9110, section
// 10.2.2). Errors never repeat the value, which may be signed. With errUserInformation the
// URL is returned as well.
func parseLocation(asked *url.URL, location string) (*url.URL, error) {
	if location == "" {
		return nil, errors.New("the Location field is missing")
	}
	if len(location) > maxLocation {
		return nil, errors.New("the Location is longer than 16 KiB")
	}
	u, err := asked.Parse(location)
	if err != nil {
		return nil, errors.New("the Location cannot be used: " + unusable(location))
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("the Location has a scheme other than https and http")
	case u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("the Location names no host")
	case u.User != nil:
		return u, errUserInformation
	}
	u.Fragment, u.RawFragment = "", ""
	// What was resolved must be a URL once more: "//::" has a host only until it is written
	// down.
	if u, err = url.Parse(u.String()); err != nil || u.Hostname() == "" || u.User != nil {
		return nil, errors.New("the Location is not a URL")
	}
	return u, nil
}

// redirected judges a redirect without following it.
func (w *Walk) redirected(r *Report, u *url.URL, resp *http.Response) {
	to, err := parseLocation(u, resp.Header.Get("Location"))
	status := classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(resp.StatusCode)}
	if err != nil {
		r.Fail(classify.New(classify.EndpointBadLocation,
			fmt.Sprintf("%s answered %d, a redirect that cannot be followed: %s", u.Host, resp.StatusCode, err), status))
		return
	}
	r.Location = RedactURL(to)
	where := classify.Fact{Key: classify.FactURL, Value: r.Location}
	if r.Hop >= MaxRequests {
		r.Fail(classify.New(classify.EndpointHTTPRedirectLoop,
			fmt.Sprintf("%d requests were all answered by a redirect; the last, at %s, points to %s", r.Hop, u.Host, r.Location), status, where))
		return
	}
	r.redirect, r.Outcome = to, OutcomeRedirect
	r.spec.left = r.spec.left || !keepsAuthorization(w.Origin(), to)
	kinds := oddities(u, to)
	if u.Scheme == "https" && to.Scheme == "http" {
		f := classify.New(classify.EndpointBadLocation,
			fmt.Sprintf("%s redirects from https to plain http at %s; the runtime follows, and anyone on the path can read along", u.Host, to.Host), status, where)
		if len(kinds) > 0 {
			f.Facts = append(f.Facts, classify.Fact{Key: classify.FactReason, Value: strings.Join(kinds, ", ")})
		}
		r.Warn(f)
	} else {
		r.odd(classify.EndpointBadLocation, kinds, fmt.Sprintf("%s redirects to %s", u.Host, r.Location), status, where)
	}
	if (r.spec.kind == kindResolve || r.spec.kind == kindManifest) && !strings.EqualFold(u.Hostname(), to.Hostname()) {
		r.Warn(classify.New(classify.EndpointRedirectedAway,
			fmt.Sprintf("%s sends the request for the manifest away to %s", u.Host, to.Host), status, where))
	}
}
