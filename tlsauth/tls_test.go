package tlsauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

const registryHost = "registry.corp.test"

func causes(findings []classify.Finding) (all []classify.Cause, failing int) {
	for _, f := range findings {
		all = append(all, f.Cause)
		if f.Severity == classify.SeverityFail {
			failing++
		}
	}
	return all, failing
}

// Every way in which a chain can be wrong, seen on a real handshake.
func TestCheckTLSJudgesTheChain(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	other := issue(t, nil, "Other Root", ca(nil))
	rotated := issue(t, nil, "Corp Test Root", ca(nil))
	between := issue(t, root, "Corp Test Issuing", ca(nil))
	good := issue(t, between, registryHost, server(nil, registryHost))
	past := func(c *x509.Certificate) { c.NotBefore, c.NotAfter = noon.Add(-72*time.Hour), noon.Add(-time.Hour) }
	future := func(c *x509.Certificate) { c.NotBefore, c.NotAfter = noon.Add(time.Hour), noon.Add(72*time.Hour) }
	oldBetween := issue(t, root, "Corp Test Issuing", ca(func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Minute) }))
	rsaRoot := issueWith(t, nil, newRSA(t), "RSA Root", ca(nil))
	weak := issue(t, rsaRoot, registryHost, server(func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA1WithRSA }, registryHost))
	client := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }
	aia := func(c *x509.Certificate) { c.IssuingCertificateURL = []string{"http://pki.corp.test/issuing.crt"} }
	mail := issue(t, root, "Mail Only", ca(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection} }))

	for _, tt := range []struct {
		name   string
		server tls.Certificate
		roots  *x509.CertPool
		ask    string
		want   []classify.Cause // the first fails, the others warn
		says   string
	}{
		{"good", present(good, between), pool(root), registryHost, nil, ""},
		{"good, root sent too", present(good, between, root), pool(root), registryHost, nil, ""},
		{"unknown authority", present(good, between), pool(other), registryHost, []classify.Cause{classify.TLSUnknownAuthority}, "Corp Test Root"},
		{"unknown authority, root sent", present(good, between, root), pool(other), registryHost, []classify.Cause{classify.TLSUnknownAuthority}, "Corp Test Root"},
		{"no roots at all", present(good, between), x509.NewCertPool(), registryHost, []classify.Cause{classify.TLSUnknownAuthority}, ""},
		{"rotated root", present(good, between), pool(rotated), registryHost, []classify.Cause{classify.TLSUnknownAuthority}, "another key"},
		{"private root, leaf alone, no AIA", present(issue(t, root, registryHost, server(nil, registryHost))), pool(other), registryHost, []classify.Cause{classify.TLSUnknownAuthority}, ""},
		{"missing intermediate", present(issue(t, between, registryHost, server(aia, registryHost))), pool(root), registryHost, []classify.Cause{classify.TLSMissingIntermediate}, "Corp Test Issuing"},
		{"wrong intermediate", present(good, mail), pool(root), registryHost, []classify.Cause{classify.TLSMissingIntermediate}, "Corp Test Issuing"},
		{"self-signed", present(issue(t, nil, registryHost, server(nil, registryHost))), pool(root), registryHost, []classify.Cause{classify.TLSSelfSigned}, ""},
		{"wrong name", present(issue(t, between, "x", server(nil, "gateway.corp.test", "*.apps.corp.test")), between), pool(root), registryHost, []classify.Cause{classify.TLSHostnameMismatch}, "gateway.corp.test, *.apps.corp.test"},
		{"common name only", present(issue(t, between, registryHost, server(nil)), between), pool(root), registryHost, []classify.Cause{classify.TLSNoSAN}, registryHost},
		{"address without IP entry", present(good, between), pool(root), "10.20.0.4", []classify.Cause{classify.TLSNoIPSAN}, registryHost},
		{"other address", present(issue(t, between, "x", server(nil, "10.20.0.5")), between), pool(root), "10.20.0.4", []classify.Cause{classify.TLSHostnameMismatch}, "10.20.0.5"},
		{"address", present(issue(t, between, "x", server(nil, "10.20.0.4")), between), pool(root), "10.20.0.4", nil, ""},
		{"IPv6 address", present(issue(t, between, "x", server(nil, "2001:db8::4")), between), pool(root), "2001:db8::4", nil, ""},
		{"expired", present(issue(t, between, registryHost, server(past, registryHost)), between), pool(root), registryHost, []classify.Cause{classify.TLSExpired}, "2026-05-04T11:00:00Z"},
		{"not yet valid", present(issue(t, between, registryHost, server(future, registryHost)), between), pool(root), registryHost, []classify.Cause{classify.TLSNotYetValid}, "2026-05-04T13:00:00Z"},
		{"expired intermediate", present(issue(t, oldBetween, registryHost, server(nil, registryHost)), oldBetween), pool(root), registryHost, []classify.Cause{classify.TLSExpired}, "Corp Test Issuing"},
		{"weak signature", present(weak), pool(rsaRoot), registryHost, []classify.Cause{classify.TLSWeakSignature}, "SHA1"},
		{"certificate for clients", present(issue(t, between, registryHost, server(client, registryHost)), between), pool(root), registryHost, []classify.Cause{classify.TLSWrongKeyUsage}, ""},
		{"CA for mail", present(issue(t, mail, registryHost, server(nil, registryHost)), mail), pool(root), registryHost, []classify.Cause{classify.TLSWrongKeyUsage}, ""},
		{"expired and wrong name and untrusted", present(issue(t, between, "x", server(past, "gateway.corp.test")), between), pool(other), registryHost,
			[]classify.Cause{classify.TLSExpired, classify.TLSHostnameMismatch, classify.TLSUnknownAuthority}, ""},
		{"wrong name and self-signed", present(issue(t, nil, "x", server(nil, "ingress.local"))), pool(root), registryHost,
			[]classify.Cause{classify.TLSHostnameMismatch, classify.TLSSelfSigned}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ap := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{tt.server}})
			c := &Checker{Roots: tt.roots, Now: func() time.Time { return noon }}
			rep, conn, err := c.Dial(t.Context(), ap, tt.ask)
			require.NoError(t, err)
			got, failing := causes(rep.Findings())
			assert.Equal(t, tt.want, got)
			assert.Equal(t, len(tt.want) == 0, rep.Held())
			assert.Equal(t, len(tt.want) == 0, rep.Verified)
			assert.Equal(t, len(tt.want) == 0, conn != nil, "a connection is handed on if and only if it was verified")
			assert.Equal(t, ap, rep.Target)
			require.Len(t, rep.Handshakes, 2)
			assert.True(t, rep.Handshakes[0].Done)
			require.NotEmpty(t, rep.Chain)
			if conn != nil {
				defer func() { _ = conn.Close() }()
				_, err := io.WriteString(conn, "ping")
				require.NoError(t, err)
				buf := make([]byte, 4)
				_, err = io.ReadFull(conn, buf)
				require.NoError(t, err)
				assert.Equal(t, "caller's pool", rep.TrustedBy)
				return
			}
			assert.Equal(t, 1, failing)
			f := rep.Findings()[0]
			assert.Equal(t, classify.LayerTLS, f.Layer)
			assert.Contains(t, f.Summary, tt.says)
			assert.NotEmpty(t, f.Fact(classify.FactIssuer))
			assert.NotEmpty(t, f.Fact(classify.FactNames))
			assert.NotEmpty(t, f.Fact(classify.FactNotAfter))
			assert.Equal(t, "caller's pool", f.Fact(classify.FactRoots))
			assert.NotNil(t, errors.Unwrap(f))
		})
	}
}

// What can go wrong before there is a chain.
func TestCheckTLSJudgesTheHandshake(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	cert := present(issue(t, root, registryHost, server(nil, registryHost)))
	withTLS := func(change func(*tls.Config)) func(net.Conn) {
		cfg := &tls.Config{Certificates: []tls.Certificate{cert}}
		change(cfg)
		return func(c net.Conn) { _ = tls.Server(c, cfg).Handshake() }
	}
	reply := func(s string) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, s)
			_, _ = io.Copy(io.Discard, c)
		}
	}
	for _, tt := range []struct {
		name   string
		handle func(net.Conn)
		want   classify.Cause
		fact   string
	}{
		{"plain HTTP", reply("HTTP/1.1 400 Bad Request\r\n\r\n"), classify.TLSHTTPResponseToHTTPSClient, ""},
		{"another protocol", reply("220 mail.corp.test ESMTP\r\n"), classify.TLSNotTLS, ""},
		{"closed", func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }, classify.EndpointConnectionClosedEOF, ""},
		{"reset", func(c net.Conn) {
			_, _ = c.Read(make([]byte, 16))
			_ = c.(*net.TCPConn).SetLinger(0)
		}, classify.EndpointConnectionReset, ""},
		{"old version only", withTLS(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), classify.TLSProtocolVersion, "protocol version not supported"},
		{"alert by name", withTLS(func(c *tls.Config) {
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("no such name") }
			c.Certificates = nil
		}), classify.TLSHandshakeAlert, "internal error"},
		{"no common cipher", reply("\x15\x03\x03\x00\x02\x02\x47"), classify.TLSCipherMismatch, "insufficient security level"},
		{"client certificate in TLS 1.2", withTLS(func(c *tls.Config) { c.MaxVersion, c.ClientAuth = tls.VersionTLS12, tls.RequireAnyClientCert }), classify.TLSClientCertificateRequired, "handshake failure"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rep, conn, err := (&Checker{Roots: pool(root), Now: func() time.Time { return noon }}).Dial(t.Context(), serve(t, tt.handle), registryHost)
			require.NoError(t, err)
			assert.Nil(t, conn)
			got, failing := causes(rep.Findings())
			assert.Equal(t, []classify.Cause{tt.want}, got, "two hellos that fail alike are one finding")
			assert.Equal(t, 1, failing)
			assert.False(t, rep.Held())
			assert.False(t, rep.Handshakes[0].Done)
			assert.Equal(t, tt.want, rep.Handshakes[0].Cause)
			assert.Equal(t, tt.fact, rep.Findings()[0].Fact(classify.FactAlert))
			assert.Contains(t, rep.Findings()[0].Endpoint, registryHost+":")
		})
	}
}

// TLS 1.3 completes before the server can refuse: the demand is only noted.
func TestClientCertificateDemandIsNoted(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	ap := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{present(issue(t, root, registryHost, server(nil, registryHost)))}, ClientAuth: tls.RequestClientCert})
	rep, err := (&Checker{Roots: pool(root), Now: func() time.Time { return noon }}).CheckTLS(t.Context(), ap, registryHost)
	require.NoError(t, err)
	assert.True(t, rep.Held())
	assert.True(t, rep.Handshakes[0].ClientCertificateRequested)
	assert.Equal(t, "TLS 1.3", rep.Handshakes[0].Version)
	assert.Equal(t, "X25519MLKEM768", rep.Handshakes[0].Curve)
	assert.Equal(t, "X25519", rep.Handshakes[1].Curve)
	data, err := json.Marshal(rep)
	require.NoError(t, err)
	var back TLSReport
	require.NoError(t, json.Unmarshal(data, &back))
	assert.Equal(t, rep.Handshakes, back.Handshakes)
	assert.Equal(t, rep.Chain, back.Chain)
}

// The sizes are the point of having two hellos: one segment of 1460 bytes is
// what an Ethernet path carries.
func TestHelloSizes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{registryHost, "a.b", "10.20.0.4"} {
		large, classical := helloSize(t, HelloLarge, name), helloSize(t, HelloClassical, name)
		t.Logf("%s: large %d bytes, classical %d bytes", name, large, classical)
		assert.Greater(t, large, 1460)
		assert.Less(t, classical, 600)
	}
}

func declines(*tls.CertificateRequestInfo) *tls.Certificate { return &tls.Certificate{} }

func helloSize(t *testing.T, h Hello, name string) int {
	t.Helper()
	client, srv := net.Pipe()
	go func() { _ = tls.Client(client, h.config(name, declines)).HandshakeContext(t.Context()) }()
	defer func() { _ = srv.Close() }()
	head := make([]byte, 5)
	_, err := io.ReadFull(srv, head)
	require.NoError(t, err)
	require.Equal(t, byte(22), head[0], "a handshake record")
	return 5 + int(head[3])<<8 + int(head[4])
}

// pipes is an in-memory endpoint for synctest: each dial is served by handle.
func pipes(handle func(net.Conn)) dialFunc {
	return func(context.Context, string, string) (net.Conn, error) {
		client, srv := net.Pipe()
		go func() {
			defer func() { _ = srv.Close() }()
			handle(srv)
		}()
		return client, nil
	}
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// replay gives back what was read ahead of a connection.
type replay struct {
	net.Conn
	head []byte
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}

func peekHello(c net.Conn) (*replay, int) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, 0
	}
	rest := make([]byte, int(head[3])<<8+int(head[4]))
	if _, err := io.ReadFull(c, rest); err != nil {
		return nil, 0
	}
	return &replay{Conn: c, head: append(head, rest...)}, len(head) + len(rest)
}

// A middlebox that drops a hello of two segments: the runtime hangs for 10 s,
// while older clients work.
func TestLargeHelloDropped(t *testing.T) {
	root := issue(t, nil, "Corp Test Root", ca(nil))
	cfg := &tls.Config{Certificates: []tls.Certificate{present(issue(t, root, registryHost, server(nil, registryHost)))}, Time: func() time.Time { return noon }}
	drop := func(c net.Conn) {
		conn, size := peekHello(c)
		if conn == nil || size > 1460 {
			_, _ = io.Copy(io.Discard, c)
			return
		}
		_ = tls.Server(conn, cfg).Handshake()
		_, _ = io.Copy(io.Discard, c)
	}
	for _, tt := range []struct {
		name     string
		hellos   []Hello
		held     bool
		want     classify.Cause
		severity classify.Severity
	}{
		{"the runtime sends the large one", nil, false, classify.RouteLargeHelloDropped, classify.SeverityFail},
		{"the runtime sends the small one", []Hello{HelloClassical, HelloLarge}, true, classify.RouteLargeHelloDropped, classify.SeverityWarn},
		{"nothing to compare", []Hello{HelloLarge}, false, classify.EndpointTLSHandshakeTimeout, classify.SeverityFail},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c := &Checker{DialContext: pipes(drop), Roots: pool(root), Now: func() time.Time { return noon }, Hellos: tt.hellos}
				rep, conn, err := c.Dial(t.Context(), netip.MustParseAddrPort("10.20.0.4:443"), registryHost)
				require.NoError(t, err)
				assert.Equal(t, defaultLimit, time.Since(start))
				assert.Equal(t, tt.held, rep.Held())
				assert.Equal(t, tt.held, conn != nil)
				require.Len(t, rep.Findings(), 1)
				f := rep.Findings()[0]
				assert.Equal(t, tt.want, f.Cause)
				assert.Equal(t, tt.severity, f.Severity)
				assert.Equal(t, registryHost, f.Endpoint)
				assert.Equal(t, "large", f.Fact(classify.FactHello))
				assert.Equal(t, "10s", f.Fact(classify.FactLimit))
				if conn != nil {
					hangUp(conn)
				}
			})
		})
	}
}

// The caller's end is not the endpoint's failure, and it is obeyed at once.
func TestCallersEndIsInconclusive(t *testing.T) {
	silent := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	stuck := dialFunc(func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for name, dialer := range map[string]dialFunc{"handshake": pipes(silent), "connect": stuck} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				start := time.Now()
				rep, conn, err := (&Checker{DialContext: dialer, Roots: x509.NewCertPool()}).Dial(ctx, netip.MustParseAddrPort("10.20.0.4:443"), registryHost)
				require.NoError(t, err)
				assert.Nil(t, conn)
				assert.Equal(t, 3*time.Second, time.Since(start))
				assert.NotEmpty(t, rep.Inconclusive)
				assert.Empty(t, rep.Findings())
				assert.False(t, rep.Held())
			})
		})
	}
}

// A dialer that ignores its context must not hold the check up.
func TestDialerThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var closed atomic.Bool
		d := dialFunc(func(context.Context, string, string) (net.Conn, error) {
			<-release
			a, b := net.Pipe()
			go func() {
				_, _ = io.Copy(io.Discard, b)
				closed.Store(true)
			}()
			return a, nil
		})
		rep, err := (&Checker{DialContext: d, Roots: x509.NewCertPool(), Limit: time.Second}).CheckTLS(t.Context(), netip.MustParseAddrPort("10.20.0.4:443"), registryHost)
		require.NoError(t, err)
		require.Len(t, rep.Findings(), 1)
		assert.Equal(t, classify.RouteConnectTimeout, rep.Findings()[0].Cause)
		close(release)
		synctest.Wait()
		assert.True(t, closed.Load(), "a connection that comes too late is closed")
	})
}

// The connection of an extra hello that cannot be opened says nothing of TLS.
func TestExtraConnectionRefusedIsNoFinding(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	ap := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{present(issue(t, root, registryHost, server(nil, registryHost)))}})
	open, err := net.Dial("tcp", ap.String())
	require.NoError(t, err)
	var once sync.Once
	d := dialFunc(func(context.Context, string, string) (conn net.Conn, err error) {
		err = errors.New("no more")
		once.Do(func() { conn, err = open, nil })
		return conn, err
	})
	rep, conn, err := (&Checker{DialContext: d, Roots: pool(root), Now: func() time.Time { return noon }}).Dial(t.Context(), ap, registryHost)
	require.NoError(t, err)
	require.NotNil(t, conn)
	defer func() { _ = conn.Close() }()
	assert.True(t, rep.Held())
	assert.Empty(t, rep.Findings())
	assert.Equal(t, open, conn.(*tls.Conn).NetConn(), "the first dial serves the first hello")
	assert.Contains(t, rep.Handshakes[1].Error, "not connected")
}

func TestConnectFailureIsOfItsOwnLayer(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ap := netip.MustParseAddrPort(ln.Addr().String())
	require.NoError(t, ln.Close())
	rep, err := (&Checker{Roots: x509.NewCertPool()}).CheckTLS(t.Context(), ap, registryHost)
	require.NoError(t, err)
	require.Len(t, rep.Findings(), 1)
	assert.Equal(t, classify.EndpointConnectionRefused, rep.Findings()[0].Cause)
	assert.False(t, rep.Held())
}

func TestSenselessQuestions(t *testing.T) {
	t.Parallel()
	ap := netip.MustParseAddrPort("127.0.0.1:1")
	for name, ask := range map[string]func() error{
		"no address":   func() error { _, err := (&Checker{}).CheckTLS(t.Context(), netip.AddrPort{}, registryHost); return err },
		"no name":      func() error { _, err := (&Checker{}).CheckTLS(t.Context(), ap, ""); return err },
		"URL for name": func() error { _, err := (&Checker{}).CheckTLS(t.Context(), ap, "https://x"); return err },
		"unknown hello": func() error {
			_, err := (&Checker{Hellos: []Hello{"tiny"}}).CheckTLS(t.Context(), ap, registryHost)
			return err
		},
		"hello twice": func() error {
			_, err := (&Checker{Hellos: []Hello{HelloLarge, HelloLarge}}).CheckTLS(t.Context(), ap, registryHost)
			return err
		},
		"CA without certificate": func() error {
			_, err := (&Checker{CA: []byte("none")}).CheckTLS(t.Context(), ap, registryHost)
			return err
		},
	} {
		assert.Error(t, ask(), name)
	}
}

// The endpoint's own CA is added to the roots, as a hosts.toml does.
func TestOwnCA(t *testing.T) {
	t.Parallel()
	root, other := issue(t, nil, "Corp Test Root", ca(nil)), issue(t, nil, "Other", ca(nil))
	ap := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{present(issue(t, root, registryHost, server(nil, registryHost)))}})
	shared := pool(other)
	rep, err := (&Checker{Roots: shared, CA: root.pem(), Now: func() time.Time { return noon }}).CheckTLS(t.Context(), ap, registryHost)
	require.NoError(t, err)
	assert.True(t, rep.Held())
	assert.Equal(t, "the endpoint's own CA", rep.TrustedBy)
	assert.True(t, shared.Equal(pool(other)), "the caller's pool is not changed")
}

// No server name for addresses (RFC 6066), and none with a trailing dot.
func TestServerName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{registryHost: registryHost, registryHost + ".": registryHost, "10.20.0.4": "", "2001:db8::4": "", "[2001:db8::4]": ""} {
		assert.Equal(t, want, HelloLarge.config(name, declines).ServerName, name)
	}
}

// A hostile chain must not reach the output unbounded.
func TestChainIsBounded(t *testing.T) {
	t.Parallel()
	names := make([]string, 300)
	for i := range names {
		names[i] = string(rune('a'+i%26)) + ".corp.test"
	}
	uri, _ := url.Parse("spiffe://corp.test/x")
	leaf := issue(t, nil, "x", server(func(c *x509.Certificate) { c.URIs = []*url.URL{uri} }, names...))
	chain := make([]*x509.Certificate, 40)
	for i := range chain {
		chain[i] = leaf.cert
	}
	out := (&trial{ctx: t.Context(), certs: chain}).describe()
	assert.Len(t, out, maxChain)
	assert.Len(t, out[0].Names, 32)
	assert.Contains(t, offered(leaf.cert), "and 292 more")
}

// Which hello the runtime sends depends on how it was built and started.
func TestHelloOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		version string
		godebug []string
		want    Hello
	}{
		{"go1.22.12", nil, HelloClassical},
		{"go1.19", nil, HelloClassical},
		{"go1.23.0", nil, HelloLarge},
		{"go1.23.4", []string{"tlskyber=0"}, HelloClassical},
		{"go1.24.3", nil, HelloLarge},
		{"go1.24.3", []string{"asynctimerchan=1,tlsmlkem=0"}, HelloClassical},
		{"go1.24.3", []string{"tlsmlkem=0", "tlsmlkem=1"}, HelloLarge},
		{"go1.24.3", []string{"tlskyber=0"}, HelloLarge},
		{"go1.26-devel", nil, HelloLarge},
		{"devel +abc", nil, HelloLarge},
		{"", nil, HelloLarge},
	} {
		assert.Equal(t, tt.want, HelloOf(tt.version, tt.godebug...), "%s %v", tt.version, tt.godebug)
	}
}
