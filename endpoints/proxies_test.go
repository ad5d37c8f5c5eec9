package endpoints

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/lab"
)

func TestCheckThroughSOCKS(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		password string
		refuse   byte
		want     classify.Cause // "" = complete
	}{
		"works":   {password: "hunter2"},
		"login":   {password: "other", want: classify.EndpointProxyAuthRequired},
		"refuses": {password: "hunter2", refuse: 2, want: classify.EndpointProxyRefusedConnect},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			server := lab.SOCKS{User: "joe", Password: tt.password, Refuse: tt.refuse, Dial: func(ctx context.Context, target string) (net.Conn, error) {
				return w.DialContext(ctx, "tcp", target)
			}}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go server.Serve(context.Background(), conn)
				}
			}()
			c := w.checker()
			c.DialContext = nil // only to the proxy
			c.Proxy = func(*url.URL) (*url.URL, error) {
				return &url.URL{Scheme: "socks5", User: url.UserPassword("joe", "hunter2"), Host: l.Addr().String()}, nil
			}
			m, err := c.Check(t.Context(), image)
			require.NoError(t, err)
			assert.Equal(t, tt.want == "", m.Complete, "%s %v", m.Inconclusive, m.Findings())
			if tt.want != "" {
				assert.Equal(t, []classify.Cause{tt.want}, causes(m.Findings()))
				assert.NotContains(t, m.Findings()[0].Summary, "hunter2")
			}
		})
	}
}

// Plain http is asked of the proxy itself.
func TestCheckPlainHTTPThroughAProxy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		user *url.Userinfo
		want classify.Cause
	}{
		"with a login":    {url.UserPassword("joe", "hunter2"), classify.ImageManifestUnknown},
		"without a login": {nil, classify.EndpointProxyAuthRequired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "http://plain.corp.test/v2/team/app/manifests/1", r.RequestURI)
				if r.Header.Get("Proxy-Authorization") == "" {
					rw.WriteHeader(http.StatusProxyAuthRequired)
					return
				}
				rw.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(rw, `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`)
			}))
			t.Cleanup(s.Close)
			c := &Checker{Platform: "linux/amd64", Runtime: "containerd", FS: fstest.MapFS{
				"etc/containerd/config.toml":                        file(conf3),
				"etc/containerd/certs.d/plain.corp.test/hosts.toml": file("server = 'http://plain.corp.test'\n"),
			}}
			proxy, err := url.Parse(s.URL)
			require.NoError(t, err)
			proxy.User = tt.user
			c.Proxy = func(*url.URL) (*url.URL, error) { return proxy, nil }
			m, err := c.Check(t.Context(), "plain.corp.test/team/app:1")
			require.NoError(t, err)
			assert.Contains(t, causes(m.Findings()), tt.want, "%s %v", m.Inconclusive, m.Findings())
		})
	}
}

func TestCheckDoesNotSpeakEveryProxyScheme(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.checker()
	c.Proxy = func(*url.URL) (*url.URL, error) { return &url.URL{Scheme: "ftp", Host: "proxy.corp.test"}, nil }
	m, err := c.Check(t.Context(), image)
	require.NoError(t, err)
	assert.Contains(t, m.Inconclusive, "no runtime speaks this scheme")
	assert.Empty(t, m.Findings())
}
