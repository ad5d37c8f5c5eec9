package pullwalk_test

import (
	"context"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// planned is a keychain that plans like a kubelet.
type planned struct {
	authn.Keychain
	plan tlsauth.CredentialPlan
}

func (p planned) Plan(context.Context, string) (*tlsauth.CredentialPlan, error) { return &p.plan, nil }

func steps(r *pullwalk.Result, id pullwalk.StepID) []pullwalk.Step {
	var out []pullwalk.Step
	for _, s := range r.Sources {
		for _, e := range s.Endpoints {
			for _, st := range e.Steps {
				if st.ID == id {
					out = append(out, st)
				}
			}
		}
	}
	return out
}

// A plugin that matches and was not run leaves open what the kubelet would offer: an
// anonymous refusal proves nothing then.
func TestAPluginThatWasNotRun(t *testing.T) {
	t.Parallel()
	w, _, opts := loopback(t)
	opts.Keychain = planned{authn.DefaultKeychain, tlsauth.CredentialPlan{Inconclusive: "the plugin acr-credential-provider matches and was not run"}}
	w.Break(lab.AnonymousRefused())
	res, err := pullwalk.Diagnose(t.Context(), w.Image(), opts)
	require.NoError(t, err)
	require.Equal(t, pullwalk.StatusInconclusive, res.Verdict, res.String())
	require.Contains(t, res.Inconclusive, "was not run")
	require.Nil(t, res.Primary)
}

// Where credentials come from is climbed to, also where a registry must not lead:
// the node's own settings name it. What fails there is only told.
func TestWhereCredentialsComeFrom(t *testing.T) {
	t.Parallel()
	w, _, opts := loopback(t)
	secret, err := tlsauth.DockerConfig(w.DockerConfig())
	require.NoError(t, err)
	opts.Keychain = lister{planned{secret, tlsauth.CredentialPlan{
		Offered: []string{"pull secret"},
		Sources: []tlsauth.PlanSource{{Kind: "provider", Name: "acr-credential-provider", Hosts: []string{"127.0.0.1:1"}}},
	}}, secret}
	res, err := pullwalk.Diagnose(t.Context(), w.Image(), opts)
	require.NoError(t, err)
	require.Equal(t, pullwalk.StatusDegraded, res.Verdict, res.String())
	var found bool
	for _, h := range res.Hosts() {
		if h.Host == "127.0.0.1:1" {
			found = true
			require.Equal(t, []endpoints.Role{endpoints.RoleCredential}, h.Roles)
		}
	}
	require.True(t, found)
	require.Equal(t, classify.EndpointConnectionRefused, res.Findings[0].Cause)
	require.Equal(t, classify.SeverityWarn, res.Findings[0].Severity)
	require.Len(t, steps(res, pullwalk.StepSecrets), 1)
}

type lister struct {
	planned
	tlsauth.CredentialLister
}

// The lab's token server grants a reader nothing but to pull: asked for more, it
// says so, and the pull does not depend on the question.
func TestRightsAreAskedForOnlyOnRequest(t *testing.T) {
	t.Parallel()
	w, _, opts := loopback(t)
	res, err := pullwalk.Diagnose(t.Context(), w.Image(), opts)
	require.NoError(t, err)
	require.Empty(t, steps(res, pullwalk.StepRights))
	opts.AuditRights = true
	res, err = pullwalk.Diagnose(t.Context(), w.Image(), opts)
	require.NoError(t, err)
	require.Equal(t, pullwalk.StatusOK, res.Verdict, res.String())
	rights := steps(res, pullwalk.StepRights)
	require.Len(t, rights, 1)
	require.NotEqual(t, pullwalk.StatusFailed, rights[0].Status)
	require.Empty(t, w.Violations())
}
