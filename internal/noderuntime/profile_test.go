package noderuntime

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// zeroes says of each field of a profile that is empty why it may be. Whoever adds a
// runtime comes by here.
var zeroes = map[string]string{
	"podman.Processes": "it is no daemon", "podman.Sockets": "the kubelet does not talk to it",
	"podman.sandbox": "its pods have none", "podman.stored": "its pods have no sandbox image",
	"k3s.Sockets": "that of its containerd", "rke2.Sockets": "that of its containerd",
	"containerd.Marks": "it has no containerd inside", "crio.Marks": "it has no containerd inside",
	"dockerd.Marks": "its containerd pulls nothing", "podman.Marks": "it has no containerd inside",
	"containerd.Wraps": "it pulls itself", "crio.Wraps": "it pulls itself", "dockerd.Wraps": "it pulls itself", "podman.Wraps": "it pulls itself",
	"containerd.Kubelet": "a process of its own", "crio.Kubelet": "a process of its own", "dockerd.Kubelet": "a process of its own",
	"rke2.Kubelet": "it starts one", "podman.Kubelet": "there is none",
	"containerd.Runner": "it runs what it pulls", "crio.Runner": "it runs what it pulls", "k3s.Runner": "its containerd pulls",
	"rke2.Runner": "its containerd pulls", "podman.Runner": "it runs what it pulls",
	"crio.HeadOnly": "asks by GET", "podman.HeadOnly": "asks by GET", "dockerd.HeadOnly": "asks again by GET",
	"containerd.PlainTag": `"containerd/v2.1.4"`, "k3s.PlainTag": "as containerd", "rke2.PlainTag": "as containerd",
	"containerd.DialOnce": "each request begins with the first host", "k3s.DialOnce": "as containerd", "rke2.DialOnce": "as containerd",
	"crio.IdentityToken": "ignored", "podman.IdentityToken": "ignored",
	"containerd.RegistryToken": "ignored", "k3s.RegistryToken": "ignored", "rke2.RegistryToken": "ignored", "crio.RegistryToken": "ignored", "podman.RegistryToken": "ignored",
	"crio.MirrorCredential": "by the mirror's own host", "podman.MirrorCredential": "by the mirror's own host", "dockerd.MirrorCredential": "its mirrors get none",
	"containerd.CertDirs": "in the directories of hosts.toml", "k3s.CertDirs": "in the directories of hosts.toml", "rke2.CertDirs": "in the directories of hosts.toml",
	"crio.KeyInCertFile": "refuses a *.cert without its *.key", "podman.KeyInCertFile": "refuses a *.cert without its *.key", "dockerd.KeyInCertFile": "refuses a *.cert without its *.key",
	"containerd.Rewrites": "a change that k3s and RKE2 make to it", "crio.Rewrites": "location of registries.conf", "podman.Rewrites": "location of registries.conf", "dockerd.Rewrites": "it has none",
	"dockerd.sandbox": "that of cri-dockerd, which has it as a flag", "dockerd.login": "the daemon has none", "dockerd.stored": "its sandbox image is not known",
	"crio.store": "blobs are unpacked and not kept", "podman.store": "blobs are unpacked and not kept", "dockerd.store": "blobs are unpacked and not kept",
	"containerd.proxy": "by its environment alone", "crio.proxy": "by its environment alone", "k3s.proxy": "by its environment alone", "rke2.proxy": "by its environment alone", "podman.proxy": "by its environment alone",
	"containerd.Client.Pings": "never asks for /v2/", "k3s.Client.Pings": "as containerd", "rke2.Client.Pings": "as containerd",
	"containerd.Client.Returns": "at the registry's own host", "k3s.Client.Returns": "as containerd", "rke2.Client.Returns": "as containerd",
	"containerd.Client.IgnoresTargets": "answers them", "k3s.Client.IgnoresTargets": "as containerd", "rke2.Client.IgnoresTargets": "as containerd",
	"containerd.Client.ForeignSettings": "asks with its default client", "k3s.Client.ForeignSettings": "as containerd", "rke2.Client.ForeignSettings": "as containerd",
	"containerd.Client.ResumesResets": "gives up", "k3s.Client.ResumesResets": "as containerd", "rke2.Client.ResumesResets": "as containerd",
}

// Every field of every profile is said, or there is a reason why it is not.
func TestProfilesAreComplete(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	var look func(profile, path string, v reflect.Value)
	look = func(profile, path string, v reflect.Value) {
		for i := range v.NumField() {
			field := path + v.Type().Field(i).Name
			if field == "Client" {
				look(profile, "Client.", v.Field(i))
				continue
			}
			why := zeroes[profile+"."+field]
			if v.Field(i).IsZero() {
				used[profile+"."+field] = true
				assert.NotEmpty(t, why, "%s has no %s: say it in its profile, or why not in zeroes", profile, field)
			} else {
				assert.Empty(t, why, "%s has %s, and a reason for having none", profile, field)
			}
		}
	}
	for _, p := range profiles() {
		look(p.Name, "", reflect.ValueOf(p))
	}
	for field := range zeroes {
		assert.True(t, used[field], "%s is excused and no field of a profile", field)
	}
}

// Names and processes are told apart, and lead to the profile.
func TestOf(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, p := range profiles() {
		for _, name := range append([]string{p.Name}, p.Processes...) {
			require.True(t, seen[name] == "" || seen[name] == p.Name, "%s is of %s and %s", name, seen[name], p.Name)
			seen[name] = p.Name
			require.Equal(t, p.Name, Of(name, "").Name)
		}
	}
	for _, tt := range []struct{ name, config, want string }{
		{"containerd", "/etc/containerd/config.toml", "containerd"},
		{"containerd", "/var/lib/rancher/k3s/agent/etc/containerd/config.toml", "k3s"},
		{"containerd", "/var/lib/rancher/rke2/agent/etc/containerd/config.toml", "rke2"},
		{"containerd", "/data/k3s/agent/etc/containerd/config.toml", "k3s"},
		{"", "/var/lib/rancher/rke2/agent/etc/containerd/config.toml", "rke2"},
		{"rke2", "/var/lib/rancher/k3s/agent/etc/containerd/config.toml", "rke2"},
		{"crio", "/var/lib/rancher/k3s/crio.conf", "crio"},
		{"", "", ""}, {"another", "", ""},
	} {
		assert.Equal(t, tt.want, Of(tt.name, tt.config).Name, tt)
	}
	unknown := Of("another", "")
	assert.True(t, unknown.IdentityToken && unknown.RegistryToken, "what is not known ignores nothing")
	assert.False(t, unknown.HeadOnly)
	assert.Equal(t, []string{"containerd", "crio", "dockerd", "k3s", "rke2"}, Names())
}

// What a runtime refuses for its configuration is among its vetoes.
func TestVetoes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file, text string
	}{
		{"containerd", "etc/containerd/config.toml", "[plugins.cri.registry.mirrors.'registry.corp.test']\nendpoint=['ftp://a']\n"},
		{"containerd", "etc/containerd/certs.d/registry.corp.test/hosts.toml", "ca = 'gone.crt'\n"},
		{"k3s", "etc/rancher/k3s/registries.yaml", "mirrors: {registry.corp.test: {endpoint: ['ftp://a']}}"},
		{"rke2", "etc/rancher/rke2/registries.yaml", "mirrors: {registry.corp.test: {endpoint: ['ftp://a']}}"},
		{"crio", "etc/containers/registries.conf", "[[registry]]\nlocation='registry.corp.test'\nblocked=true\n"},
		{"crio", "etc/containers/registries.conf", "[[registry"},
		{"podman", "etc/containers/registries.conf", "[[registry]]\nprefix='registry.corp.test'\nlocation='A/B'\n"},
		{"dockerd", "etc/docker/certs.d/registry.corp.test/a.cert", "x"},
	} {
		node := treeWith(tt.file, tt.text)
		files := Open(node, tt.name, "")
		_, findings, err := files.Sources(referenceTo(t, "registry.corp.test/team/app:1"))
		require.NoError(t, err)
		require.NotEmpty(t, findings, tt)
		assert.True(t, files.Stops(findings), "%s %v", tt.name, findings)
		for _, f := range findings {
			if f.Severity == classify.SeverityFail {
				assert.Contains(t, files.Vetoes, f.Cause, tt.name)
			}
		}
	}
}

// A release stands in User-Agent as the runtime writes it.
func TestAgents(t *testing.T) {
	t.Parallel()
	for _, p := range profiles() {
		agent := p.Agent("v1.2.3")
		assert.True(t, strings.HasPrefix(agent, p.Product+"/"), agent)
		assert.Equal(t, p.PlainTag, !strings.Contains(agent, "/v"), agent)
		assert.Equal(t, p.Product, p.Agent("(devel)"))
	}
	k3s := "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
	assert.Equal(t, "containerd/v2.1.4-k3s1", Runtime{Name: "containerd", ConfigFile: k3s, Version: "v2.1.4-k3s1"}.Agent())
	assert.Equal(t, "containerd", Runtime{Name: "k3s-server", Version: "v1.33.1+k3s1"}.Agent(), "its own release is not the containerd's")
	assert.Empty(t, Of("another", "").Agent("v1"))
}
