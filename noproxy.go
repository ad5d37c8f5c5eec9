package pullwalk

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
func (e *ladder) judgeNoProxy(ctx context.Context) {
	env := e.d.view.proxyEnv
	asked := noderuntime.ProxiedURL{URL: &url.URL{Scheme: e.scheme, Host: e.urlHost()}}
	if _, err := netip.ParseAddr(e.host); err != nil && namesAddresses(env) {
		ctx, cancel := context.WithTimeout(ctx, maxNoProxyLookup)
		defer cancel()
		if rep, err := e.d.dns.Check(ctx, e.host); err == nil {
			asked.Addrs = rep.Usable()
		}
	}
	found := slices.DeleteFunc(noderuntime.JudgeProxy(env, asked), func(f classify.Finding) bool { return f.Endpoint == "" })
	if len(found) > 0 {
		e.record(pull.StatusOf(pull.Step{ID: StepSettings}, true, "", found), 1) // after what the files say
	}
}

// urlHost is the host as the runtime's URL has it: without the scheme's own port.
func (e *ladder) urlHost() string {
	if e.scheme == "https" && e.port == 443 || e.scheme == "http" && e.port == 80 {
		if strings.Contains(e.host, ":") {
			return "[" + e.host + "]"
		}
		return e.host
	}
	return e.hostPort()
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
