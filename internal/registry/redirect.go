package registry

import (
	"errors"
	"net/http"
	"net/url"
)

// MaxRequests is how many requests one manifest or blob may take, redirects
// included. The tenth redirect is not followed, as in net/http's client, which
// the runtimes use.
const MaxRequests = 10

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// parseLocation resolves a Location field against the URL that was asked (RFC
// 9110, section 10.2.2). Errors never repeat the value, which may be signed.
func parseLocation(asked *url.URL, values []string) (*url.URL, error) {
	if len(values) == 0 || values[0] == "" {
		return nil, errors.New("the Location field is missing")
	}
	if len(values[0]) > maxLocation {
		return nil, errors.New("the Location is longer than 16 KiB")
	}
	u, err := asked.Parse(values[0])
	if err != nil {
		return nil, errors.New("the Location cannot be used: " + unusable(values[0]))
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("the Location has a scheme other than https and http")
	case u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("the Location names no host")
	case u.User != nil:
		return nil, errors.New("the Location carries user information")
	}
	u.Fragment, u.RawFragment = "", ""
	// What was resolved must be a URL once more: "//::" has a host only until
	// it is written down.
	if u, err = url.Parse(u.String()); err != nil || u.Hostname() == "" || u.User != nil {
		return nil, errors.New("the Location is not a URL")
	}
	return u, nil
}
