package endpoints

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What another runtime is told about the registry changes where the pull goes:
// it must not be passed over in silence.
func TestUnmodelled(t *testing.T) {
	t.Parallel()
	ref, err := ParseReference("registry.corp.test/team/app:v1")
	require.NoError(t, err)
	node := fstest.MapFS{
		"etc/containers/registries.conf.d/50-corp.conf":                                  {Data: []byte("[[registry]]\nprefix = \"registry.corp.test\"\n")},
		"etc/docker/daemon.json":                                                         {Data: []byte(`{"insecure-registries":["registry.corp.test"]}`)},
		"var/lib/rancher/k3s/agent/etc/containerd/certs.d/registry.corp.test/hosts.toml": {Data: []byte("server = \"https://mirror.corp.test\"\n")},
	}
	for _, runtime := range []string{"crio", "dockerd", "k3s-server"} {
		err := Unmodelled(node, runtime, ref)
		assert.ErrorIs(t, err, errors.ErrUnsupported, runtime)
	}
	assert.NoError(t, Unmodelled(node, "containerd", ref), "its configuration is read")
	assert.NoError(t, Unmodelled(node, "", ref), "files of a runtime that does not run")
	assert.NoError(t, Unmodelled(nil, "crio", ref))
	other, err := ParseReference("other.corp.test/team/app:v1")
	require.NoError(t, err)
	assert.NoError(t, Unmodelled(node, "crio", other))
}
