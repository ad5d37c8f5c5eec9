package endpoints

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/pullwalk/pullwalk/classify"
)

// ForeignURLs returns the places that a layer names for itself, as they stand in
// the manifest, at most four; the query may be a signature and must never be
// printed. Nil for almost every layer, and after a Descriptor was decoded from
// JSON.
func (d Descriptor) ForeignURLs() []*url.URL {
	var out []*url.URL
	for _, s := range d.foreign {
		if u, err := url.Parse(s); err == nil {
			out = append(out, u)
		}
	}
	return out
}

// Foreign asks one of a layer's [Descriptor.ForeignURLs] for it, without any
// Authorization; [Walk.Follow] takes redirects on. Containerd asks these places
// before the registry and goes on to the registry when they fail, so a failure is
// a warning there, with OutcomeNotNeeded; CRI-O and docker stop, so it fails.
func (w *Walk) Foreign(ctx context.Context, rt http.RoundTripper, u *url.URL, d Descriptor, mode Mode) *RequestReport {
	if u == nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil {
		r := notRedirected(blobAsk(d, mode))
		r.unknown("the layer's own place is no URL that can be asked")
		return r
	}
	a := blobAsk(d, mode)
	a.foreign = true
	return w.blob(ctx, rt, u, d, a, 1)
}

// foreignRefused is what becomes of a failure at a layer's own place.
func (w *Walk) foreignRefused(r *RequestReport) *RequestReport {
	if !r.asked.foreign || r.Outcome != OutcomeFailed {
		return r
	}
	f := classify.New(classify.EndpointForeignLayerURL, fmt.Sprintf("layer %s is asked for at %s first, where it names a place of its own, and that fails", r.Digest, r.endpoint),
		classify.Fact{Key: classify.FactURL, Value: r.URL}, classify.Fact{Key: classify.FactDigest, Value: r.Digest})
	if w.Way.Pings() {
		r.add(f)
		return r
	}
	f.Summary += "; containerd then asks the registry"
	r.warn(f)
	r.Outcome = OutcomeNotNeeded
	for i := range r.findings {
		r.findings[i].Severity = classify.SeverityWarn
	}
	return r
}
