package registry

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

func TestForward(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		proxy, scheme string
		want          bool
	}{
		{"http://proxy.corp.test", "http", true}, {"https://proxy.corp.test", "http", true},
		{"http://proxy.corp.test", "https", false}, {"socks5://proxy.corp.test", "http", false}, {"socks5h://proxy.corp.test", "https", false},
	} {
		assert.Equal(t, tt.want, Forward(mustURL(t, tt.proxy), tt.scheme), "%s for %s", tt.proxy, tt.scheme)
	}
}

func TestForwardedRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool, dials := scripted(t, func(_ int, far peer) {
			for range 2 { // the connection is kept
				req, _ := far.request()
				assert.Equal(t, "http://registry.corp.test/v2/", req.RequestURI)
				assert.Equal(t, "registry.corp.test", req.Host)
				assert.Equal(t, Credential{Username: "joe", Password: "hunter2"}.Basic(), req.Header.Get("Proxy-Authorization"))
				assert.Empty(t, req.Header.Get("Authorization"))
				far.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
			}
			far.gone()
		})
		pool.Proxy = mustURL(t, "http://joe:hunter2@proxy.corp.test:3128")
		for range 2 {
			req := get(t, t.Context(), http.MethodGet)
			resp, err := pool.RoundTrip(req)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, "hi", string(body))
			assert.Empty(t, req.Header, "the caller's request is left alone")
		}
		assert.EqualValues(t, 1, dials.Load())
		pool.Close()
	})
}

// Who wrote an answer is said only where it shows.
func TestForwardedRefusal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer string
		cause  classify.Cause // "" = an answer for the caller to read
	}{
		"407":                  {"407 No\r\nProxy-Authenticate: Basic realm=x", classify.EndpointProxyAuthRequired},
		"squid's 403":          {"403 Forbidden\r\nX-Squid-Error: ERR_ACCESS_DENIED 0", classify.EndpointProxyRefusedConnect},
		"squid's 503":          {"503 No\r\nX-Squid-Error: ERR_DNS_FAIL 0", classify.EndpointProxyRefusedConnect},
		"RFC 9209":             {"502 No\r\nProxy-Status: proxy.corp.test; error=dns_error; rcode=\"NXDOMAIN\"", classify.EndpointProxyRefusedConnect},
		"RFC 9209, no error":   {"404 No\r\nProxy-Status: cache.corp.test; received-status=404", ""},
		"403 of nobody's mark": {"403 Forbidden", ""},
		"502 of nobody's mark": {"502 Bad Gateway", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				pool, _ := scripted(t, func(_ int, far peer) {
					far.request()
					far.say("HTTP/1.1 " + tt.answer + "\r\nContent-Length: 2\r\n\r\nno")
					far.gone()
				})
				pool.Proxy = mustURL(t, "http://joe:hunter2@proxy.corp.test:3128")
				defer pool.Close()
				resp, err := pool.RoundTrip(get(t, t.Context(), http.MethodGet))
				if tt.cause == "" {
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					return
				}
				var answer *classify.HTTPAnswer
				require.ErrorAs(t, err, &answer)
				assert.Equal(t, "proxy.corp.test:3128", answer.Host)
				f := classify.Error(err)
				assert.Equal(t, tt.cause, f.Cause)
				assert.Equal(t, "proxy.corp.test:3128", f.Fact(classify.FactProxy))
				assert.NotContains(t, f.Summary, "hunter2")
			})
		})
	}
}
