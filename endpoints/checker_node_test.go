package endpoints

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

func TestCheckFallsBackFromAMirror(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.checker()
	c.FS = fstest.MapFS{
		"etc/containerd/config.toml":                                                                file(conf3),
		"etc/containerd/certs.d/registry.corp.test/hosts.toml":                                      file("[host.'https://mirror.corp.test']\n"),
		"var/lib/containerd/" + "io.containerd.content.v1.content/blobs" + "/sha256/" + w.layer[7:]: file(w.content[w.layer]),
	}
	c.Runtime = "containerd"
	m, err := c.Check(t.Context(), image)
	require.NoError(t, err)
	require.True(t, m.Complete, "%s %v", m.Inconclusive, m.Findings())
	assert.Equal(t, "registry.corp.test", m.Source)
	assert.Len(t, m.Sources, 2)
	assert.Equal(t, []string{w.layer}, m.Present)
	var got []string
	for _, f := range m.Findings() {
		got = append(got, fmt.Sprint(f.Cause, " ", f.Severity))
	}
	assert.Equal(t, []string{"dns.nxdomain warn", "node.layers-already-present info"}, got)
	assert.Equal(t, []Role{RoleMirror}, m.Hosts()[0].Roles)
	assert.Equal(t, "/etc/containerd/certs.d/registry.corp.test/hosts.toml", m.Hosts()[2].Settings, "the source's settings hold for the token server")
}

func TestCheckAsCRIO(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.checker()
	c.Runtime = "crio"
	c.FS = fstest.MapFS{"etc/containers/registries.conf": file("[[registry]]\nprefix='hub.corp.test'\nlocation='registry.corp.test'\n")}
	c.Keychain = nil
	m, err := c.Check(t.Context(), "hub.corp.test/team/app:1")
	require.NoError(t, err)
	assert.Equal(t, "https://registry.corp.test/v2/", m.Requests[0].URL, "the ping comes first")
	assert.Equal(t, OutcomeNeedsToken, m.Requests[0].Outcome)
	assert.Equal(t, http.MethodGet, m.Requests[1].Method)
	// An open /v2/ with a guarded manifest: containerd pulls, CRI-O has no token.
	w.openPing = true
	for runtime, held := range map[string]bool{"crio": false, "dockerd": false, "containerd": true} {
		o := w.checker()
		o.Runtime = runtime
		m, err := o.Check(t.Context(), image)
		require.NoError(t, err)
		assert.Equal(t, held, m.Held, "%s %v", runtime, m.Findings())
		assert.Equal(t, !held, len(m.Findings()) == 1 && m.Findings()[0].Cause == classify.IdentityUnauthenticatedRequest, runtime)
	}
	c.FS = fstest.MapFS{"etc/containers/registries.conf": file("[[registry]]\nlocation='registry.corp.test'\nblocked=true\n")}
	m, err = c.Check(t.Context(), image)
	require.NoError(t, err)
	assert.Empty(t, m.Requests, "no packet is sent")
	assert.Equal(t, []classify.Cause{classify.NodeRegistryBlocked}, causes(m.Findings()))
}

func TestCheckTellsProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.checker()
	bytes, last := int64(0), map[string]Progress{}
	c.OnBytes = func(n int64) { bytes += n }
	c.OnProgress = func(p Progress) {
		assert.GreaterOrEqual(t, p.Bytes, last[p.Digest].Bytes)
		last[p.Digest] = p
	}
	m, err := c.Check(t.Context(), image)
	require.NoError(t, err)
	require.True(t, m.Complete)
	assert.Equal(t, m.Bytes, bytes)
	assert.Equal(t, int64(len(w.content[w.layer])), last[w.layer].Bytes)
	assert.Equal(t, last[w.layer].Size, last[w.layer].Bytes)
	assert.Len(t, last, 3)
}

func TestCheckResumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var broken atomic.Int32
	w.blob = func(rw http.ResponseWriter, r *http.Request) {
		body := w.content[r.URL.Path[1:]]
		if len(body) < 1000 || broken.Add(1) > 2 {
			http.ServeContent(rw, r, "", w.began, strings.NewReader(body))
			return
		}
		part := &cutShort{ResponseWriter: rw, left: len(body) / 3}
		http.ServeContent(part, r, "", w.began, strings.NewReader(body))
		rw.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	m, err := w.checker().Check(t.Context(), image)
	require.NoError(t, err)
	require.True(t, m.Complete, "%s %v", m.Inconclusive, m.Findings())
	fs := m.Findings()
	require.Equal(t, []classify.Cause{classify.EndpointDownloadInterrupted}, causes(fs))
	assert.Equal(t, classify.SeverityWarn, fs[0].Severity)
	assert.Contains(t, fs[0].Summary, "2 times")
}

// Some boxes let one method through only. No pull needs HEAD of a blob, so the walk
// holds.
func TestCheckAsksForALayerByHead(t *testing.T) {
	t.Parallel()
	for status, want := range map[int][]classify.Cause{0: nil, 403: {classify.EndpointMethodBlocked}, 501: {classify.EndpointMethodBlocked}} {
		w := newWorld(t)
		w.headBlob = status
		c := w.checker()
		c.Complete = false
		m, err := c.Check(t.Context(), image)
		require.NoError(t, err)
		assert.True(t, m.Held, m.Inconclusive)
		assert.Equal(t, want, causes(m.Findings()), status)
		for _, f := range m.Findings() {
			assert.Equal(t, classify.SeverityWarn, f.Severity)
		}
	}
}

// cutShort writes no more than so many bytes of a body.
type cutShort struct {
	http.ResponseWriter
	left int
}

func (c *cutShort) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	c.left -= n
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

// tunnel is a forward proxy that knows where the world's servers are.
func tunnel(t *testing.T, w *world, allow func(string) bool) *url.URL {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil || req.Method != http.MethodConnect || !allow(req.Host) {
					_, _ = io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
					return
				}
				out, err := w.DialContext(context.Background(), "tcp", req.Host)
				if err != nil {
					return
				}
				defer out.Close()
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
				go func() { _, _ = io.Copy(out, conn) }()
				_, _ = io.Copy(conn, out)
			}()
		}
	}()
	return &url.URL{Scheme: "http", Host: l.Addr().String()}
}

func TestCheckThroughAProxy(t *testing.T) {
	t.Parallel()
	for _, denied := range []string{"", "blobs.corp.test:443", "registry.corp.test:443"} {
		w := newWorld(t)
		proxy := tunnel(t, w, func(host string) bool { return host != denied })
		c := w.checker()
		c.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			assert.Equal(t, proxy.Host, address, "nothing goes past the proxy")
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		c.Proxy = func(*url.URL) (*url.URL, error) { return proxy, nil }
		m, err := c.Check(t.Context(), image)
		require.NoError(t, err)
		assert.Equal(t, denied == "", m.Complete, "%s %v", m.Inconclusive, m.Findings())
		assert.Equal(t, []Role{RoleProxy}, m.Hosts()[0].Roles)
		assert.Equal(t, proxy.Host, m.Hosts()[1].Proxy)
		assert.Empty(t, m.Hosts()[1].Addrs, "whom the proxy asks is not known")
		if denied != "" {
			assert.Contains(t, causes(m.Findings()), classify.EndpointProxyRefusedConnect)
		}
	}
}

func TestCheckPresentsTheClientCertificate(t *testing.T) {
	t.Parallel()
	cert, key := testPair(t)
	block, _ := pem.Decode(cert)
	want := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	want.AddCert(leaf)
	var names atomic.Value
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		names.Store(r.TLS.PeerCertificates[0].Subject.CommonName)
		rw.WriteHeader(404)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	const dir = "etc/containerd/certs.d/example.com/"
	node := fstest.MapFS{"etc/containerd/config.toml": file(conf2), dir + "ca.crt": {Data: ca}, dir + "c.cert": {Data: cert}, dir + "c.key": {Data: key}}
	c := &Checker{FS: node, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}}
	m, err := c.Check(t.Context(), "example.com/app:1")
	require.NoError(t, err)
	require.NotEmpty(t, m.Requests)
	assert.Equal(t, 404, m.Requests[0].Status, "%v", m.Findings())
	assert.Equal(t, "node", names.Load())
}

// A registry that means harm costs little: everything is bounded and has a code.
func TestCheckHostile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*world, *Checker)
		cause  classify.Cause
		reason string
	}{
		{"endless chunks", func(w *world, _ *Checker) {
			w.blob = func(rw http.ResponseWriter, _ *http.Request) {
				for range 10_000 {
					if _, err := rw.Write(make([]byte, 64<<10)); err != nil {
						return
					}
				}
			}
		}, classify.ImageSizeMismatch, ""},
		{"indexes in indexes", func(w *world, _ *Checker) {
			for range 4 {
				body := fmt.Sprintf(strings.Replace(indexJSON, typeOCIManifest, typeOCIIndex, 1), w.tag, len(w.content[w.tag]))
				w.tag = sum(body)
				w.content[w.tag] = body
			}
		}, "", "more than 4 indexes"},
		{"a host for every hop", func(w *world, c *Checker) {
			c.MaxHosts = 3
			w.blob = func(rw http.ResponseWriter, r *http.Request) {
				http.Redirect(rw, r, "https://another.corp.test/x", http.StatusFound)
			}
		}, classify.EndpointTooManyHosts, "more hosts"},
		{"metadata service", func(w *world, c *Checker) {
			c.AllowAddr = nil
			w.blob = func(rw http.ResponseWriter, r *http.Request) {
				http.Redirect(rw, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
			}
			inner := c.DialContext
			c.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				if strings.HasPrefix(address, "169.254.") {
					return &sham{addr: net.TCPAddr{IP: net.IPv4(169, 254, 169, 254), Port: 80}}, nil
				}
				return inner(ctx, network, address)
			}
		}, classify.EndpointAddressDenied, "169.254.169.254"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.checker()
			tt.change(w, c)
			m, err := c.Check(t.Context(), image)
			require.NoError(t, err)
			assert.False(t, m.Held || m.Complete)
			if tt.cause != "" {
				assert.Contains(t, causes(m.Findings()), tt.cause, m.Inconclusive)
			}
			assert.Contains(t, m.Inconclusive, tt.reason)
		})
	}
}

// sham is a connection that must not be written to.
type sham struct {
	net.Conn
	addr net.TCPAddr
}

func (s *sham) RemoteAddr() net.Addr      { return &s.addr }
func (s *sham) Close() error              { return nil }
func (s *sham) Write([]byte) (int, error) { panic("something was sent to a denied address") }
