package noderuntime

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
)

func TestAskedByKubelet(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n":                                                   "containerd",
		"containerRuntimeEndpoint: unix:///var/run/crio/crio.sock\n":                                                           "crio",
		"containerRuntimeEndpoint: unix:///run/cri-dockerd.sock\n":                                                             "dockerd",
		"containerRuntimeEndpoint: unix:///run/k3s/containerd/containerd.sock\n":                                               "containerd",
		"containerRuntimeEndpoint: unix:///run/crio/crio.sock\nimageServiceEndpoint: unix:///run/containerd/containerd.sock\n": "containerd",
		"containerRuntimeEndpoint: unix:///run/other.sock\n":                                                                   "",
		"containerRuntimeEndpoint: [1, 2]\n":                                                                                   "",
		"\t not yaml":                                                                                                          "",
		"":                                                                                                                     "",
	} {
		tree := fstest.MapFS{kubeletConfig: {Data: []byte(config)}}
		assert.Equal(t, want, askedByKubelet(tree, nil), config)
	}
	assert.Empty(t, askedByKubelet(fstest.MapFS{}, nil))
}
