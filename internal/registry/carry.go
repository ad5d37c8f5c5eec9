package registry

import (
	"net/http"
	"net/url"
	"strings"
)

// carry adds to a request what the runtime would carry there and what may go there
// from here, and notes what it would and what may not.
//
// The fields of the source's configuration and its Authorization go to the source's
// own scheme, host and port, Authorization over https only. The runtime carries both
// further: net/http's client copies the fields to every redirect target, and
// Authorization to the same host name and those below it.
func (w *Walk) carry(r *Report, req *http.Request, hop int) {
	u, inside := req.URL, SameOrigin(req.URL, w.Origin())
	if r.asked.foreign { // containerd asks it as a host of its own
		return
	}
	switch {
	case w.Fields.IsZero():
	case !inside:
		r.withheld = "header fields of the runtime's configuration withheld: after a redirect"
	case w.Fields.Apply(req):
		r.withheld = "header fields of the runtime's configuration withheld: plain http"
	}
	if w.Authorization != "" && w.authorizes(r, u, hop) {
		switch {
		case inside && u.Scheme == "https":
			req.Header.Set("Authorization", w.Authorization)
			r.authorized = true
		case hop > 1:
			r.withheld = "credential withheld: after a redirect"
		default:
			r.withheld = "credential withheld: plain http"
		}
	}
	r.Credentialed = req.Header.Get("Authorization") != ""
}

// authorizes says whether the runtime sends Authorization with this request: always
// first, and after redirects as long as none led to a host that net/http sends it not
// to. When one did, [Client].Returns decides.
func (w *Walk) authorizes(r *Report, u *url.URL, hop int) bool {
	base := w.Origin()
	switch {
	case hop == 1 || !r.asked.left:
		return true
	case w.Client.Returns == ReturnsAPI:
		return SameOrigin(u, base) && strings.Contains(u.Path, "/v2/")
	case w.Client.Returns == ReturnsNever:
		return false
	}
	return strings.EqualFold(u.Host, base.Host)
}

// challenged says that containerd would answer the challenge of a redirect target
// with the credential of the image: it asks the registry again, and its hook then
// authorizes at the target. Nothing of ours goes there.
func (w *Walk) challenged(r *Report) bool {
	return r.Status == http.StatusUnauthorized && r.Hop > 1 && !r.authorized && !w.Client.IgnoresTargets && usable(r.challenges)
}
