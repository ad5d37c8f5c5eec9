package pullwalk

import (
	"slices"

	"github.com/pullwalk/pullwalk/classify"
)

// suspectName offers the answer of the name as another reading of the root cause,
// where the address that fails is doubtful in itself.
func (r *Result) suspectName() {
	switch r.Findings[0].Layer {
	case classify.LayerRoute, classify.LayerEndpoint, classify.LayerTLS:
		r.suspect(StepDNS, classify.DNSHostsOverride, classify.DNSPublicAnswer, classify.DNSSearchCapture, classify.DNSBogusAddress, classify.DNSStaleRecord)
	}
}

// suspectSize offers the size of packets as another reading of a silent request,
// where the handshake with the same host was seen to depend on it: a request with
// a long token, or its answer, may be the first that is as large again.
func (r *Result) suspectSize() {
	switch r.Findings[0].Cause {
	case classify.EndpointResponseHeaderTimeout, classify.EndpointReadTimeout, classify.EndpointDownloadStalled:
		r.suspect(StepTLS, classify.RouteMTUBlackHole, classify.RouteLargeHelloDropped)
	}
}

// suspect adds those of the causes that a step of the same host found to the other
// readings of the first finding.
func (r *Result) suspect(id StepID, causes ...classify.Cause) {
	first := &r.Findings[0]
	for _, s := range r.Sources {
		for _, e := range s.Endpoints {
			if e.HostPort() != first.Endpoint {
				continue
			}
			for _, st := range e.Steps {
				if st.ID != id {
					continue
				}
				for _, f := range st.Findings {
					if slices.Contains(causes, f.Cause) && !slices.Contains(first.Alternatives, f.Cause) {
						first.Alternatives = append(slices.Clone(first.Alternatives), f.Cause)
					}
				}
			}
		}
	}
}
