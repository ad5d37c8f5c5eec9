package registry

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// send makes one request and judges everything but the content. The response is nil where
// that finishes the report; else its status is 2xx and its body open.
func (w *Walk) send(ctx context.Context, rt http.RoundTripper, u *url.URL, s spec, hop int) (*Report, *http.Response) {
	r := newReport(s, u, hop)
	switch {
	case rt == nil:
		r.Unknown("no transport was given")
		return r, nil
	case u.Host == "" || w.Reference.Repository == "":
		r.Unknown("no image reference was given")
		return r, nil
	case ctx.Err() != nil:
		r.Unknown(Ended(ctx))
		return r, nil
	}
	req, err := http.NewRequestWithContext(ctx, s.method, u.String(), nil)
	if err != nil {
		r.Unknown("the request cannot be built: " + classify.Redact(err.Error(), 200))
		return r, nil
	}
	req.Header.Set("User-Agent", cmp.Or(w.UserAgent, DefaultAgent))
	req.Header.Set("Accept", s.accept)
	req.Header.Set("Accept-Encoding", "identity")
	if s.ranged != "" {
		req.Header.Set("Range", s.ranged)
	}
	w.addSecrets(r, req)
	start := time.Now()
	defer func() { r.ElapsedMS = time.Since(start).Milliseconds() }()
	resp, err := rt.RoundTrip(req)
	r.FirstByteMS = time.Since(start).Milliseconds()
	if err != nil {
		r.FirstByteMS = 0
		r.Broken(ctx, classify.StageHeaders, err)
		return r, nil
	}
	if resp.Request == nil {
		resp.Request = req
	}
	r.Status, r.MediaType = resp.StatusCode, baseType(resp.Header.Get("Content-Type"))
	r.Correlation, r.RateLimit, r.Product = correlationID(resp.Header), rateLimit(resp.Header), serverProduct(resp.Header)
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode <= 299:
		return r, resp
	case isRedirect(resp.StatusCode):
		discard(resp)
		w.redirected(r, u, resp)
	default:
		w.refused(r, u, resp)
	}
	return r, nil
}

// discard gives a connection back if that costs little.
func discard(resp *http.Response) {
	if resp.ContentLength >= 0 && resp.ContentLength <= MaxErrorBody {
		_, _ = io.CopyN(io.Discard, resp.Body, resp.ContentLength+1)
	}
	_ = resp.Body.Close()
}

// addSecrets adds what the runtime would send along and what may go there from here, and
// notes what it would and what may not. Both the fields of the configuration and
// Authorization go to the source's own scheme, host and port, Authorization over https
// only. The runtime sends both further: net/http's client copies the fields to every
// redirect target, and Authorization to the same host name and those below it.
func (w *Walk) addSecrets(r *Report, req *http.Request) {
	if r.spec.foreign { // containerd asks it as a host of its own
		return
	}
	inside := SameOrigin(req.URL, w.Origin())
	switch {
	case w.Fields.IsZero():
	case !inside:
		r.withheld = "header fields of the runtime's configuration withheld: after a redirect"
	case w.Fields.Apply(req):
		r.withheld = "header fields of the runtime's configuration withheld: plain http"
	}
	if w.Authorization != "" && w.authorizes(r, req.URL) {
		switch {
		case inside && req.URL.Scheme == "https":
			req.Header.Set("Authorization", w.Authorization)
			r.authorized = true
		case r.Hop > 1:
			r.withheld = "credential withheld: after a redirect"
		default:
			r.withheld = "credential withheld: plain http"
		}
	}
	r.Credentialed = req.Header.Get("Authorization") != ""
}

// authorizes reports whether the runtime sends Authorization with this request.
func (w *Walk) authorizes(r *Report, u *url.URL) bool {
	if r.Hop == 1 || !r.spec.left {
		return true
	}
	switch base := w.Origin(); w.Client.Returns {
	case ReturnsAPI:
		return SameOrigin(u, base) && strings.Contains(u.Path, "/v2/")
	case ReturnsHost:
		return strings.EqualFold(u.Host, base.Host)
	}
	return false
}
