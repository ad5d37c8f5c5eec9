package tlsauth

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/pullwalk/pullwalk/classify"
)

// Bounds of a credential provider configuration.
const (
	maxProviderConfig = 1 << 20
	maxProviders      = 64
	maxProviderFiles  = 64
)

// providerConfig is what the kubelet reads behind
// --image-credential-provider-config.
type providerConfig struct {
	plugins []pluginConfig
	// problems make the kubelet refuse the configuration at its start. A kubelet that
	// runs all the same was started with another one.
	problems []string
}

// String keeps arguments and variables, which may hold secrets, out of any output.
func (c *providerConfig) String() string {
	return fmt.Sprintf("%d credential providers", len(c.plugins))
}

// GoString does the same for %#v.
func (c *providerConfig) GoString() string { return c.String() }

// pluginConfig is one credential provider plugin.
type pluginConfig struct {
	Name           string // of the executable, too
	APIVersion     string
	MatchImages    []string
	DefaultCache   time.Duration // of an answer that does not say it itself
	Args           []string
	Env            []string // "NAME=value", in addition to the kubelet's
	ServiceAccount bool     // it wants a token of the pod's service account (kubelet 1.33)
	Needs          []string // annotations without which it is passed over silently
	File           string   // where it stands
}

// providerDoc is one entry of the file, with the names of kubelet.config.k8s.io/v1.
type providerDoc struct {
	Name                 string   `json:"name"`
	MatchImages          []string `json:"matchImages"`
	DefaultCacheDuration *string  `json:"defaultCacheDuration"`
	APIVersion           string   `json:"apiVersion"`
	Args                 []string `json:"args"`
	Env                  []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	TokenAttributes *struct {
		ServiceAccountTokenAudience          string   `json:"serviceAccountTokenAudience"`
		CacheType                            string   `json:"cacheType"`
		RequireServiceAccount                *bool    `json:"requireServiceAccount"`
		RequiredServiceAccountAnnotationKeys []string `json:"requiredServiceAccountAnnotationKeys"`
		OptionalServiceAccountAnnotationKeys []string `json:"optionalServiceAccountAnnotationKeys"`
	} `json:"tokenAttributes"`
}

const pluginV1 = "credentialprovider.kubelet.k8s.io/v1"

// readProviderConfig reads a configuration file, or a directory of them (*.json,
// *.yaml, *.yml in lexical order, kubelet 1.34 and later), from the node's tree.
// An error means that it is not there or cannot be read; what is wrong within is
// in Problems.
func readProviderConfig(fsys fs.FS, file string) (*providerConfig, error) {
	name := inTree(file)
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("tlsauth: credential provider configuration %s: %s", classify.Redact(file, 200), reason(err))
	}
	files := []string{name}
	if info.IsDir() {
		files = nil
		entries, err := fs.ReadDir(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("tlsauth: credential provider configuration %s: %s", classify.Redact(file, 200), reason(err))
		}
		for _, e := range entries {
			if !e.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(e.Name())) && len(files) < maxProviderFiles {
				files = append(files, path.Join(name, e.Name()))
			}
		}
		slices.Sort(files)
	}
	out := &providerConfig{}
	if len(files) == 0 {
		out.problem("%s holds no *.json, *.yaml or *.yml file", file)
	}
	for _, name := range files {
		data, _, err := readAtMost(fsys, name, maxProviderConfig)
		if err != nil {
			return nil, fmt.Errorf("tlsauth: credential provider configuration /%s: %s", classify.Redact(name, 200), reason(err))
		}
		out.read(data, "/"+name)
	}
	out.wantOne()
	return out, nil
}

// parseProviderConfig reads one configuration document.
func parseProviderConfig(data []byte) *providerConfig {
	out := &providerConfig{}
	out.read(data, "the configuration")
	out.wantOne()
	return out
}

func (c *providerConfig) wantOne() {
	if len(c.plugins) == 0 && len(c.problems) == 0 {
		c.problem("no provider is configured")
	}
}

func (c *providerConfig) problem(format string, args ...any) {
	if len(c.problems) < 32 {
		c.problems = append(c.problems, classify.Redact(fmt.Sprintf(format, args...), 300))
	}
}

// read adds what one file says. The rules are those of the kubelet's validation.
func (c *providerConfig) read(data []byte, file string) {
	if len(data) > maxProviderConfig {
		c.problem("%s is larger than %d bytes", file, maxProviderConfig)
		return
	}
	var doc struct {
		APIVersion string        `json:"apiVersion"`
		Kind       string        `json:"kind"`
		Providers  []providerDoc `json:"providers"`
	}
	if err := yaml.UnmarshalStrict(data, &doc); err != nil { // the kubelet decodes strictly, too
		c.problem("%s cannot be read: %s", file, unquoted(err))
		return
	}
	group, version, _ := strings.Cut(doc.APIVersion, "/")
	if doc.Kind != "CredentialProviderConfig" || group != "kubelet.config.k8s.io" || !slices.Contains([]string{"v1", "v1beta1", "v1alpha1"}, version) {
		c.problem("%s is a %q of %q, not a CredentialProviderConfig of kubelet.config.k8s.io/v1", file, doc.Kind, doc.APIVersion)
		return
	}
	for _, p := range doc.Providers {
		if len(c.plugins) == maxProviders {
			c.problem("more than %d providers", maxProviders)
			return
		}
		who := fmt.Sprintf("provider %q", p.Name)
		c.check(who, p)
		out := pluginConfig{Name: p.Name, APIVersion: p.APIVersion, MatchImages: p.MatchImages, Args: p.Args, File: file}
		c.cache(who, p.DefaultCacheDuration, &out)
		for _, e := range p.Env {
			out.Env = append(out.Env, e.Name+"="+e.Value)
		}
		if a := p.TokenAttributes; a != nil {
			out.ServiceAccount, out.Needs = true, a.RequiredServiceAccountAnnotationKeys
		}
		c.plugins = append(c.plugins, out)
	}
}

// check says what the kubelet refuses in the configuration of one plugin.
func (c *providerConfig) check(who string, p providerDoc) {
	if p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/ ") {
		c.problem("%s: the name is not that of a file", who)
	}
	if slices.ContainsFunc(c.plugins, func(o pluginConfig) bool { return o.Name == p.Name }) {
		c.problem("%s is configured twice", who)
	}
	if !slices.Contains([]string{pluginV1, "credentialprovider.kubelet.k8s.io/v1beta1", "credentialprovider.kubelet.k8s.io/v1alpha1"}, p.APIVersion) {
		c.problem("%s: apiVersion %q is none that a kubelet knows", who, p.APIVersion)
	}
	if len(p.MatchImages) == 0 {
		c.problem("%s: matchImages is empty", who)
	}
	for _, m := range p.MatchImages {
		if _, ok := takeApart(m); !ok {
			c.problem("%s: matchImages: %q is no host with port and path", who, m)
		}
	}
	a := p.TokenAttributes
	switch {
	case a == nil:
	case a.ServiceAccountTokenAudience == "":
		c.problem("%s: tokenAttributes.serviceAccountTokenAudience is empty", who)
	case a.RequireServiceAccount == nil:
		c.problem("%s: tokenAttributes.requireServiceAccount is not set", who)
	case !*a.RequireServiceAccount && len(a.RequiredServiceAccountAnnotationKeys) > 0:
		c.problem("%s: tokenAttributes names required annotations, and no service account is required", who)
	case p.APIVersion != pluginV1:
		c.problem("%s: tokenAttributes needs apiVersion %s", who, pluginV1)
	case a.CacheType != "" && a.CacheType != "ServiceAccount" && a.CacheType != "Token":
		c.problem("%s: tokenAttributes.cacheType %q is neither ServiceAccount nor Token", who, a.CacheType)
	}
}

func (c *providerConfig) cache(who string, text *string, out *pluginConfig) {
	if text == nil {
		c.problem("%s: defaultCacheDuration is not set", who)
		return
	}
	d, err := time.ParseDuration(*text)
	switch {
	case err != nil:
		c.problem("%s: defaultCacheDuration is no duration", who)
	case d < 0:
		c.problem("%s: defaultCacheDuration is negative", who)
	}
	out.DefaultCache = d
}

// unquoted is a YAML error without the document's values: env may hold secrets.
func unquoted(err error) string {
	text := err.Error()
	if i := strings.Index(text, "unknown field "); i >= 0 {
		return classify.Redact(text[i:], 100)
	}
	var line int
	if _, scan := fmt.Sscanf(text[max(strings.Index(text, "line "), 0):], "line %d", &line); scan == nil {
		return fmt.Sprintf("line %d is no YAML that fits", line)
	}
	return "it is no YAML that fits"
}

// match returns the entry of matchImages by which the kubelet asks this plugin about
// a repository, and if there is none, which comes nearest and what separates it.
func (p pluginConfig) match(repository string) (by, nearest string) {
	for _, m := range p.MatchImages {
		if matches(m, repository) {
			return classify.Redact(m, 128), ""
		}
	}
	return "", nearestOf(p.MatchImages, "entry", repository)
}
