package pullwalk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
)

// endpointOf returns what was seen at a host, nil if nothing was.
func endpointOf(r *pullwalk.Result, hostPort string) *pullwalk.Endpoint {
	for _, s := range r.Sources {
		for i, e := range s.Endpoints {
			if e.HostPort() == hostPort {
				return &s.Endpoints[i]
			}
		}
	}
	return nil
}

func statusOf(e *pullwalk.Endpoint, id pullwalk.StepID) pullwalk.Status {
	for _, st := range e.Steps {
		if st.ID == id && !st.Addr.IsValid() {
			return st.Status
		}
	}
	return ""
}

// One run shows all closed doors: hosts that the caller expects are climbed to up
// to TLS although no identity is accepted.
func TestExpectedHostsAreClimbedWhenIdentityFails(t *testing.T) {
	t.Parallel()
	for name, identity := range map[string]string{
		"wrong password": "login registry.corp.test reader wrong", "no secret": "login none", "the token server is down": "break refused token",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, identity+"\noption also blobs.corp.test:443\noption also data.corp.test:443\nzone 10.20.0.2 data.corp.test 10.20.0.9\nnet silent 10.20.0.9:443", func(t *testing.T, w *world) {
				got := w.diagnose(t, t.Context(), scenario{})
				got.checkHonesty(t)
				require.Equal(t, pullwalk.StatusFailed, got.result.Verdict, got.result.String())
				require.NotContains(t, []string{"blobs.corp.test:443", "data.corp.test:443"}, got.result.Primary.Endpoint)
				require.Equal(t, pullwalk.StatusOK, statusOf(endpointOf(got.result, "blobs.corp.test:443"), pullwalk.StepTLS))
				require.Equal(t, pullwalk.StatusFailed, statusOf(endpointOf(got.result, "data.corp.test:443"), pullwalk.StepConnect))
				var door *classify.Finding
				for i, f := range got.result.Findings {
					if f.Endpoint == "data.corp.test:443" {
						door = &got.result.Findings[i]
					}
				}
				require.NotNil(t, door)
				require.Equal(t, classify.RouteConnectTimeout, door.Cause)
				require.Equal(t, classify.SeverityWarn, door.Severity)
			})
		})
	}
}

// So are the hosts of a known provider. They decide nothing, and are only mentioned
// where the walk came to its end without them.
func TestKnownHostsAreClimbedWhenTheWalkStops(t *testing.T) {
	t.Parallel()
	const known = "pkg-containers.githubusercontent.com"
	const github = "image ghcr.io/team/app:v1\nzone 10.20.0.2 ghcr.io 10.20.0.14\nzone 10.20.0.2 " + known + " 10.20.0.9\nlogin ghcr.io reader right\n"
	for name, tt := range map[string]struct {
		world   string
		verdict pullwalk.Status
		through bool
		within  time.Duration
	}{
		"identity fails":          {world: "login none\nbasic 10.20.0.14:443\nnet refuse 10.20.0.9:443", verdict: pullwalk.StatusFailed},
		"no identity is used":     {world: "option connect\nbasic 10.20.0.14:443\nnet refuse 10.20.0.9:443", verdict: pullwalk.StatusDegraded},
		"the registry is silent":  {world: "net mute 10.20.0.14:443\nnet mute 10.20.0.9:443", verdict: pullwalk.StatusFailed, within: 13 * time.Second},
		"the registry is refused": {world: "net refuse 10.20.0.14:443\nnet silent 10.20.0.9:443", verdict: pullwalk.StatusFailed, within: 5 * time.Second},
		"the walk goes through":   {world: "basic 10.20.0.14:443\nnet refuse 10.20.0.9:443", verdict: pullwalk.StatusOK, through: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			statements := github + tt.world
			if strings.Contains(tt.world, "login none") {
				statements = strings.Replace(statements, "login ghcr.io reader right\n", "", 1)
			}
			inWorld(t, statements, func(t *testing.T, w *world) {
				start := time.Now()
				got := w.diagnose(t, t.Context(), scenario{})
				require.LessOrEqual(t, time.Since(start), tt.within)
				got.checkShape(t)
				require.Equal(t, tt.verdict, got.result.Verdict, got.result.String())
				e := endpointOf(got.result, known+":443")
				require.NotNil(t, e)
				require.Equal(t, []endpoints.Role{endpoints.RoleBlob}, e.Roles)
				severity := classify.SeverityWarn
				if tt.through {
					severity = classify.SeverityInfo
				}
				told := 0
				for _, st := range e.Steps {
					for _, f := range st.Findings {
						require.Equal(t, severity, f.Severity)
						told++
					}
				}
				require.NotZero(t, told)
			})
		})
	}
}
