package noderuntime

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"github.com/pullwalk/pullwalk/classify"
)

// ProxyFor returns which proxy a Go program with this environment uses for a
// URL, nil for none. Every URL of a pull is looked up by itself, by its own
// scheme and host: the registry, the token server and the blob host each need
// their own match in NO_PROXY. The rules are those of
// [golang.org/x/net/http/httpproxy], which the runtimes use: a CIDR in NO_PROXY
// matches only addresses that stand in the URL, loopback is never proxied.
//
// env is the runtime's, not this process's; nil gives no proxy. Upper-case names
// win over lower-case ones. The runtime reads its environment once, so that a
// value changed since its start is not what it uses.
func ProxyFor(env map[string]string) func(*url.URL) (*url.URL, error) {
	config := httpproxy.Config{HTTPProxy: either(env, "HTTP_PROXY"), HTTPSProxy: either(env, "HTTPS_PROXY"), NoProxy: either(env, "NO_PROXY"), CGI: env["REQUEST_METHOD"] != ""}
	return config.ProxyFunc()
}

// ProxiedURL is a URL of a pull with the addresses of its host, if they are known.
type ProxiedURL struct {
	URL   *url.URL
	Addrs []netip.Addr
}

// maxNoProxy bounds how many entries of NO_PROXY are looked at.
const maxNoProxy = 512

// JudgeProxy says what in the environment of a runtime's process does not do what
// it seems to, for the hosts of one pull: warnings of cause
// node.proxy-settings-doubtful. env is the runtime's; nil gives none. Whether a
// proxy lets a host through is not looked at.
func JudgeProxy(env map[string]string, hosts ...ProxiedURL) []classify.Finding {
	var out []classify.Finding
	add := func(endpoint, summary string) {
		f := classify.New(classify.NodeProxySettingsDoubtful, summary)
		f.Severity, f.Certainty, f.Endpoint = classify.SeverityWarn, classify.CertaintyLikely, endpoint
		out = append(out, f)
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} {
		upper, lower := env[name], env[strings.ToLower(name)]
		if upper != "" && lower != "" && upper != lower {
			add("", fmt.Sprintf("%s and %s of the runtime differ; the runtime takes %s", name, strings.ToLower(name), name))
		}
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		value := either(env, name)
		if value == "" {
			continue
		}
		if why := badProxy(value); why != "" {
			add("", fmt.Sprintf("%s of the runtime %s", name, why))
		}
	}
	if either(env, "HTTPS_PROXY") == "" && either(env, "HTTP_PROXY") != "" {
		for _, h := range hosts {
			if h.URL.Scheme == "https" {
				add(h.URL.Host, fmt.Sprintf("HTTP_PROXY of the runtime is set and HTTPS_PROXY is not: https goes straight to %s", h.URL.Host))
				break
			}
		}
	}
	proxy := ProxyFor(env)
	entries := strings.Split(either(env, "NO_PROXY"), ",")
	entries = entries[:min(len(entries), maxNoProxy)]
	for _, h := range hosts {
		if p, err := proxy(h.URL); err != nil || p == nil {
			continue
		}
		for _, e := range entries {
			if why := missed(strings.ToLower(strings.TrimSpace(e)), h); why != "" {
				add(h.URL.Host, fmt.Sprintf("%s goes to the proxy although NO_PROXY of the runtime has %s: %s", h.URL.Host, classify.Redact(strings.TrimSpace(e), 100), why))
				break
			}
		}
	}
	return out
}

func either(env map[string]string, name string) string {
	return cmp.Or(env[name], env[strings.ToLower(name)])
}

// badProxy says why a proxy's address is none. The value may hold a password and
// is never repeated.
func badProxy(value string) string {
	u, err := url.Parse(value)
	if err != nil || u.Scheme == "" || u.Host == "" {
		if u, err = url.Parse("http://" + value); err != nil || u.Host == "" {
			return "is no address: Go programs leave it out in silence and go straight to the registry"
		}
		if strings.HasSuffix(u.Host, ":") { // "http://http://…": the scheme became the host
			return "is no address: Go programs read the scheme in it as the name of the proxy"
		}
		return ""
	}
	switch u.Scheme {
	case "http", "socks5", "socks5h":
		return ""
	case "https":
		return "speaks TLS to the proxy itself, which few proxies expect; an http:// address serves https targets as well"
	}
	return "has a scheme that no runtime can use for a proxy"
}

// missed says why an entry of NO_PROXY does not match a host that it seems to
// mean, "" if it does not seem to mean it.
func missed(entry string, h ProxiedURL) string {
	host := strings.ToLower(h.URL.Hostname())
	if fields := strings.Fields(entry); len(fields) > 1 {
		for _, f := range fields {
			if covers(f, host) {
				return "entries are separated by commas only"
			}
		}
		return ""
	}
	if _, rest, ok := strings.Cut(entry, "://"); ok {
		if name, _, _ := strings.Cut(rest, "/"); covers(name, host) {
			return "an entry is a host and no URL"
		}
		return ""
	}
	if prefix, err := netip.ParsePrefix(entry); err == nil {
		for _, a := range h.Addrs {
			if prefix.Contains(a.Unmap().WithZone("")) {
				return fmt.Sprintf("a range matches only an address that stands in the URL, and %s is a name, though it leads to %s", host, a)
			}
		}
		return ""
	}
	if addr, err := netip.ParseAddr(entry); err == nil {
		for _, a := range h.Addrs {
			if a.Unmap() == addr.Unmap() && host != entry {
				return "an address matches only where it stands in the URL"
			}
		}
		return ""
	}
	name := strings.TrimPrefix(entry, "*")
	switch {
	case strings.HasPrefix(name, ".") && name[1:] == host:
		return "a leading dot leaves out the name itself"
	case strings.Contains(name, "*"):
		if before, after, _ := strings.Cut(name, "*"); len(before)+len(after) > 2 && strings.HasPrefix(host, before) && strings.HasSuffix(host, after) {
			return "an asterisk stands for everything alone, or before a dot, and nowhere else"
		}
	case strings.Contains(name, ":") && covers(name[:strings.LastIndexByte(name, ':')], host):
		return "its port is another"
	}
	return ""
}

// covers is how a name in NO_PROXY matches: itself and what lies below it.
func covers(entry, host string) bool {
	if name, _, ok := strings.Cut(entry, ":"); ok {
		entry = name
	}
	entry = strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
	return entry != "" && (entry == host || strings.HasSuffix(host, "."+entry))
}
