package pullwalk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/tlsauth"
)

const (
	providerFile = "etc/kubernetes/providers.yaml"
	providers    = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: corp-provider
  matchImages: ["*.corp.test"]
  defaultCacheDuration: 10m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`
)

// kubeletProcess puts the kubelet's process on the node.
func (w *world) kubeletProcess(args string) {
	w.runtime("containerd", nil)
	w.link("proc/700/ns/net", netNamespace)
	w.link("proc/700/ns/pid", pidNamespace)
	w.file("proc/700/comm", "kubelet\n")
	processOfRoot(w.files, "700", "/usr/bin/kubelet")
	w.file("proc/700/cmdline", strings.ReplaceAll(args, " ", "\x00")+"\x00")
	w.file("proc/700/environ", "HOME=/root\x00")
}

// pullSecret is the document of a pull secret for the registry.
func pullSecret(password string) string {
	return fmt.Sprintf(`{"auths": {"registry.corp.test": {"username": %q, "password": %q}}}`, lab.Username, password)
}

// The node's kubelet has credentials of its own, and what is not known of them is
// not made up.
func TestNodeCredentials(t *testing.T) {
	t.Parallel()
	const withProvider = "kubelet --image-credential-provider-config=/" + providerFile + " --image-credential-provider-bin-dir=/opt/providers"
	for name, tt := range map[string]struct {
		args     string // of the kubelet; "" = it is not seen
		files    map[string]string
		put      func(*pullwalk.Options)
		verdict  pullwalk.Status
		identity string
		why      string
	}{
		"not asked for": {"kubelet", map[string]string{"var/lib/kubelet/config.json": pullSecret(lab.Password)}, func(*pullwalk.Options) {},
			pullwalk.StatusFailed, "anonymous", ""},
		"a file of the kubelet": {"kubelet", map[string]string{"var/lib/kubelet/config.json": pullSecret(lab.Password)}, func(o *pullwalk.Options) { o.NodeCredentials = true },
			pullwalk.StatusOK, "/var/lib/kubelet/config.json", ""},
		"in its own directory": {"kubelet --root-dir /data", map[string]string{"data/config.json": pullSecret(lab.Password)}, func(o *pullwalk.Options) { o.NodeCredentials = true },
			pullwalk.StatusOK, "/data/config.json", ""},
		"below its HOME": {"kubelet", map[string]string{"root/.docker/config.json": pullSecret(lab.Password)}, func(o *pullwalk.Options) { o.NodeCredentials = true },
			pullwalk.StatusOK, "/root/.docker/config.json", ""},
		"none": {"kubelet", nil, func(o *pullwalk.Options) { o.NodeCredentials = true }, pullwalk.StatusFailed, "anonymous", ""},
		"not seen": {"", nil, func(o *pullwalk.Options) { o.NodeCredentials = true }, pullwalk.StatusInconclusive, "",
			"the kubelet's process was not seen"},
		"a plugin that is not run": {withProvider, map[string]string{providerFile: providers}, func(o *pullwalk.Options) { o.NodeCredentials = true }, pullwalk.StatusInconclusive, "",
			"corp-provider: it was not run, so what it gives is not known (nobody asked for it)"},
		"a plugin of a node that is mounted": {withProvider, map[string]string{providerFile: providers}, func(o *pullwalk.Options) { o.RunPlugins = true }, pullwalk.StatusInconclusive, "",
			"from the node's own root only"},
		"a plugin for other images": {withProvider, map[string]string{providerFile: strings.Replace(providers, "*.corp.test", "*.other.test", 1)}, func(o *pullwalk.Options) { o.NodeCredentials = true },
			pullwalk.StatusFailed, "anonymous", ""},
		"pull secrets beside it": {"kubelet", nil, func(o *pullwalk.Options) {
			o.NodeCredentials = true
			o.Keychain = &tlsauth.Kubelet{Secrets: []tlsauth.PullSecret{{Name: "corp-pull", Data: []byte(pullSecret(lab.Password))}}}
		}, pullwalk.StatusOK, "pull secret corp-pull", ""},
		"pull secrets before it": {"kubelet", map[string]string{"var/lib/kubelet/config.json": pullSecret(wrongPassword)}, func(o *pullwalk.Options) {
			o.NodeCredentials = true
			o.Keychain = &tlsauth.Kubelet{Secrets: []tlsauth.PullSecret{{Name: "corp-pull", Data: []byte(pullSecret(lab.Password))}}}
		}, pullwalk.StatusOK, "pull secret corp-pull", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, "login none", func(t *testing.T, w *world) {
				if tt.args != "" {
					w.kubeletProcess(tt.args)
				}
				for path, content := range tt.files {
					w.file(path, content)
				}
				w.file("opt/providers/corp-provider", "#!/bin/sh\n")
				w.files["opt/providers/corp-provider"].Mode = 0o755
				tt.put(&w.opts)
				got := w.diagnose(t, t.Context(), scenario{})
				got.checkLeaks(t)
				got.checkShape(t)
				require.Equal(t, tt.verdict, got.result.Verdict, got.result.String())
				require.Contains(t, got.result.Vantage.Identity, tt.identity)
				require.Contains(t, got.result.Inconclusive, tt.why)
				if tt.verdict == pullwalk.StatusFailed {
					require.Equal(t, classify.LayerIdentity, got.result.Primary.Layer)
				}
			})
		})
	}
}
