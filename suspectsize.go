package pullwalk

import (
	"slices"

	"github.com/pullwalk/pullwalk/classify"
)

// suspectSize offers the size of packets as another reading of a silent request,
// where the handshake with the same host was seen to depend on it: a request with
// a long token, or its answer, may be the first that is as large again.
func (r *Result) suspectSize() {
	first := &r.Findings[0]
	switch first.Cause {
	case classify.EndpointResponseHeaderTimeout, classify.EndpointReadTimeout, classify.EndpointDownloadStalled:
	default:
		return
	}
	for _, s := range r.Sources {
		for _, e := range s.Endpoints {
			if e.HostPort() != first.Endpoint {
				continue
			}
			for _, st := range e.Steps {
				if st.ID != StepTLS {
					continue
				}
				for _, f := range st.Findings {
					sized := f.Cause == classify.RouteMTUBlackHole || f.Cause == classify.RouteLargeHelloDropped
					if sized && !slices.Contains(first.Alternatives, f.Cause) {
						first.Alternatives = append(slices.Clone(first.Alternatives), f.Cause)
					}
				}
			}
		}
	}
}
