package noderuntime

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// Which file of the runtime's own speaks for an image that the kubelet hands no
// credential over for.
func TestOwnLogin(t *testing.T) {
	t.Parallel()
	const (
		crio   = "[crio.image]\npause_image_auth_file = \"/etc/crio/pause.json\"\n"
		global = crio + "global_auth_file = \"/etc/crio/all.json\"\n"
		conf   = "[plugins.\"io.containerd.grpc.v1.cri\".registry.configs.\"registry.corp.test\".auth]\nusername = \"own\"\npassword = \"p\"\n"
		auths  = `{"auths": {"registry.corp.test": {"auth": "b3duOnA="}}}`
	)
	for _, tt := range []struct {
		name, runtime string
		node          map[string]string
		file          string // "" = none
		fails         bool
	}{
		{"containerd's table", "containerd", map[string]string{"etc/containerd/config.toml": conf}, "/etc/containerd/config.toml", false},
		{"without one", "containerd", map[string]string{"etc/containerd/config.toml": "version = 3"}, "", false},
		{"docker's daemon has none", "dockerd", map[string]string{"etc/containerd/config.toml": conf, "root/.docker/config.json": auths}, "", false},
		{"CRI-O's file for all", "crio", map[string]string{"etc/crio/crio.conf": global, "etc/crio/all.json": auths}, "/etc/crio/all.json", false},
		{"that of the sandbox image is for it alone", "crio", map[string]string{"etc/crio/crio.conf": crio, "etc/crio/pause.json": auths}, "", false},
		{"the file of root", "crio", map[string]string{"root/.docker/config.json": auths}, "/root/.docker/config.json", false},
		{"a file that is no JSON", "crio", map[string]string{"etc/crio/crio.conf": global, "etc/crio/all.json": "s3cr3t"}, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			node := fstest.MapFS{}
			for path, text := range tt.node {
				node[path] = &fstest.MapFile{Data: []byte(text)}
			}
			login, file, err := Open(node, tt.runtime, "").Login("registry.corp.test", "team/app", "")
			require.Equal(t, tt.fails, err != nil, err)
			require.Equal(t, tt.file, file)
			require.Equal(t, tt.file != "", login.Auth != "" || login.Username != "")
			if err != nil {
				require.NotContains(t, err.Error(), "s3cr3t")
			}
		})
	}
	_, file, err := Open(nil, "containerd", "").Login("registry.corp.test", "team/app", "")
	require.NoError(t, err)
	require.Empty(t, file)
}
