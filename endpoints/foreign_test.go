package endpoints

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// A layer's own place may be the registry's host: containerd asks it there without
// the registry's settings, and so over no connection that they made trusted.
func TestForeignPlaceAtTheRegistry(t *testing.T) {
	t.Parallel()
	ref, err := registry.ParseReference("registry.corp.test/app")
	require.NoError(t, err)
	src := noderuntime.Source{File: "/etc/containerd/certs.d/registry.corp.test/hosts.toml"}
	w := (&Checker{}).walk(&Map{}, src, noderuntime.Open(nil, "", ""), ref, registry.Platform{})
	at := func(role registry.Role, ownRoots bool) *pull.Host {
		return w.run.Host(t.Context(), pull.Target{Scheme: "https", Host: "registry.corp.test", Port: 443, Role: role, OwnRoots: ownRoots})
	}
	manifests := at(RoleManifest, false)
	require.Same(t, manifests, at(RoleBlob, false))
	require.NotSame(t, manifests, at(RoleBlob, true))
	require.Empty(t, w.settings(true).File)
	require.Equal(t, src.File, w.settings(false).File)
}
