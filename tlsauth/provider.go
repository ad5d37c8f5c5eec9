package tlsauth

import (
	"errors"
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

// ProviderConfig is what the kubelet reads behind
// --image-credential-provider-config: which plugins give credentials for which
// images. The zero ProviderConfig has no plugin.
type ProviderConfig struct {
	Providers []Provider `json:"providers"`
	// Problems are what makes the kubelet refuse the configuration at its start.
	// A kubelet that runs all the same was started with another one.
	Problems []string `json:"problems,omitempty"`
}

// Provider is one plugin.
type Provider struct {
	Name        string   `json:"name"` // of the executable, too
	APIVersion  string   `json:"apiVersion"`
	MatchImages []string `json:"matchImages"`
	// DefaultCacheMS is how long an answer is kept that does not say it itself.
	DefaultCacheMS int64 `json:"defaultCacheMs"`
	// Args are printed with care: they are the operator's own text.
	Args []string `json:"-"`
	// Env are the variables that the plugin gets in addition to the kubelet's.
	Env []string `json:"-"` // "NAME=value"
	// ServiceAccount says that the plugin works with tokens of the pod's service
	// account (kubelet 1.33 and later), which nobody but the kubelet can make.
	ServiceAccount bool `json:"serviceAccount,omitempty"`
	// Needs are the annotations without which, on the service account, the kubelet
	// passes over the plugin silently.
	Needs []string `json:"needs,omitempty"`
	File  string   `json:"file,omitempty"` // where it stands
}

// String returns the name: arguments and variables may hold secrets.
func (p Provider) String() string { return p.Name }

// GoString keeps %#v from printing them.
func (p Provider) GoString() string { return "tlsauth.Provider{" + p.Name + "}" }

// providerDoc is the file, with the names of kubelet.config.k8s.io/v1.
type providerDoc struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Providers  []struct {
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
	} `json:"providers"`
}

const pluginV1 = "credentialprovider.kubelet.k8s.io/v1"

// ReadProviderConfig reads a configuration file, or a directory of them (*.json,
// *.yaml, *.yml in lexical order, kubelet 1.34 and later), from the node's tree.
// An error means that it is not there or cannot be read; what is wrong within is
// in Problems.
func ReadProviderConfig(fsys fs.FS, file string) (*ProviderConfig, error) {
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
	out := &ProviderConfig{}
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
	if len(files) > 0 && len(out.Providers) == 0 && len(out.Problems) == 0 {
		out.problem("no provider is configured")
	}
	return out, nil
}

// ParseProviderConfig reads one configuration document.
func ParseProviderConfig(data []byte) *ProviderConfig {
	out := &ProviderConfig{}
	out.read(data, "")
	if len(out.Providers) == 0 && len(out.Problems) == 0 {
		out.problem("no provider is configured")
	}
	return out
}

func (c *ProviderConfig) problem(format string, args ...any) {
	if len(c.Problems) < 32 {
		c.Problems = append(c.Problems, classify.Redact(fmt.Sprintf(format, args...), 300))
	}
}

// read adds what one file says. The rules are those of the kubelet's validation.
func (c *ProviderConfig) read(data []byte, file string) {
	if len(data) > maxProviderConfig {
		c.problem("%s is larger than %d bytes", named0(file), maxProviderConfig)
		return
	}
	var doc providerDoc
	if err := yaml.UnmarshalStrict(data, &doc); err != nil { // the kubelet decodes strictly, too
		c.problem("%s cannot be read: %s", named0(file), unquoted(err))
		return
	}
	group, version, _ := strings.Cut(doc.APIVersion, "/")
	if doc.Kind != "CredentialProviderConfig" || group != "kubelet.config.k8s.io" || !slices.Contains([]string{"v1", "v1beta1", "v1alpha1"}, version) {
		c.problem("%s is a %q of %q, not a CredentialProviderConfig of kubelet.config.k8s.io/v1", named0(file), doc.Kind, doc.APIVersion)
		return
	}
	for _, p := range doc.Providers {
		if len(c.Providers) == maxProviders {
			c.problem("more than %d providers", maxProviders)
			return
		}
		out := Provider{Name: p.Name, APIVersion: p.APIVersion, MatchImages: p.MatchImages, Args: p.Args, File: file}
		who := fmt.Sprintf("provider %q", p.Name)
		if p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/ ") {
			c.problem("%s: the name is not that of a file", who)
		}
		if slices.ContainsFunc(c.Providers, func(o Provider) bool { return o.Name == p.Name }) {
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
		c.cache(who, p.DefaultCacheDuration, &out)
		for _, e := range p.Env {
			out.Env = append(out.Env, e.Name+"="+e.Value)
		}
		if a := p.TokenAttributes; a != nil {
			out.ServiceAccount, out.Needs = true, a.RequiredServiceAccountAnnotationKeys
			switch {
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
		c.Providers = append(c.Providers, out)
	}
}

func (c *ProviderConfig) cache(who string, text *string, out *Provider) {
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
	out.DefaultCacheMS = d.Milliseconds()
}

func named0(file string) string {
	if file == "" {
		return "the configuration"
	}
	return file
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
	if errors.Is(err, fs.ErrInvalid) {
		return "invalid"
	}
	return "it is no YAML that fits"
}

// Match tells whether the kubelet asks this plugin for an image, by which entry
// of matchImages, and if by none, which comes nearest and what separates it.
func (p Provider) Match(image string) (by, nearest string) {
	repository, err := kubeletName(image)
	if err != nil {
		return "", ""
	}
	for _, m := range p.MatchImages {
		if matches(m, repository) {
			return classify.Redact(m, 128), ""
		}
	}
	return "", nearestOf(p.MatchImages, "entry", repository)
}
