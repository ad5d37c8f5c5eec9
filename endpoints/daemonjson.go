package endpoints

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

const daemonJSON = "/etc/docker/daemon.json"

// dockerConfig is what docker's daemon.json says of pulls.
type dockerConfig struct {
	Mirrors  []string `json:"registry-mirrors"`
	Insecure []string `json:"insecure-registries"`
	Proxies  struct {
		HTTP  string `json:"http-proxy"`
		HTTPS string `json:"https-proxy"`
		No    string `json:"no-proxy"`
	} `json:"proxies"`
	Features map[string]bool `json:"features"`
}

func (rd *reader) dockerConfig() (dockerConfig, bool) {
	var conf dockerConfig
	data, ok := rd.read(daemonJSON)
	if !ok {
		return conf, false
	}
	if err := json.Unmarshal(data, &conf); err != nil {
		// The daemon does not start with it, so what runs was started with another.
		rd.errs = append(rd.errs, fmt.Errorf("read %s: %s", daemonJSON, classify.Redact(err.Error(), 160)))
		return dockerConfig{}, false
	}
	return conf, true
}

// daemonJSON reads where the docker engine looks. Its mirrors stand in for Docker
// Hub only, and are asked before it; registries elsewhere have none.
func (rd *reader) daemonJSON() []Source {
	if rd.fsys == nil {
		return nil
	}
	conf, ok := rd.dockerConfig()
	file := ""
	if ok {
		file = daemonJSON
	}
	var out []Source
	if rd.ref.Registry == registry.DockerHub {
		for _, raw := range conf.Mirrors[:min(len(conf.Mirrors), maxSources)] {
			u, err := url.Parse(raw)
			if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
				rd.errs = append(rd.errs, fmt.Errorf("%s: registry-mirrors has %q, which is no URL with http or https: the daemon does not start with it", file, classify.Redact(raw, 128)))
				continue
			}
			s := Source{
				Host: u.Host, Scheme: u.Scheme, Base: &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/") + "/v2"},
				Kind: KindMirror, Capabilities: []string{CapabilityPull, CapabilityResolve}, Credential: CredentialNone, File: file,
			}
			out = append(out, rd.perHost(s))
		}
	} else if len(conf.Mirrors) > 0 {
		rd.ignored(file, fmt.Sprintf("registry-mirrors are for Docker Hub only, %s is asked itself", rd.ref.Registry), classify.NodeRuntimeConfigIgnored)
		rd.findings[len(rd.findings)-1].Severity = classify.SeverityInfo
	}
	s := Source{}.upstream(rd.ref)
	s.File = file
	s.SkipVerify = registry.IsLoopback(rd.ref.Registry) || inPrefixes(s.Host, conf.Insecure)
	s.HTTPSFirst = s.SkipVerify
	s.Scheme = "https"
	if s.SkipVerify {
		s.Scheme = "http" // after https
	}
	s.Base = &url.URL{Scheme: s.Scheme, Host: s.Host, Path: "/v2"}
	return append(out, rd.perHost(s))
}
