package pullwalk

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
)

// net/http takes a credential along to the same name on another port, also when
// that is plain http. The closing pull does not.
func TestAnOrdinaryClientKeepsTheCredential(t *testing.T) {
	t.Parallel()
	var seen string
	note := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
		require.Equal(t, "*/*", r.Header.Get("Accept"), "what is no secret goes along")
	})
	plain, secure := httptest.NewServer(note), httptest.NewTLSServer(note)
	defer plain.Close()
	defer secure.Close()
	location := ""
	registry := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here" {
			note(w, r)
			return
		}
		http.Redirect(w, r, location, http.StatusTemporaryRedirect)
	}))
	defer registry.Close()

	transport := registry.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.RootCAs.AddCert(secure.Certificate())
	o := &ordinary{cancel: func() {}, transport: transport}
	ask := func(from, to string) (hosts []string) {
		location, seen = to, "not asked"
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, from, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer secret")
		req.Header.Set("Accept", "*/*")
		if strings.HasPrefix(from, "https") {
			req.Header.Set("X-Api-Key", ", secret")
		}
		requests := 0
		resp, err := o.follower(func(h string) { hosts = append(hosts, h) }, func() { requests++ }).RoundTrip(req)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, len(hosts), requests)
		return hosts
	}
	hosts := ask(registry.URL+"/blob", plain.URL)
	require.Empty(t, seen, "plain http")
	require.Equal(t, []string{registry.Listener.Addr().String(), plain.Listener.Addr().String()}, hosts)
	ask(registry.URL+"/blob", secure.URL)
	require.Empty(t, seen, "another port")
	ask(registry.URL+"/blob", registry.URL+"/here")
	require.Equal(t, "Bearer secret, secret", seen, "the same host")
	ask(plain.URL, "")
	require.Empty(t, seen, "plain http from the start")
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", registry.Listener.Addr().String())
	}
	ask("https://example.com/blob", "https://example.com:443/here")
	require.Equal(t, "Bearer secret, secret", seen, "the same host, whose port is written out")
	o.close()
}

// A signed URL is never in an error, and the host that failed is.
func TestAnOrdinaryClientsErrors(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/loop" {
			http.Redirect(w, r, "/loop", http.StatusFound)
			return
		}
		http.Redirect(w, r, gone.URL+"/data?signature=SECRET", http.StatusFound)
	}))
	defer registry.Close()
	o := &ordinary{cancel: func() {}, transport: http.DefaultTransport.(*http.Transport).Clone()}
	defer o.close()
	fail := func(path string) classify.Finding {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, registry.URL+path, nil)
		require.NoError(t, err)
		_, err = o.follower(func(string) {}, func() {}).RoundTrip(req)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "SECRET")
		return classify.Error(err)
	}
	f := fail("/blob")
	require.Equal(t, classify.EndpointConnectionRefused, f.Cause)
	require.Equal(t, gone.Listener.Addr().String(), f.Endpoint)
	require.Equal(t, classify.EndpointHTTPRedirectLoop, fail("/loop").Cause)
}

// The client calls itself what the runtime does, unless the caller says how.
func TestAgent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		given, name, version, want string
		none                       bool
	}{
		{name: "containerd", version: "v2.1.4", want: "containerd/v2.1.4"},
		{name: "containerd", version: "(devel)", want: "containerd"},
		{name: "containerd", version: "v1\r\nX: y", want: "containerd"},
		{name: "containerd", want: "containerd"},
		{name: "k3s", version: "v1.33.1+k3s1", want: "containerd"},
		{name: "crio", version: "v1.33.0", want: "cri-o/1.33.0"},
		{name: "dockerd", version: "v28.1.0", want: "docker/28.1.0"},
		{name: "another", version: "v1", want: "pullwalk"},
		{none: true, want: "pullwalk"},
		{given: "ours/1", name: "containerd", version: "v2.1.4", want: "ours/1"},
	} {
		opts := Options{UserAgent: tt.given}
		opts.fillIn()
		d := &diagnosis{userAgent: opts.UserAgent, way: endpoints.WayOf(tt.name), view: &view{
			hasRuntime: !tt.none, runtime: noderuntime.Runtime{Name: tt.name, Version: tt.version},
		}}
		require.Equal(t, tt.want, d.agent(), "%+v", tt)
	}
}

// A proxy would ask an address on our behalf that we do not ask ourselves.
func TestAnOrdinaryClientAsksNoProxyForADeniedAddress(t *testing.T) {
	t.Parallel()
	proxy := &url.URL{Scheme: "http", Host: "proxy.corp.test:3128"}
	o := &ordinary{d: &diagnosis{allow: DenyPlatformAddrs, view: &view{Node: Node{Proxy: func(*url.URL) (*url.URL, error) { return proxy, nil }}}}}
	for host, allowed := range map[string]bool{"169.254.169.254": false, "[fe80::1]:8443": false, "10.20.0.4": true, "registry.corp.test": true} {
		_, err := o.proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: host}})
		require.Equal(t, allowed, err == nil, "%s: %v", host, err)
	}
}

// One lost lookup is not every image's: the next that asks looks up anew, and what
// held is not looked up again.
func TestAnOrdinaryClientLooksUpAnewWhatFailed(t *testing.T) {
	t.Parallel()
	var found atomic.Bool
	exchange := dnscheck.ExchangerFunc(func(_ context.Context, _ netip.AddrPort, _ string, _ dnscheck.Question) (dnscheck.Answer, error) {
		if !found.Load() {
			return dnscheck.Answer{}, os.ErrDeadlineExceeded
		}
		return dnscheck.Answer{Addresses: []netip.Addr{netip.MustParseAddr("10.20.0.4")}}, nil
	})
	files := fstest.MapFS{"etc/resolv.conf": {Data: []byte("nameserver 10.20.0.2\n")}}
	d := &diagnosis{dns: &dnscheck.Checker{FS: files, Exchanger: exchange, Limit: time.Second}, limits: Limits{DNS: time.Second}}
	o := &ordinary{d: d, ctx: t.Context(), names: map[string]*resolved{}}
	_, err := o.lookup(t.Context(), "registry.corp.test")
	require.Error(t, err)
	found.Store(true)
	addrs, err := o.lookup(t.Context(), "registry.corp.test")
	require.NoError(t, err)
	require.NotEmpty(t, addrs)
	found.Store(false)
	again, err := o.lookup(t.Context(), "registry.corp.test")
	require.NoError(t, err)
	require.Equal(t, addrs, again)
}
