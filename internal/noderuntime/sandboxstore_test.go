package noderuntime

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/registry"
)

func referenceTo(t *testing.T, image string) registry.Reference {
	t.Helper()
	ref, err := registry.ParseReference(image)
	require.NoError(t, err)
	return ref
}

// treeOf keeps a nil tree nil.
func treeOf(node fstest.MapFS) fs.FS {
	if node == nil {
		return nil
	}
	return node
}

func TestSandboxStored(t *testing.T) {
	t.Parallel()
	ref := referenceTo(t, "registry.corp.test/pause:3.9")
	other := referenceTo(t, "registry.corp.test/pause:3.10")
	const metadataFile = "io.containerd.metadata.v1.bolt/meta.db"
	const db = "var/lib/containerd/" + metadataFile
	// Somewhere in a bolt database, a name across the parts in which it is read.
	database := func(name string) *fstest.MapFile {
		return file(strings.Repeat("\x00", 16) + "\xed\xda\x0c\xed" + strings.Repeat("x", 256<<10-30) + name + strings.Repeat("y", 5000))
	}
	const list = "var/lib/containers/storage/overlay-images/images.json"
	have := file(`[{"id":"a"},{"names":["registry.corp.test/pause:3.9"]}]`)
	for name, tt := range map[string]struct {
		runtime string
		node    fstest.MapFS
		ref     registry.Reference
		want    bool
		err     string
	}{
		"containerd has it":          {"containerd", fstest.MapFS{db: database(ref.String())}, ref, false, "names registry.corp.test/pause:3.9"},
		"containerd has another":     {"containerd", fstest.MapFS{db: database(ref.String())}, other, false, ""},
		"containerd, root elsewhere": {"containerd", fstest.MapFS{"etc/containerd/config.toml": file(`root = "/data"`), "data/" + metadataFile: database(ref.String())}, ref, false, "names registry.corp.test/pause:3.9"},
		"containerd, no list":        {"containerd", fstest.MapFS{}, ref, false, "is not there"},
		"containerd, a broken list":  {"containerd", fstest.MapFS{db: file("x")}, ref, false, "no bolt database"},
		"containerd, no config":      {"containerd", fstest.MapFS{"etc/containerd/config.toml": file("["), db: database(ref.String())}, ref, false, "config.toml"},
		"CRI-O has it":               {"crio", fstest.MapFS{list: have}, ref, true, ""},
		"CRI-O has another":          {"crio", fstest.MapFS{list: have}, other, false, ""},
		"CRI-O, no list":             {"crio", fstest.MapFS{}, ref, false, "is not there"},
		"CRI-O, a broken list":       {"crio", fstest.MapFS{list: file("{")}, ref, false, "no JSON"},
		"CRI-O, graphroot":           {"crio", fstest.MapFS{"etc/containers/storage.conf": file("[storage]\ngraphroot='/data'\n"), "data/overlay-images/images.json": have}, ref, true, ""},
		"CRI-O, its own root": {"crio", fstest.MapFS{"etc/containers/storage.conf": file("[storage]\ngraphroot='/data'\n"), "etc/crio/crio.conf": file("[crio]\nroot='/own'\n"),
			"data/overlay-images/images.json": have, "own/overlay-images/images.json": file("[]")}, ref, false, ""},
		"CRI-O, a store of the system image": {"crio", fstest.MapFS{"etc/containers/storage.conf": file("[storage.options]\nadditionalimagestores=['/ro']\n"), list: file("[]"), "ro/overlay-images/images.json": have}, ref, true, ""},
		"CRI-O, broken settings":             {"crio", fstest.MapFS{"etc/containers/storage.conf": file("["), list: file("[]")}, ref, false, "storage.conf"},
		"no tree":                            {"containerd", nil, ref, false, "no list of images"},
	} {
		got, err := Open(treeOf(tt.node), tt.runtime, "").Stored(tt.ref)
		assert.Equal(t, tt.want, got, name)
		if tt.err == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, tt.err, name)
		}
	}
}

func TestSandboxLogin(t *testing.T) {
	t.Parallel()
	containerd := fstest.MapFS{"etc/containerd/config.toml": file(`version = 2
[plugins."io.containerd.grpc.v1.cri".registry.configs."a.corp.test".auth]
username = "u"
password = "s3cr3t"
[plugins."io.containerd.grpc.v1.cri".registry.auths."https://old.corp.test".auth]
[plugins."io.containerd.grpc.v1.cri".registry.auths."https://older.corp.test"]
auth = "dTpw"
`)}
	auths := file(`{"auths":{"a.corp.test":{"auth":"host"},"a.corp.test/team":{"auth":"team"},"b.corp.test/x":{"identitytoken":"t"}}}`)
	crio := fstest.MapFS{"etc/auth.json": auths, "root/.docker/config.json": file(`{"auths":{"c.corp.test":{"auth":"docker"}}}`), "bad.json": file(`{"auths":"s3cr3t"`)}
	for _, tt := range []struct {
		runtime          string
		node             fstest.MapFS
		authFile         string
		host, repository string
		want             authn.AuthConfig
		file             string
	}{
		{"containerd", containerd, "", "a.corp.test", "x", authn.AuthConfig{Username: "u", Password: "s3cr3t"}, "/etc/containerd/config.toml"},
		{"containerd", containerd, "", "older.corp.test", "x", authn.AuthConfig{Auth: "dTpw"}, "/etc/containerd/config.toml"},
		{"containerd", containerd, "", "b.corp.test", "x", authn.AuthConfig{}, ""},
		{"crio", crio, "/etc/auth.json", "a.corp.test", "team/app", authn.AuthConfig{Auth: "team"}, "/etc/auth.json"},
		{"crio", crio, "/etc/auth.json", "a.corp.test", "teams/app", authn.AuthConfig{Auth: "host"}, "/etc/auth.json"},
		{"crio", crio, "/etc/auth.json", "b.corp.test", "x", authn.AuthConfig{IdentityToken: "t"}, "/etc/auth.json"},
		{"crio", crio, "/etc/auth.json", "c.corp.test", "x", authn.AuthConfig{}, ""},
		{"crio", crio, "", "c.corp.test", "x", authn.AuthConfig{Auth: "docker"}, "/root/.docker/config.json"},
		{"crio", nil, "", "c.corp.test", "x", authn.AuthConfig{}, ""},
	} {
		login, from, err := Open(treeOf(tt.node), tt.runtime, "").Login(tt.host, tt.repository, tt.authFile)
		require.NoError(t, err)
		assert.Equal(t, tt.want, login)
		assert.Equal(t, tt.file, from)
	}
	_, _, err := Open(crio, "crio", "").Login("a", "b", "/bad.json")
	require.Error(t, err)
	assert.NotContains(t, fmt.Sprintf("%+v", err), "s3cr3t")

	global := fstest.MapFS{"etc/crio/crio.conf": file("[crio.image]\npause_image='a'\nglobal_auth_file='/g.json'\n")}
	s, err := Open(global, "crio", "").Sandbox()
	require.NoError(t, err)
	require.NotEmpty(t, s.Image)
	assert.Equal(t, "/g.json", s.AuthFile)
}
