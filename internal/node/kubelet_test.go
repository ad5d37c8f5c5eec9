package node

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/tlsauth"
)

// pluginNode is a node whose kubelet has one plugin, which lies at dir on this
// machine, too.
func pluginNode(dir string) fstest.MapFS {
	tree := fstest.MapFS{}
	link := func(name, to string) {
		tree[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
	}
	for _, process := range []string{"self", "1", "700"} {
		link("proc/"+process+"/ns/net", "net:[4026531840]")
		link("proc/"+process+"/ns/pid", "pid:[4026531836]")
		link("proc/"+process+"/ns/mnt", "mnt:[4026531841]")
	}
	tree["proc/700/status"] = &fstest.MapFile{Data: []byte("Uid:\t0\t0\t0\t0\n")}
	tree["proc/700/stat"] = &fstest.MapFile{Data: []byte("700 (x) S 1 1 1 0 -1 0 1 0 0 0 1 2 0 0 20 0 9 0 9050 1 1 1\n")}
	link("proc/700/exe", "/usr/bin/kubelet")
	tree["usr/bin/kubelet"] = &fstest.MapFile{Mode: 0o755}
	tree["proc/700/comm"] = &fstest.MapFile{Data: []byte("kubelet\n")}
	tree["proc/700/cmdline"] = &fstest.MapFile{Data: []byte("kubelet\x00--image-credential-provider-config=/providers.yaml\x00--image-credential-provider-bin-dir=" + dir + "\x00")}
	tree["proc/700/environ"] = &fstest.MapFile{Data: []byte("PATH=/usr/bin:/bin\x00ZONE=west\x00")}
	tree["providers.yaml"] = &fstest.MapFile{Data: []byte(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: corp-provider
  matchImages: ["*.corp.test"]
  defaultCacheDuration: 10m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: ["--verbose"]
  env: [{name: TENANT, value: corp}]
`)}
	tree[filepath.ToSlash(filepath.Join(dir, "corp-provider"))[1:]] = &fstest.MapFile{Mode: 0o755}
	return tree
}

func installPlugin(t *testing.T, dir, body string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "corp-provider"), []byte("#!/bin/sh\n"+body), 0o755))
}

// A plugin runs as the kubelet runs it, once per question, and only from the
// node's own root.
func TestPluginsAreRunAsTheKubeletDoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	count := filepath.Join(dir, "runs")
	installPlugin(t, dir, `echo run >>`+count+`
cat >/dev/null
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","auth":{"registry.corp.test":{"username":"'$TENANT-$ZONE$1'","password":"from-plugin"}}}'
`)
	k := (&View{Node: Node{FS: pluginNode(dir)}, ownRoot: true}).Kubelet(nil, true)
	require.Empty(t, k.Unseen)
	for range 3 {
		creds, err := k.Credentials(t.Context(), "registry.corp.test/team/app:v1")
		require.NoError(t, err)
		require.Len(t, creds, 1)
		require.Equal(t, "corp-west--verbose", creds[0].Authn.Username)
		require.Equal(t, "from-plugin", creds[0].Authn.Password)
	}
	runs, err := os.ReadFile(count)
	require.NoError(t, err)
	require.Equal(t, "run\n", string(runs))
	for _, format := range []string{"%v", "%+v", "%#v"} {
		require.NotContains(t, fmt.Sprintf(format, k), "from-plugin")
	}

	mounted := (&View{Node: Node{FS: pluginNode(dir)}}).Kubelet(nil, true)
	require.Nil(t, mounted.RunPlugin)
	plan, err := mounted.Plan(t.Context(), "registry.corp.test/team/app:v1")
	require.NoError(t, err)
	require.Contains(t, plan.Inconclusive, "own root only")

	elsewhere := pluginNode(dir)
	elsewhere["proc/700/ns/mnt"] = &fstest.MapFile{Data: []byte("mnt:[1]"), Mode: fs.ModeSymlink | 0o777}
	other := (&View{Node: Node{FS: elsewhere}, ownRoot: true}).Kubelet(nil, true)
	require.Nil(t, other.RunPlugin, "a path of another file tree means another program here")
	require.NotEmpty(t, other.Unseen)
}

// What a plugin says when it fails is told without its secrets, and one that lies
// outside the kubelet's directory is not started.
func TestPluginsThatFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	installPlugin(t, dir, `echo "dial tcp: lookup login.corp.test on 10.20.0.2:53: no such host" >&2; exit 1`)
	k := (&View{Node: Node{FS: pluginNode(dir)}, ownRoot: true}).Kubelet(nil, true)
	plan, err := k.Plan(t.Context(), "registry.corp.test/team/app:v1")
	require.NoError(t, err)
	require.Empty(t, plan.Offered)
	require.NotEmpty(t, plan.Findings())
	require.Contains(t, plan.Findings()[0].Summary, "no such host")

	p := &plugins{dir: dir}
	for _, path := range []string{"/bin/true", dir + "/../true", dir + "/sub/corp-provider", "corp-provider", ""} {
		_, err := p.RunPlugin(t.Context(), tlsauth.PluginCall{Path: path})
		require.ErrorContains(t, err, "not below", path)
	}
	_, err = (&plugins{}).RunPlugin(t.Context(), tlsauth.PluginCall{Path: "/bin/true"})
	require.Error(t, err, "no directory is configured")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.RunPlugin(ctx, tlsauth.PluginCall{Path: dir + "/corp-provider"})
	require.ErrorIs(t, err, context.Canceled)
	for _, c := range p.calls {
		require.False(t, c.answered, "what was not heard to its end is not kept")
	}
}

// A plugin that is slow for one image keeps no other image waiting: each waits here
// until the other has begun.
func TestPluginsOfManyImages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	installPlugin(t, dir, `echo run >>`+dir+`/runs
cat >/dev/null
while [ "$(wc -l <`+dir+`/runs)" -lt 2 ]; do sleep 0.01; done
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","auth":{"registry.corp.test":{"username":"u","password":"p"}}}'
`)
	k := (&View{Node: Node{FS: pluginNode(dir)}, ownRoot: true}).Kubelet(nil, true)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, image := range []string{"registry.corp.test/team/app:v1", "registry.corp.test/team/other:v1"} {
		all.Go(func() {
			creds, err := k.Credentials(ctx, image)
			assert.NoError(t, err)
			assert.Len(t, creds, 1)
		})
	}
	all.Wait()
}
