package pullwalk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/tlsauth"
)

const pluginDir = "/opt/plugins"

// kubelet reads "secret NAME right|missing|broken" and "plugin NAME gives|absent" or
// "plugin NAME fails WORDS": the pull goes with what a kubelet would offer.
func (w *world) kubelet(t testing.TB, verb string, args []string) {
	t.Helper()
	if w.kubeletOf == nil {
		w.kubeletOf = &tlsauth.Kubelet{FS: w.files, PluginDir: pluginDir}
		w.opts.Keychain = w.kubeletOf
	}
	k := w.kubeletOf
	if verb == "secret" {
		s := tlsauth.PullSecret{Name: args[0], Missing: args[1] == "missing"}
		switch args[1] {
		case "right":
			s.Data = w.lab.DockerConfig()
		case "broken":
			s.Data = []byte(`registry.corp.test reader`)
		}
		k.Secrets = append(k.Secrets, s)
		return
	}
	k.Providers = fmt.Appendf(nil, `{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [
		{"name": %q, "matchImages": ["registry.corp.test"], "defaultCacheDuration": "10m", "apiVersion": "credentialprovider.kubelet.k8s.io/v1"}]}`, args[0])
	if args[1] != "absent" {
		w.files[strings.TrimPrefix(pluginDir, "/")+"/"+args[0]] = &fstest.MapFile{Data: []byte("x"), Mode: 0o755}
	}
	k.RunPlugin = func(context.Context, tlsauth.PluginCall) ([]byte, error) {
		if args[1] == "fails" {
			return nil, errors.New(strings.Join(args[2:], " "))
		}
		return json.Marshal(map[string]any{
			"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "cacheKeyType": "Registry",
			"auth": map[string]any{"registry.corp.test": map[string]string{"username": lab.Username, "password": lab.Password}},
		})
	}
	plan, err := (&tlsauth.Kubelet{Providers: k.Providers}).Plan(t.Context(), "registry.corp.test/team/app")
	require.NoError(t, err)
	require.Empty(t, plan.Findings(), "the kubelet takes this configuration")
}
