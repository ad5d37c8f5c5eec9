package probe

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// maxNoProxyLookup bounds a lookup that no pull makes: only NO_PROXY is judged by
// its answer.
const maxNoProxyLookup = 2 * time.Second

// judgeNoProxy says which entry of NO_PROXY seems to mean this host and does not
// match it, although the host goes through the proxy. Whether a range means it only
// its addresses tell, which the runtime never looks up; the name is looked up beside
// the walk, and only where NO_PROXY has an address or a range. What cannot be looked
// up is no finding: behind a proxy names of other networks often do not resolve.
func (p *Probe) judgeNoProxy(ctx context.Context) {
	env := p.by.View.ProxyEnv
	asked := noderuntime.ProxiedURL{URL: &url.URL{Scheme: p.Scheme, Host: p.urlHost()}}
	if _, err := netip.ParseAddr(p.Host); err != nil && namesAddresses(env) {
		ctx, cancel := context.WithTimeout(ctx, maxNoProxyLookup)
		defer cancel()
		if rep, err := p.by.dns.Check(ctx, p.Host); err == nil {
			asked.Addrs = rep.Usable()
		}
	}
	found := slices.DeleteFunc(noderuntime.JudgeProxy(env, asked), func(f classify.Finding) bool { return f.Endpoint == "" })
	if len(found) > 0 {
		p.record(pull.StatusOf(pull.Step{ID: pull.StepSettings}, true, "", found), 1) // after what the files say
	}
}

// urlHost is the host as the runtime's URL has it: without the scheme's own port.
func (p *Probe) urlHost() string {
	if p.Scheme == "https" && p.Port == 443 || p.Scheme == "http" && p.Port == 80 {
		if strings.Contains(p.Host, ":") {
			return "[" + p.Host + "]"
		}
		return p.Host
	}
	return p.HostPort()
}

// namesAddresses says whether NO_PROXY has an address or a range of them.
func namesAddresses(env map[string]string) bool {
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		for entry := range strings.SplitSeq(env[name], ",") {
			entry = strings.TrimSpace(entry)
			if _, err := netip.ParsePrefix(entry); err == nil {
				return true
			}
			if _, err := netip.ParseAddr(entry); err == nil {
				return true
			}
		}
	}
	return false
}
