package endpoints

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// legacy returns the sources by the tables registry.mirrors and registry.configs,
// which containerd uses where config_path is not set (pkg/cri/server/image_pull.go
// of 1.7, registryHosts), and which k3s and RKE2 write in YAML. It returns nil if
// they have nothing for this registry.
func (rd *reader) legacy(t registryTable) []Source {
	entry, named := t.mirrors[rd.ref.Registry].(map[string]any)
	if !named {
		entry, named = t.mirrors["*"].(map[string]any)
	}
	var list []string
	if named {
		list, _ = stringList(entry["endpoint"])
	}
	host, scheme := registry.Upstream(rd.ref.Registry)
	if _, ok := t.configs[host]; !ok && !named {
		return nil
	}
	var out []Source
	own := false
	for _, raw := range list[:min(len(list), maxSources)] {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			rd.ignored(t.file, fmt.Sprintf("the mirror %q for %s is no URL with http or https, and every pull from %s fails of it", classify.Redact(raw, 128), rd.ref.Registry, rd.ref.Registry), classify.NodeRuntimeConfigInvalid)
			continue
		}
		own = own || u.Host == host
		out = append(out, rd.legacySource(t, u))
	}
	if !own {
		out = append(out, rd.legacySource(t, &url.URL{Scheme: scheme, Host: host}))
	}
	return out
}

// legacySource is one endpoint with the settings of its own configs entry.
func (rd *reader) legacySource(t registryTable, u *url.URL) Source {
	p := strings.TrimSuffix(u.Path, "/")
	if p == "" {
		p = "/v2"
	}
	s := Source{
		Host: u.Host, Scheme: u.Scheme, Base: &url.URL{Scheme: u.Scheme, Host: u.Host, Path: p},
		Kind: KindMirror, Namespace: rd.ref.Registry, File: t.file,
		Capabilities: []string{CapabilityPull, CapabilityResolve},
	}
	if u.Host == rd.ref.Registry || u.Host == rd.ref.Host {
		s.Kind, s.Namespace = KindUpstream, ""
	}
	entry, _ := t.configs[u.Host].(map[string]any)
	if auth, _ := entry["auth"].(map[string]any); len(auth) > 0 {
		s.Credential = CredentialOwn
	}
	tls, _ := entry["tls"].(map[string]any)
	if len(tls) == 0 {
		if s.Kind == KindUpstream && registry.IsLoopback(u.Host) && registry.PortOf(u.Host) != "80" {
			s.SkipVerify, s.HTTPSFirst = true, u.Scheme == "http"
		}
		return s
	}
	if t.v2 {
		// The table of containerd 2 knows auth only.
		rd.ignored(t.file, fmt.Sprintf("the TLS settings for %s in registry.configs are not read by containerd 2, only hosts.toml is", u.Host), classify.NodeRuntimeConfigIgnored)
		return s
	}
	text := func(keys ...string) string {
		for _, k := range keys {
			if v, _ := tls[k].(string); v != "" {
				return v
			}
		}
		return ""
	}
	s.SkipVerify, _ = tls["insecure_skip_verify"].(bool)
	if ca := text("ca_file"); ca != "" {
		s.CAFiles = []string{ca}
	}
	if cert := text("cert_file"); cert != "" {
		s.ClientFiles = [][2]string{{cert, text("key_file")}}
	}
	return s
}

// ignored records that a file is not in force, or breaks the pull: a warning for
// the first, a failure for the second.
func (rd *reader) ignored(file, why string, cause classify.Cause) {
	f := classify.New(cause, fmt.Sprintf("%s: %s", file, why), classify.Fact{Key: classify.FactFile, Value: file})
	f.Endpoint = rd.ref.Host
	if cause == classify.NodeRuntimeConfigIgnored {
		f.Severity = classify.SeverityWarn
	}
	rd.findings = append(rd.findings, f)
}
