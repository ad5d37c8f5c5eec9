package endpoints

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// A layer's own place may be the registry's host: containerd asks it there without
// the registry's settings, and so over no connection that they made trusted.
func TestForeignPlaceAtTheRegistry(t *testing.T) {
	t.Parallel()
	tr := &trip{c: &Checker{}, src: Source{File: "/etc/containerd/certs.d/registry.corp.test/hosts.toml"}, pools: map[string]*host{}}
	u, err := url.Parse("https://registry.corp.test/layer")
	require.NoError(t, err)
	at := func(way Way) *host {
		tr.way = way
		h, err := tr.poolWith(&ledger{}, tr.foreign(), u, RoleBlob, "the manifest")
		require.NoError(t, err)
		return h
	}
	registry, err := tr.pool(&ledger{}, u, RoleManifest, "the image name")
	require.NoError(t, err)
	require.Same(t, registry, at(WayCRIO))
	require.NotSame(t, registry, at(WayContainerd))
}
