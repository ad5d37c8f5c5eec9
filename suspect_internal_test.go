package pullwalk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// Where the handshake was seen to depend on the size of packets, a silent request
// may, too; elsewhere that is not claimed.
func TestSuspectSize(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		primary, tls classify.Cause
		host         string
		want         []classify.Cause
	}{
		"silent request":    {classify.EndpointResponseHeaderTimeout, classify.RouteMTUBlackHole, "a", []classify.Cause{classify.RouteMTUBlackHole}},
		"stalled download":  {classify.EndpointDownloadStalled, classify.RouteLargeHelloDropped, "a", []classify.Cause{classify.RouteLargeHelloDropped}},
		"another host":      {classify.EndpointResponseHeaderTimeout, classify.RouteMTUBlackHole, "b", nil},
		"no matter of size": {classify.EndpointResponseHeaderTimeout, classify.TLSExpired, "a", nil},
		"an answer":         {classify.IdentityUnauthorized, classify.RouteMTUBlackHole, "a", nil},
	} {
		f := classify.New(tt.primary, "")
		f.Endpoint = "a:443"
		warning := classify.New(tt.tls, "")
		r := &Result{
			Findings: []classify.Finding{f},
			Sources:  []Source{{Endpoints: []Endpoint{{Scheme: "https", Host: tt.host, Port: 443, Steps: []Step{{ID: StepTLS, Findings: []classify.Finding{warning, warning}}}}}}},
		}
		r.suspectSize()
		require.Equal(t, tt.want, r.Findings[0].Alternatives, name)
	}
}
