package pullwalk

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// A registry that sends every layer to another host must not make us follow it
// without end; what lies behind is then not known.
func TestMoreHostsThanAreFollowed(t *testing.T) {
	t.Parallel()
	s := &source{d: &imageRun{diagnosis: &diagnosis{}}, finished: true}
	for i := range maxEndpoints {
		s.endpoints = append(s.endpoints, s.newEndpoint(target{scheme: "https", host: fmt.Sprintf("blobs%d.corp.test", i), port: 443, role: endpoints.RoleBlob}))
	}
	known := s.endpoint(t.Context(), target{scheme: "https", host: "blobs7.corp.test", port: 443, role: endpoints.RoleBlob})
	require.NotNil(t, known, "one that is known costs nothing")
	require.Nil(t, s.endpoint(t.Context(), target{scheme: "https", host: "one-more.corp.test", port: 443, role: endpoints.RoleBlob}))
	require.Len(t, s.endpoints, maxEndpoints)

	for _, e := range s.endpoints {
		e.ladder = &ladder{}
	}
	got := judge.Judge(pull.Log{Sources: []pull.Source{s.log()}})
	assert.Equal(t, StatusInconclusive, got.Verdict)
	assert.Contains(t, got.Inconclusive, fmt.Sprint(maxEndpoints))
	require.Len(t, got.Findings, 1)
	assert.Equal(t, classify.EndpointTooManyHosts, got.Findings[0].Cause)
}

// A registry may name the very address at which the node gets its credentials: its
// realm must not ride on the ladder that the node's own settings were given.
func TestARegistryDoesNotLeadToWhereCredentialsComeFrom(t *testing.T) {
	t.Parallel()
	s := &source{d: &imageRun{diagnosis: &diagnosis{}, company: &company{}}}
	metadata := target{scheme: "http", host: "169.254.169.254", port: 80, role: endpoints.RoleCredential}
	s.endpoints = append(s.endpoints, s.newEndpoint(metadata))
	require.NotNil(t, s.find(metadata))
	realm := metadata
	realm.role = endpoints.RoleToken
	require.Nil(t, s.find(realm))

	s.d.allow = DenyPlatformAddrs
	for role, denied := range map[endpoints.Role]bool{endpoints.RoleCredential: false, endpoints.RoleToken: true} {
		own := metadata
		own.role = role
		l := &lane{e: s.newLadder(own, approach{})}
		_, got := l.denied(pull.Step{ID: StepRoute}, netip.MustParseAddr("169.254.169.254"))
		require.Equal(t, denied, got, role)
	}
}
