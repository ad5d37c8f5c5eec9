package lab_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/lab"
)

// What the runtimes' own client makes of the proxy says whether it is one.
func TestSOCKSServesNetHTTP(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "hello") }))
	t.Cleanup(s.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	proxy := lab.SOCKS{User: "joe", Password: "hunter2", Dial: func(ctx context.Context, target string) (net.Conn, error) {
		assert.Equal(t, "plain.corp.test:80", target)
		return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
	}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go proxy.Serve(context.Background(), c)
		}
	}()
	get := func(user *url.Userinfo) (string, error) {
		transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5", User: user, Host: l.Addr().String()})}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get("http://plain.corp.test/")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	body, err := get(url.UserPassword("joe", "hunter2"))
	require.NoError(t, err)
	assert.Equal(t, "hello", body)
	_, err = get(url.UserPassword("joe", "other"))
	assert.ErrorContains(t, err, "username/password authentication failed")
	_, err = get(nil)
	assert.ErrorContains(t, err, "no acceptable authentication methods")
}
