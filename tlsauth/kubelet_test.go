package tlsauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

const providerYAML = `
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: acr-credential-provider
  matchImages: ["*.azurecr.io", "registry.corp.test/team"]
  defaultCacheDuration: 10m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: ["/etc/kubernetes/azure.json"]
  env: [{name: SECRET, value: s3cr3t}]
- name: ecr
  matchImages: ["*.dkr.ecr.*.amazonaws.com"]
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`

// answering is a plugin that prints one answer.
type runFunc func(ctx context.Context, call PluginCall) ([]byte, error)

func answering(answer string) runFunc {
	return runFunc(func(context.Context, PluginCall) ([]byte, error) { return []byte(answer), nil })
}

func pluginAnswer(keys ...string) string {
	auth := map[string]any{}
	for _, k := range keys {
		auth[k] = map[string]string{"username": "robot", "password": "s3cr3t-" + k}
	}
	raw, _ := json.Marshal(map[string]any{
		"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "cacheKeyType": "Registry", "cacheDuration": "10m", "auth": auth,
	})
	return string(raw)
}

func pullSecret(name, doc string) PullSecret { return PullSecret{Name: name, Data: []byte(doc)} }

func auths(keys ...string) string {
	all := map[string]any{}
	for _, k := range keys {
		all[k] = map[string]string{"username": "u", "password": "s3cr3t"}
	}
	raw, _ := json.Marshal(map[string]any{"auths": all})
	return string(raw)
}

// The union of all sources, in the kubelet's order.
func TestKubeletPlan(t *testing.T) {
	t.Parallel()
	node := fstest.MapFS{
		"var/lib/kubelet/config.json": {Data: []byte(auths("registry.corp.test"))},
		".docker/config.json":         {Data: []byte(auths("registry.corp.test/never"))},
		"opt/plugins/acr-credential-provider": {
			Data: []byte("x"), Mode: 0o755,
		},
	}
	var calls []PluginCall
	k := &Kubelet{
		Secrets: []PullSecret{
			pullSecret("first", auths("registry.corp.test")),
			pullSecret("second", auths("registry.corp.test/team", "other.corp.test")),
			{Name: "gone", Missing: true},
			{Name: "opaque", Type: "Opaque", Data: []byte(auths("registry.corp.test"))},
			{Name: "old", Type: secretDockercfg, Data: []byte(`{"https://registry.corp.test/v1/": {"username": "old", "password": "s3cr3t"}}`)},
			{Name: "wrong form", Data: []byte(`{"registry.corp.test": {"username": "old", "password": "s3cr3t"}}`)},
		},
		FS: node, providers: parseProviderConfig([]byte(providerYAML)), PluginDir: "/opt/plugins",
		RunPlugin: runFunc(func(_ context.Context, call PluginCall) ([]byte, error) {
			calls = append(calls, call)
			return []byte(pluginAnswer("registry.corp.test", "*.corp.test")), nil
		}),
	}
	p, err := k.Plan(t.Context(), image)
	require.NoError(t, err)
	assert.Equal(t, "registry.corp.test/team/app", p.Repository)
	assert.Equal(t, []string{
		"pull secret second key registry.corp.test/team", // longer, although of the second secret
		"pull secret first key registry.corp.test",
		"pull secret old key https://registry.corp.test/v1/",
		"/var/lib/kubelet/config.json key registry.corp.test",
		"credential provider acr-credential-provider key registry.corp.test",
		"credential provider acr-credential-provider key *.corp.test",
	}, p.Offered)
	assert.Empty(t, p.Inconclusive)
	got, failing := causes(p.Findings())
	assert.Equal(t, []classify.Cause{classify.IdentityPullSecretMissing, classify.IdentityPullSecretInvalid}, got)
	assert.Zero(t, failing)
	require.Len(t, calls, 1)
	assert.Equal(t, "/opt/plugins/acr-credential-provider", calls[0].Path)
	assert.Equal(t, []string{"/etc/kubernetes/azure.json"}, calls[0].Args)
	assert.Equal(t, []string{"SECRET=s3cr3t"}, calls[0].Env)
	assert.JSONEq(t, `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"registry.corp.test/team/app"}`, string(calls[0].Input))

	creds, err := k.Credentials(t.Context(), image)
	require.NoError(t, err)
	assert.Len(t, creds, 6)
	offers, err := Offers(t.Context(), k, image)
	require.NoError(t, err)
	assert.Len(t, offers, 6)
	raw, err := json.Marshal(map[string]any{"plan": p, "secrets": k.Secrets, "providers": k.providers, "findings": p.Findings(), "offers": offers})
	require.NoError(t, err)
	for _, s := range []string{string(raw), fmt.Sprintf("%v %+v %#v %+v %+v %#v", k.Secrets, p, k.Secrets, *p, k, k.providers), fmt.Sprintf("%v %+v %#v %+v", calls, calls, calls, offers)} {
		assert.NotContains(t, s, "s3cr3t")
	}
}

// Why nothing comes of a source, for each reason there is.
func TestKubeletPlanSaysWhyNot(t *testing.T) {
	t.Parallel()
	provider := func(change func(*pluginConfig)) *providerConfig {
		c := parseProviderConfig([]byte(providerYAML))
		c.plugins = c.plugins[:1]
		if change != nil {
			change(&c.plugins[0])
		}
		return c
	}
	failing := func(text string) runFunc {
		return runFunc(func(context.Context, PluginCall) ([]byte, error) { return nil, errors.New(text) })
	}
	for _, tt := range []struct {
		name    string
		kubelet Kubelet
		reason  string
		nearest string
		want    []classify.Cause
		unsure  bool
	}{
		{"secret for another host", Kubelet{Secrets: []PullSecret{pullSecret("s", auths("registry.corp.test:443"))}}, "", "port 443", nil, false},
		{"secret that is no JSON", Kubelet{Secrets: []PullSecret{pullSecret("s", "{")}}, "invalid JSON", "", []classify.Cause{classify.IdentityPullSecretInvalid}, false},
		{"secret without content", Kubelet{Secrets: []PullSecret{{Name: "s"}}}, "empty", "", []classify.Cause{classify.IdentityPullSecretInvalid}, false},
		{"provider for other hosts", Kubelet{providers: provider(func(p *pluginConfig) { p.MatchImages = []string{"*.corp.io", "*.*.corp.test"} })}, "matchImages", "host labels", nil, false},
		{"provider with a star in the path", Kubelet{providers: provider(func(p *pluginConfig) { p.MatchImages = []string{"registry.corp.test/*"} })}, "matchImages", "letter by letter", nil, false},
		{"provider that is not run", Kubelet{providers: provider(nil)}, "not run", "", nil, true},
		{"provider in service account mode", Kubelet{providers: provider(func(p *pluginConfig) { p.ServiceAccount, p.Needs = true, []string{"corp.test/role"} }), RunPlugin: answering("")}, "corp.test/role", "", nil, true},
		{"no executable", Kubelet{providers: provider(nil), FS: fstest.MapFS{}, PluginDir: "/opt", RunPlugin: answering("")}, "does not exist", "", []classify.Cause{classify.IdentityCredentialPluginFailed}, false},
		{"not executable", Kubelet{providers: provider(nil), FS: fstest.MapFS{"opt/acr-credential-provider": {Mode: 0o644}}, PluginDir: "/opt", RunPlugin: answering("")}, "not executable", "", []classify.Cause{classify.IdentityCredentialPluginFailed}, false},
		{"a directory", Kubelet{providers: provider(nil), FS: fstest.MapFS{"opt/acr-credential-provider": {Mode: fs.ModeDir | 0o755}}, PluginDir: "/opt", RunPlugin: answering("")}, "no file", "", []classify.Cause{classify.IdentityCredentialPluginFailed}, false},
		{"plugin fails", Kubelet{providers: provider(nil), RunPlugin: failing("exit status 1")}, "exit status 1", "", []classify.Cause{classify.IdentityCredentialPluginFailed}, false},
		{"metadata service unreachable", Kubelet{providers: provider(nil), RunPlugin: failing(`exit status 1: Get "http://169.254.169.254/metadata/identity/oauth2/token": dial tcp 169.254.169.254:80: connect: no route to host`)},
			"no route to host", "", []classify.Cause{classify.IdentitySourceUnreachable}, false},
		{"login endpoint not resolvable", Kubelet{providers: provider(nil), RunPlugin: failing(`dial tcp: lookup login.corp.test on 10.20.0.53:53: no such host`)},
			"no such host", "", []classify.Cause{classify.IdentitySourceUnreachable}, false},
		{"no JSON", Kubelet{providers: provider(nil), RunPlugin: answering("Usage: acr")}, "invalid JSON", "", []classify.Cause{classify.IdentityCredentialPluginFailed}, false},
		{"another kind", Kubelet{providers: provider(nil), RunPlugin: answering(`{"kind":"x"}`)}, "not a CredentialProviderResponse", "", []classify.Cause{classify.IdentityCredentialPluginFailed}, false},
		{"another version", Kubelet{providers: provider(func(p *pluginConfig) { p.APIVersion = "credentialprovider.kubelet.k8s.io/v1beta1" }), RunPlugin: answering(pluginAnswer("x"))}, "is configured for", "", []classify.Cause{classify.IdentityCredentialPluginFailed}, false},
		{"no cache key", Kubelet{providers: provider(nil), RunPlugin: answering(`{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Host"}`)},
			"cacheKeyType", "", []classify.Cause{classify.IdentityCredentialPluginFailed}, false},
		{"no cache time", Kubelet{providers: provider(nil), RunPlugin: answering(`{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","cacheDuration":"soon"}`)},
			"cacheDuration", "", []classify.Cause{classify.IdentityCredentialPluginFailed}, false},
		{"answers for another host", Kubelet{providers: provider(nil), RunPlugin: answering(pluginAnswer("other.corp.test"))}, "", "another host", []classify.Cause{classify.IdentityNoMatchingCredential}, false},
		{"empty answer", Kubelet{providers: provider(nil), RunPlugin: answering(pluginAnswer())}, "holds no credential", "", []classify.Cause{classify.IdentityNoMatchingCredential}, false},
		{"node file that is no JSON", Kubelet{FS: fstest.MapFS{"var/lib/kubelet/config.json": {Data: []byte("{")}}}, "invalid JSON", "", nil, false},
		{"node file of the old form", Kubelet{FS: fstest.MapFS{".dockercfg": {Data: []byte(`{"other.corp.test":{"username":"u","password":"s3cr3t"}}`)}}}, "", "another host", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := tt.kubelet.Plan(t.Context(), image)
			require.NoError(t, err)
			require.NotEmpty(t, p.Sources)
			assert.Contains(t, p.Sources[0].Reason, tt.reason)
			assert.Contains(t, p.Sources[0].NearestMiss, tt.nearest)
			assert.Empty(t, p.Offered)
			got, _ := causes(p.Findings())
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.unsure, p.Inconclusive != "", p.Inconclusive)
			for _, f := range p.Findings() {
				assert.NotContains(t, f.Summary, "s3cr3t")
			}
		})
	}
}

// A source that matches and was not asked must not be read as "nothing matches".
func TestUnaskedProviderIsNotAMiss(t *testing.T) {
	t.Parallel()
	offers, err := Offers(t.Context(), &Kubelet{providers: parseProviderConfig([]byte(providerYAML))}, image)
	require.NoError(t, err)
	require.Len(t, offers, 1)
	assert.False(t, offers[0].Info.Unmatched)
	assert.Contains(t, offers[0].Info.Source, "was not run")

	k := &Kubelet{Secrets: []PullSecret{pullSecret("s", auths("registry.corp.test:443"))}}
	offers, err = Offers(t.Context(), k, image)
	require.NoError(t, err)
	assert.True(t, offers[0].Info.Unmatched)
	assert.Contains(t, offers[0].Info.NearestMiss, "s: key")

	_, err = (&Kubelet{Secrets: []PullSecret{pullSecret("s", "{")}}).Credentials(t.Context(), image)
	assert.Error(t, err, "the kubelet stops the pull")
	_, err = k.Plan(t.Context(), "No Image")
	assert.Error(t, err)
	var none *CredentialPlan
	assert.Empty(t, none.Findings())
}

// The kubelet waits a minute; the caller's end is not the plugin's failure.
func TestPluginThatHangs(t *testing.T) {
	hang := runFunc(func(ctx context.Context, _ PluginCall) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	k := &Kubelet{providers: parseProviderConfig([]byte(providerYAML)), RunPlugin: hang}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p, err := k.Plan(t.Context(), image)
		require.NoError(t, err)
		assert.Equal(t, time.Minute, time.Since(start))
		got, _ := causes(p.Findings())
		assert.Equal(t, []classify.Cause{classify.IdentityCredentialPluginFailed}, got)
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p, err := k.Plan(ctx, image)
		require.NoError(t, err)
		assert.Empty(t, p.Findings())
		assert.NotEmpty(t, p.Inconclusive)
	})
}

func TestNodeFiles(t *testing.T) {
	t.Parallel()
	var names []string
	for _, f := range nodeFiles("", "/root") {
		names = append(names, f.name)
	}
	assert.Equal(t, []string{
		"/var/lib/kubelet/config.json", "/config.json", "/root/.docker/config.json", "/.docker/config.json",
		"/var/lib/kubelet/.dockercfg", "/.dockercfg", "/root/.dockercfg",
	}, names)

	node := fstest.MapFS{
		"var/lib/kubelet/config.json": {Data: []byte("{")},
		"root/.docker/config.json":    {Data: []byte(auths("registry.corp.test"))},
		".docker/config.json":         {Data: []byte(auths("registry.corp.test"))},
		".dockercfg":                  {Data: []byte(`{}`)},
	}
	keys, file, remarks := nodeKeys(node, "", "/root")
	require.NotNil(t, keys)
	assert.Equal(t, "/root/.docker/config.json", file, "the first that can be read")
	require.Len(t, remarks, 3)
	assert.Contains(t, remarks[1], "comes first")
	_, file, _ = nodeKeys(node, "", "")
	assert.Equal(t, "/.docker/config.json", file)
}

// What makes the kubelet refuse its configuration, and what it takes.
func TestProviderConfig(t *testing.T) {
	t.Parallel()
	head := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	good := "- {name: a, matchImages: [x.test], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n"
	for _, tt := range []struct{ name, doc, says string }{
		{"good", head + good, ""},
		{"JSON", `{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"CredentialProviderConfig","providers":[{"name":"a","matchImages":["x.test"],"defaultCacheDuration":"0","apiVersion":"credentialprovider.kubelet.k8s.io/v1beta1"}]}`, ""},
		{"service accounts", head + "- {name: a, matchImages: [x.test], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1, tokenAttributes: {serviceAccountTokenAudience: x, cacheType: Token, requireServiceAccount: true}}\n", ""},
		{"empty", "", "not a CredentialProviderConfig"},
		{"no providers", head, "no provider"},
		{"another kind", "apiVersion: v1\nkind: Secret\n", "not a CredentialProviderConfig"},
		{"another group", "apiVersion: credentialprovider.kubelet.k8s.io/v1\nkind: CredentialProviderConfig\n", "not a CredentialProviderConfig"},
		{"unknown field", head + "- {name: a, matchimage: [x.test]}\n", "unknown field"},
		{"no YAML", "\t-", "no YAML"},
		{"twice", head + good + good, "twice"},
		{"name with a slash", head + "- {name: a/b, matchImages: [x.test], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n", "not that of a file"},
		{"no name", head + "- {matchImages: [x.test], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n", "not that of a file"},
		{"old version", head + "- {name: a, matchImages: [x.test], defaultCacheDuration: 1m, apiVersion: v1}\n", "none that a kubelet knows"},
		{"nothing to match", head + "- {name: a, defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n", "matchImages is empty"},
		{"senseless match", head + "- {name: a, matchImages: ['x.test:a:b'], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n", "no host"},
		{"no cache time", head + "- {name: a, matchImages: [x.test], apiVersion: credentialprovider.kubelet.k8s.io/v1}\n", "not set"},
		{"negative cache time", head + "- {name: a, matchImages: [x.test], defaultCacheDuration: -1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n", "negative"},
		{"cache time in words", head + "- {name: a, matchImages: [x.test], defaultCacheDuration: often, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n", "no duration"},
		{"no audience", head + "- {name: a, matchImages: [x.test], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1, tokenAttributes: {requireServiceAccount: true}}\n", "Audience"},
		{"annotations of nobody", head + "- {name: a, matchImages: [x.test], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1, tokenAttributes: {serviceAccountTokenAudience: x, requireServiceAccount: false, requiredServiceAccountAnnotationKeys: [a]}}\n", "no service account is required"},
		{"service accounts of an old version", head + "- {name: a, matchImages: [x.test], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1beta1, tokenAttributes: {serviceAccountTokenAudience: x, requireServiceAccount: true}}\n", "needs apiVersion"},
	} {
		c := parseProviderConfig([]byte(tt.doc))
		if tt.says == "" {
			assert.Empty(t, c.problems, tt.name)
			assert.Len(t, c.plugins, 1, tt.name)
			continue
		}
		require.NotEmpty(t, c.problems, tt.name)
		assert.Contains(t, c.problems[0], tt.says, tt.name)
	}
	assert.NotEmpty(t, parseProviderConfig(make([]byte, maxProviderConfig+1)).problems)
	secretive := parseProviderConfig([]byte(head + "- {name: a, env: [{name: X, value: [s3cr3t]}]}\n"))
	assert.NotContains(t, fmt.Sprint(secretive.problems), "s3cr3t")
}

func TestReadProviderConfig(t *testing.T) {
	t.Parallel()
	node := fstest.MapFS{
		"etc/p.yaml":      {Data: []byte(providerYAML)},
		"etc/d/b.yml":     {Data: []byte("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- {name: b, matchImages: [x.test], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n")},
		"etc/d/a.yaml":    {Data: []byte(providerYAML)},
		"etc/d/README":    {Data: []byte("not one of them")},
		"etc/empty/x.txt": {},
	}
	c, err := readProviderConfig(node, "/etc/p.yaml")
	require.NoError(t, err)
	assert.Empty(t, c.problems)
	assert.Len(t, c.plugins, 2)
	by, _ := matchOf(c.plugins[0], "corp.azurecr.io/team/app:1")
	assert.Equal(t, "*.azurecr.io", by)
	_, nearest := matchOf(c.plugins[0], "corp.westeurope.geo.azurecr.io/team/app:1")
	assert.Contains(t, nearest, "host labels")
	by, nearest = matchOf(c.plugins[0], "No Image")
	assert.Empty(t, by+nearest)

	c, err = readProviderConfig(node, "/etc/d")
	require.NoError(t, err)
	require.Len(t, c.plugins, 3)
	assert.Equal(t, "b", c.plugins[2].Name)
	assert.Equal(t, "/etc/d/b.yml", c.plugins[2].File)

	c, err = readProviderConfig(node, "/etc/empty")
	require.NoError(t, err)
	assert.NotEmpty(t, c.problems)
	_, err = readProviderConfig(node, "/etc/nothing")
	assert.Error(t, err)
}

func TestNodeKubelet(t *testing.T) {
	t.Parallel()
	node := fstest.MapFS{"etc/p.yaml": {Data: []byte(providerYAML)}, "data/kubelet/config.json": {Data: []byte(auths("registry.corp.test"))}}
	args := []string{"/usr/bin/kubelet", "--root-dir=/elsewhere", "--image-credential-provider-config", "/etc/p.yaml", "-image-credential-provider-bin-dir=/opt/plugins", "--root-dir", "/data/kubelet"}
	k := NodeKubelet(node, args, map[string]string{"HOME": "/root"})
	assert.Equal(t, "/data/kubelet", k.Dir, "the last one counts")
	assert.Equal(t, "/opt/plugins", k.PluginDir)
	assert.Equal(t, "/root", k.Home)
	require.NotNil(t, k.providers)
	assert.Empty(t, k.providers.problems)
	p, err := k.Plan(t.Context(), image)
	require.NoError(t, err)
	assert.Equal(t, []string{"/data/kubelet/config.json key registry.corp.test"}, p.Offered)
	assert.Equal(t, []string{"169.254.169.254:80", "login.microsoftonline.com:443", "registry.corp.test:443"}, p.Sources[1].Hosts)

	k = NodeKubelet(node, []string{"kubelet", "--image-credential-provider-config=/etc/none"}, nil)
	require.Len(t, k.providers.problems, 2)
	p, err = k.Plan(t.Context(), image)
	require.NoError(t, err)
	got, _ := causes(p.Findings())
	assert.Equal(t, []classify.Cause{classify.IdentityProviderConfigInvalid, classify.IdentityProviderConfigInvalid}, got)
	assert.Nil(t, NodeKubelet(nil, args, nil).providers)
	assert.Nil(t, NodeKubelet(node, []string{"kubelet", "--image-credential-provider-config"}, nil).providers)
	assert.Equal(t, []string{"169.254.169.254:80", "api.ecr.eu-west-1.amazonaws.com:443"}, sourceHosts("ecr-credential-provider", "123456789012.dkr.ecr.eu-west-1.amazonaws.com/a"))
	assert.Equal(t, []string{"169.254.169.254:80"}, sourceHosts("gcp", "x"))
	assert.Empty(t, sourceHosts("other", "x"))
}

// The runtime's own credential counts only where the kubelet sends none.
func TestRuntimesOwnCredential(t *testing.T) {
	t.Parallel()
	own := keys(t, auths("registry.corp.test"))
	p, err := (&Kubelet{Runtime: own}).Plan(t.Context(), image)
	require.NoError(t, err)
	assert.Equal(t, []string{"the runtime's configuration key registry.corp.test"}, p.Offered)
	p, err = (&Kubelet{Runtime: own, Secrets: []PullSecret{pullSecret("s", auths("registry.corp.test"))}}).Plan(t.Context(), image)
	require.NoError(t, err)
	assert.Equal(t, []string{"pull secret s key registry.corp.test"}, p.Offered)
	assert.Contains(t, p.Sources[1].Reason, "the kubelet sends a credential")
}

// matchOf is what the plan of an image says of one plugin.
func matchOf(p pluginConfig, image string) (by, nearest string) {
	repository, err := kubeletName(image)
	if err != nil {
		return "", ""
	}
	return p.match(repository)
}
