package endpoints

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/noderuntime"
)

// A layer's own place may be the registry's host: containerd asks it there without
// the registry's settings, and so over no connection that they made trusted.
func TestForeignPlaceAtTheRegistry(t *testing.T) {
	t.Parallel()
	tr := &trip{c: &Checker{}, src: noderuntime.Source{File: "/etc/containerd/certs.d/registry.corp.test/hosts.toml"}, pools: map[string]*host{}, files: noderuntime.Open(nil, "", "")}
	u, err := url.Parse("https://registry.corp.test/layer")
	require.NoError(t, err)
	at := func(name string) *host {
		tr.files = noderuntime.Open(nil, name, "")
		h, err := tr.poolWith(&ledger{}, tr.foreign(), u, RoleBlob, "the manifest")
		require.NoError(t, err)
		return h
	}
	registry, err := tr.pool(&ledger{}, u, RoleManifest, "the image name")
	require.NoError(t, err)
	require.Same(t, registry, at("crio"))
	require.NotSame(t, registry, at("containerd"))
}
