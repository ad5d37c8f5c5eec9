package noderuntime

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

func TestJudgeProxy(t *testing.T) {
	t.Parallel()
	registry := ProxiedURL{&url.URL{Scheme: "https", Host: "registry.corp.test"}, []netip.Addr{netip.MustParseAddr("10.20.0.4")}}
	port := ProxiedURL{&url.URL{Scheme: "https", Host: "registry.corp.test:5000"}, nil}
	const p = "http://proxy.corp.test:3128"
	for _, tt := range []struct {
		env  map[string]string
		host ProxiedURL
		want string // "" = nothing to say
	}{
		{nil, registry, ""},
		{map[string]string{"HTTPS_PROXY": p}, registry, ""},
		{map[string]string{"HTTPS_PROXY": p, "NO_PROXY": "registry.corp.test"}, registry, ""},
		{map[string]string{"HTTPS_PROXY": p, "NO_PROXY": "*.corp.test"}, registry, ""},
		{map[string]string{"HTTPS_PROXY": p, "NO_PROXY": "10.0.0.0/8,192.168.0.0/16"}, registry, "a range matches only an address"},
		{map[string]string{"HTTPS_PROXY": p, "NO_PROXY": "192.168.0.0/16"}, registry, ""},
		{map[string]string{"HTTPS_PROXY": p, "NO_PROXY": "10.20.0.4"}, registry, "an address matches only"},
		{map[string]string{"HTTPS_PROXY": p, "NO_PROXY": ".registry.corp.test"}, registry, "leading dot"},
		{map[string]string{"HTTPS_PROXY": p, "NO_PROXY": "localhost registry.corp.test"}, registry, "commas"},
		{map[string]string{"HTTPS_PROXY": p, "NO_PROXY": "https://registry.corp.test/"}, registry, "no URL"},
		{map[string]string{"HTTPS_PROXY": p, "NO_PROXY": "reg*.corp.test"}, registry, "asterisk"},
		{map[string]string{"HTTPS_PROXY": p, "NO_PROXY": "registry.corp.test:443"}, port, "its port is another"},
		{map[string]string{"HTTP_PROXY": p}, registry, "HTTPS_PROXY is not"},
		{map[string]string{"HTTPS_PROXY": "https://user:hunter2@proxy.corp.test"}, registry, "speaks TLS"},
		{map[string]string{"HTTPS_PROXY": "http://proxy.corp.test:31 28 hunter2"}, registry, "no address"},
		{map[string]string{"HTTPS_PROXY": p, "https_proxy": "http://other"}, registry, "differ"},
	} {
		fs := JudgeProxy(tt.env, tt.host)
		if tt.want == "" {
			assert.Empty(t, fs, tt.env)
			continue
		}
		require.Equal(t, []classify.Cause{classify.NodeProxySettingsDoubtful}, causes(fs), "%v", tt.env)
		assert.Equal(t, classify.SeverityWarn, fs[0].Severity)
		assert.Contains(t, fs[0].Summary, tt.want)
		assert.NotContains(t, fmt.Sprint(fs), "hunter2")
	}
}

func FuzzJudgeProxy(f *testing.F) {
	f.Add("http://p:1", "10.0.0.0/8, .a, b c, *x*, http://d", "registry.corp.test")
	f.Add("::", ":", "[::1]:5000")
	f.Fuzz(func(t *testing.T, proxy, no, host string) {
		u, err := url.Parse("https://" + host)
		if err != nil {
			t.Skip()
		}
		for _, finding := range JudgeProxy(map[string]string{"HTTPS_PROXY": proxy, "NO_PROXY": no}, ProxiedURL{u, []netip.Addr{netip.MustParseAddr("10.1.2.3")}}) {
			if len(finding.Summary) > 1000+2*len(host) || strings.Contains(finding.Summary, "\n") && !strings.Contains(host, "\n") {
				t.Fatal(finding.Summary)
			}
		}
	})
}

func TestSandboxImage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		runtime string
		node    fstest.MapFS
		image   string
		file    string
	}{
		{"containerd", fstest.MapFS{"etc/containerd/config.toml": file("version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nsandbox_image = 'registry.corp.test/pause:3.9'\n")}, "registry.corp.test/pause:3.9", "/etc/containerd/config.toml"},
		{"", fstest.MapFS{"etc/containerd/config.toml": file("version = 3\nimports=['/x.toml']\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'a/b:1'\n"), "x.toml": file("[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'c/d:2'\n")}, "c/d:2", "/x.toml"},
		{"crio", fstest.MapFS{"etc/crio/crio.conf": file("[crio.image]\npause_image='a'\npause_image_auth_file='/etc/auth.json'\n"), "etc/crio/crio.conf.d/10.conf": file("[crio.image]\npause_image='b'\n")}, "b", "/etc/crio/crio.conf.d/10.conf"},
		{"containerd", fstest.MapFS{}, "", ""},
		{"dockerd", fstest.MapFS{}, "", ""},
		{"containerd", nil, "", ""},
	} {
		s, err := Open(treeOf(tt.node), tt.runtime, "").Sandbox()
		require.NoError(t, err)
		assert.Equal(t, tt.image, s.Image)
		assert.Equal(t, tt.file, s.File)
		if tt.runtime == "crio" {
			assert.Equal(t, "/etc/auth.json", s.AuthFile)
		}
	}
	_, err := Open(fstest.MapFS{"etc/crio/crio.conf": file("[")}, "crio", "").Sandbox()
	assert.Error(t, err)
	env, err := Open(fstest.MapFS{"etc/docker/daemon.json": file(`{"proxies":{"https-proxy":"http://p:1","no-proxy":"a"}}`)}, "dockerd", "").Proxy()
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a"}, env)
}
