package noderuntime

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

func runtimeSources(t *testing.T, fsys fstest.MapFS, runtime, config, image string) ([]Source, []classify.Finding) {
	ref, err := registry.ParseReference(image)
	require.NoError(t, err)
	sources, findings, err := Open(fsys, runtime, config).Sources(ref)
	require.NoError(t, err)
	return sources, findings
}

func TestRegistriesConf(t *testing.T) {
	t.Parallel()
	ca := testRoot(t)
	cert, key := testPair(t)
	node := fstest.MapFS{
		"etc/containers/registries.conf": file(`
unqualified-search-registries = ["docker.io"]
[[registry]]
prefix = "registry.corp.test"
location = "old.corp.test"
[[registry]]
prefix = "registry.corp.test/team"
location = "new.corp.test/group"
[[registry.mirror]]
location = "mirror.corp.test:5000/cache"
insecure = true
[[registry.mirror]]
location = "digests.corp.test"
pull-from-mirror = "digest-only"
[[registry]]
prefix = "*.example.test"
blocked = true
`),
		"etc/containers/registries.conf.d/10-corp.conf":    file("[[registry]]\nprefix = \"registry.corp.test\"\nlocation = \"drop-in.corp.test\"\n"),
		"etc/containers/certs.d/new.corp.test/ca.crt":      {Data: ca},
		"etc/containers/certs.d/new.corp.test/client.cert": {Data: cert},
		"etc/containers/certs.d/new.corp.test/client.key":  {Data: key},
	}
	s, f := runtimeSources(t, node, "crio", "", "registry.corp.test/team/app:1")
	assert.Empty(t, f)
	require.Equal(t, []string{"http://mirror.corp.test:5000/v2", "https://digests.corp.test/v2", "https://new.corp.test/v2"}, bases(s))
	assert.True(t, s[0].HTTPSFirst && s[0].SkipVerify)
	assert.Equal(t, []string{"cache/app", "app", "group/app"}, []string{s[0].Repository, s[1].Repository, s[2].Repository})
	assert.Equal(t, []string{CapabilityPull}, s[1].Capabilities)
	assert.Equal(t, CredentialNone, s[0].Credential)
	assert.Empty(t, s[0].Namespace, "ns= is containerd's")
	assert.Equal(t, [][]byte{ca}, s[2].CA)
	assert.Len(t, s[2].Certificates, 1)
	assert.EqualValues(t, 30_000, s[0].DeadMS)
	ref, err := registry.ParseReference("registry.corp.test/team/app:1")
	require.NoError(t, err)
	w := s[0].Walk(ref, Of("crio", "").Client)
	assert.Equal(t, "http://mirror.corp.test:5000/v2/cache/app/manifests/1", w.Resolve(t.Context(), reply(404, nil, nil), "GET").URL)

	s, _ = runtimeSources(t, node, "crio", "", "registry.corp.test/teamwork/app:1")
	assert.Equal(t, []string{"https://drop-in.corp.test/v2"}, bases(s), "a prefix ends at a component, and a drop-in wins")
	s, _ = runtimeSources(t, node, "crio", "", "other.corp.test/app")
	assert.Equal(t, []string{"https://other.corp.test/v2"}, bases(s))
	_, f = runtimeSources(t, node, "crio", "", "a.example.test/app")
	require.Equal(t, []classify.Cause{classify.NodeRegistryBlocked}, causes(f))
	assert.Equal(t, classify.SeverityFail, f[0].Severity)
	_, f = runtimeSources(t, node, "crio", "", "busybox")
	assert.Empty(t, f)
	delete(node, "etc/containers/registries.conf")
	_, f = runtimeSources(t, node, "crio", "", "busybox")
	assert.Equal(t, []classify.Cause{classify.ImageShortNameUnresolved}, causes(f))

	delete(node, "etc/containers/certs.d/new.corp.test/client.key")
	node["etc/containers/registries.conf"] = file("[registries.insecure]\nregistries = ['new.corp.test']\n")
	s, f = runtimeSources(t, node, "crio", "", "new.corp.test/app")
	require.Equal(t, []classify.Cause{classify.NodeRuntimeConfigInvalid}, causes(f), "a certificate without its key stops every pull")
	assert.True(t, s[0].HTTPSFirst, "the older form of the file")

	node["etc/containers/registries.conf"] = file("[[registry")
	_, f = runtimeSources(t, node, "crio", "", "registry.corp.test/app")
	require.Equal(t, []classify.Cause{classify.NodeRuntimeConfigInvalid}, causes(f))
	assert.Equal(t, classify.CertaintyLikely, f[0].Certainty)
}

func TestDaemonJSON(t *testing.T) {
	t.Parallel()
	node := fstest.MapFS{
		"etc/docker/daemon.json":                 file(`{"registry-mirrors":["https://mirror.corp.test/"],"insecure-registries":["10.20.0.0/16","lab.corp.test:5000"]}`),
		"etc/docker/certs.d/docker.io/ca.crt":    {Data: testRoot(t)},
		"etc/docker/certs.d/lab.corp.test:5000/": {Mode: 0o755 | 1<<31},
	}
	s, f := runtimeSources(t, node, "dockerd", "", "busybox")
	assert.Empty(t, f)
	assert.Equal(t, []string{"https://mirror.corp.test/v2", "https://registry-1.docker.io/v2"}, bases(s))
	assert.Equal(t, CredentialNone, s[0].Credential)
	assert.Len(t, s[1].CA, 1)
	for image, insecure := range map[string]bool{"10.20.0.4:5000/app": true, "lab.corp.test:5000/app": true, "lab.corp.test/app": false, "localhost:5000/app": true} {
		s, f := runtimeSources(t, node, "dockerd", "", image)
		assert.Len(t, s, 1, image)
		assert.Equal(t, insecure, s[0].SkipVerify && s[0].HTTPSFirst, image)
		require.Len(t, f, 1, "mirrors do not count for it")
		assert.Equal(t, classify.SeverityInfo, f[0].Severity)
	}
	ref, err := registry.ParseReference("busybox")
	require.NoError(t, err)
	_, _, err = Open(fstest.MapFS{"etc/docker/daemon.json": file("{")}, "dockerd", "").Sources(ref)
	assert.Error(t, err, "what the daemon was started with is not known")
}

func TestRancher(t *testing.T) {
	t.Parallel()
	yaml := file("mirrors:\n  registry.corp.test:\n    endpoint: [mirror.corp.test]\nconfigs:\n  mirror.corp.test:\n    tls:\n      insecure_skip_verify: true\n")
	never := fstest.MapFS{"etc/rancher/k3s/registries.yaml": yaml}
	s, f := runtimeSources(t, never, "k3s-server", "", "registry.corp.test/app")
	assert.Empty(t, f)
	assert.Equal(t, []string{"https://mirror.corp.test/v2", "https://registry.corp.test/v2"}, bases(s))
	assert.True(t, s[0].SkipVerify)

	const dir = "var/lib/rancher/k3s/agent/etc/containerd/"
	started := fstest.MapFS{
		"etc/rancher/k3s/registries.yaml":          yaml,
		dir + "config.toml":                        file("version = 3\n[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = '/" + dir + "certs.d'\n"),
		dir + "certs.d/other.corp.test/hosts.toml": file("[host.'https://hub.corp.test']\n[host.'https://hub.corp.test'.rewrite]\n'^team/(.*)' = 'proxy/$1'\n"),
	}
	s, f = runtimeSources(t, started, "k3s-agent", "", "registry.corp.test/app")
	assert.Equal(t, []string{"https://registry.corp.test/v2"}, bases(s), "what was generated is in force")
	assert.Equal(t, []classify.Cause{classify.NodeRuntimeConfigIgnored}, causes(f))
	for _, runtime := range []string{"k3s-agent", "containerd"} { // its containerd is a process of its own
		s, f = runtimeSources(t, started, runtime, "/"+dir+"config.toml", "other.corp.test/team/app")
		assert.Empty(t, f)
		require.Equal(t, []string{"https://hub.corp.test/v2", "https://other.corp.test/v2"}, bases(s))
		assert.Equal(t, "proxy/app", s[0].Repository)
	}
	_, f = runtimeSources(t, fstest.MapFS{"etc/rancher/rke2/registries.yaml": file("mirrors: [")}, "rke2", "", "registry.corp.test/app")
	assert.Equal(t, []classify.Cause{classify.NodeRuntimeConfigIgnored}, causes(f))
}

func TestDelay(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 270*time.Second, Of("containerd", "").Delay(Source{}, 15))
	assert.Equal(t, 30*time.Second, Of("crio", "").Delay(Source{}, 15))
	assert.Equal(t, 8*time.Second, Of("containerd", "").Delay(Source{DialTimeoutMS: 2000}, 0))
}

func FuzzSourcesOf(f *testing.F) {
	f.Add([]byte("[[registry]]\nprefix='registry.corp.test'\nlocation='a/b'\n[[registry.mirror]]\nlocation='c'\n"), "crio")
	f.Add([]byte(`{"registry-mirrors":["https://a"],"insecure-registries":["10.0.0.0/8"]}`), "dockerd")
	f.Add([]byte("mirrors:\n  '*':\n    endpoint: [a, 'http://b']\n    rewrite: {x: y}\nconfigs: {registry.corp.test: {tls: {ca_file: /x}}}\n"), "k3s-server")
	f.Add([]byte("imports=['*']\n[plugins.cri.registry.mirrors.'*']\nendpoint=['https://a/v2']\n"), "containerd")
	f.Fuzz(func(t *testing.T, data []byte, runtime string) {
		node := fstest.MapFS{}
		for _, name := range []string{"etc/containers/registries.conf", "etc/docker/daemon.json", "etc/rancher/k3s/registries.yaml", "etc/containerd/config.toml"} {
			node[name] = &fstest.MapFile{Data: data}
		}
		ref, _ := registry.ParseReference("registry.corp.test/team/app:1")
		sources, _, _ := Open(node, runtime, "").Sources(ref)
		if len(sources) == 0 || len(sources) > maxSources+1 {
			t.Fatalf("%d sources", len(sources))
		}
		for i, s := range sources {
			if s.Base == nil || s.Host == "" || s.Last != (i == len(sources)-1) || s.Credential == "" {
				t.Fatalf("%+v", s)
			}
		}
	})
}

// A short name is what an alias or the search list makes of it; without either
// there is no pull.
func TestShortNames(t *testing.T) {
	t.Parallel()
	const conf, cache = "etc/containers/registries.conf", "var/cache/containers/short-name-aliases.conf"
	for _, tt := range []struct {
		name, image string
		files       map[string]string
		want        classify.Severity // "" = nothing is said
		unknown     bool
	}{
		{"no list, no alias", "app:v1", map[string]string{conf: ""}, classify.SeverityFail, false},
		{"no file at all", "app", nil, classify.SeverityFail, false},
		{"Docker Hub alone is searched", "app:v1", map[string]string{conf: `unqualified-search-registries = ["docker.io"]`}, "", false},
		{"others are searched", "app:v1", map[string]string{conf: `unqualified-search-registries = ["registry.corp.test", "docker.io"]`}, classify.SeverityWarn, true},
		{"an alias elsewhere", "app:v1", map[string]string{"etc/containers/registries.conf.d/000.conf": "[aliases]\n\"app\" = \"registry.corp.test/base/app\""}, classify.SeverityWarn, true},
		{"an alias for Docker Hub", "app:v1", map[string]string{cache: "[aliases]\n\"app\" = \"docker.io/library/app\""}, "", false},
		{"a full name", "registry.corp.test/app:v1", nil, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			node := fstest.MapFS{}
			for path, text := range tt.files {
				node[path] = &fstest.MapFile{Data: []byte(text)}
			}
			ref, err := registry.ParseReference(tt.image)
			require.NoError(t, err)
			_, findings, err := Open(node, "crio", "").Sources(ref)
			require.Equal(t, tt.unknown, err != nil, err)
			if tt.want == "" {
				require.Empty(t, findings)
				return
			}
			require.Len(t, findings, 1)
			require.Equal(t, classify.ImageShortNameUnresolved, findings[0].Cause)
			require.Equal(t, tt.want, findings[0].Severity)
		})
	}
}
