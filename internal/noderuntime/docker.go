package noderuntime

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
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
}

// dockerConfig returns the file that it read, "" for none.
func (rd *reader) dockerConfig() (conf dockerConfig, file string) {
	data, ok := rd.read(daemonJSON)
	if !ok {
		return conf, ""
	}
	if err := json.Unmarshal(data, &conf); err != nil {
		// The daemon does not start with it, so what runs was started with another.
		rd.problem("read %s: %s", daemonJSON, classify.Redact(err.Error(), 160))
		return dockerConfig{}, ""
	}
	return conf, daemonJSON
}

// dockerSources reads where the docker engine looks. Its mirrors stand in for
// Docker Hub only, and are asked before it; registries elsewhere have none.
func dockerSources(rd *reader) []Source {
	conf, file := rd.dockerConfig()
	var out []Source
	if rd.ref.Registry != registry.DockerHub && len(conf.Mirrors) > 0 {
		rd.ignored(file, fmt.Sprintf("registry-mirrors are for Docker Hub only, %s is asked itself", rd.ref.Registry)).Severity = classify.SeverityInfo
		conf.Mirrors = nil
	}
	for _, raw := range conf.Mirrors[:min(len(conf.Mirrors), maxSources)] {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			rd.problem("%s: registry-mirrors has %q, which is no URL with http or https: the daemon does not start with it", file, classify.Redact(raw, 128))
			continue
		}
		s := Source{File: file}.at(&url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/") + "/v2"}, KindMirror)
		out = append(out, rd.perHost(s))
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

// inPrefixes reports whether host[:port] is named by a list of hosts and networks,
// as docker's insecure-registries is. Networks match addresses only: names are
// not resolved here, though docker does.
func inPrefixes(hostport string, list []string) bool {
	host := hostport
	if u, err := url.Parse("//" + hostport); err == nil {
		host = u.Hostname()
	}
	addr, err := netip.ParseAddr(host)
	return slices.ContainsFunc(list, func(entry string) bool {
		p, bad := netip.ParsePrefix(entry)
		return entry == hostport || bad == nil && err == nil && p.Contains(addr.Unmap())
	})
}

// dockerProxy is the proxy of daemon.json as environment variables, each of which
// takes the place of the process's own; nil if it has none.
func dockerProxy(rd *reader) map[string]string {
	conf, _ := rd.dockerConfig()
	var env map[string]string
	for name, v := range map[string]string{"HTTP_PROXY": conf.Proxies.HTTP, "HTTPS_PROXY": conf.Proxies.HTTPS, "NO_PROXY": conf.Proxies.No} {
		if v != "" {
			if env == nil {
				env = map[string]string{}
			}
			env[name] = v
		}
	}
	return env
}
