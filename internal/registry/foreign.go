package registry

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
// Authorization; [Walk.Follow] takes redirects on. The runtimes ask these places
// before the registry, and no failure there sends them all on: containerd goes to
// the next and then to the registry after a 404 and after nothing else
// (core/remotes/docker/fetcher.go); CRI-O goes to the next whatever the failure,
// and never to the registry (containers/image, docker_client.go). Where the runtime
// goes on, the report is a warning with OutcomeNotNeeded; else it fails.
//
// Containerd uses its default client there: the node's roots, and nothing of the
// registry's own settings. That is for the transport to follow.
func (w *Walk) Foreign(ctx context.Context, rt http.RoundTripper, u *url.URL, d Descriptor, mode Mode) *Report {
	if u == nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil {
		r := notRedirected(blobAsk(d, mode))
		r.Unknown("the layer's own place is no URL that can be asked")
		return r
	}
	a := blobAsk(d, mode)
	a.foreign = true
	if all := d.ForeignURLs(); len(all) > 0 {
		a.last = all[len(all)-1].String() == u.String()
	}
	return w.blob(ctx, rt, u, d, a, 1)
}

// foreignRefused is what becomes of a failure at a layer's own place.
func (w *Walk) foreignRefused(r *Report) *Report {
	if !r.asked.foreign || r.Outcome != OutcomeFailed {
		return r
	}
	f := classify.New(classify.EndpointForeignLayerURL, fmt.Sprintf("layer %s is asked for at %s first, where it names a place of its own, and that fails", r.Digest, r.Endpoint),
		classify.Fact{Key: classify.FactURL, Value: r.URL}, classify.Fact{Key: classify.FactDigest, Value: r.Digest})
	goesOn, to := r.Status == http.StatusNotFound, "; containerd then asks the next place, the registry last"
	if w.Client.ForeignSettings {
		goesOn, to = !r.asked.last && r.Status != http.StatusOK, "; "+w.Client.name()+" then asks the next place"
	}
	if !goesOn {
		f.Summary += "; " + w.Client.name() + " does not ask elsewhere after that"
		r.add(f)
		return r
	}
	f.Summary += to
	r.warn(f)
	r.Outcome = OutcomeNotNeeded
	for i := range r.Found {
		r.Found[i].Severity = classify.SeverityWarn
	}
	return r
}
