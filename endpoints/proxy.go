package endpoints

import (
	"net/url"

	"golang.org/x/net/http/httpproxy"
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
	pick := func(upper, lower string) string {
		if v := env[upper]; v != "" {
			return v
		}
		return env[lower]
	}
	config := httpproxy.Config{
		HTTPProxy:  pick("HTTP_PROXY", "http_proxy"),
		HTTPSProxy: pick("HTTPS_PROXY", "https_proxy"),
		NoProxy:    pick("NO_PROXY", "no_proxy"),
		CGI:        env["REQUEST_METHOD"] != "",
	}
	return config.ProxyFunc()
}
