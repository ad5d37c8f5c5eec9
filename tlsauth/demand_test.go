package tlsauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

func clientPair(t *testing.T, a *authority, source string) ClientPair {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(a.key.(*ecdsa.PrivateKey))
	require.NoError(t, err)
	return ClientPair{Certificate: a.pem(), Key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), Source: source}
}

func forClients(change func(*x509.Certificate)) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		if change != nil {
			change(c)
		}
	}
}

// Required and refused are two things, in both versions of TLS, although TLS 1.3
// says so only after the handshake.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	clientCA := issue(t, nil, "Corp Test Client CA", ca(nil))
	mine := clientPair(t, issue(t, clientCA, "node-1", forClients(nil)), "/etc/containerd/certs.d/registry.corp.test/node.cert")
	foreign := clientPair(t, issue(t, issue(t, nil, "Other CA", ca(nil)), "node-1", forClients(nil)), "foreign.cert")
	old := clientPair(t, issue(t, clientCA, "node-1", forClients(func(c *x509.Certificate) { c.NotBefore, c.NotAfter = noon.Add(-2*time.Hour), noon.Add(-time.Hour) })), "old.cert")
	wrongUse := clientPair(t, issue(t, clientCA, "node-1", server(nil, "node-1")), "server.cert")
	oneFile := ClientPair{Certificate: append(append([]byte{}, mine.Key...), mine.Certificate...), Source: "both.pem"}
	parsedBefore, err := tls.X509KeyPair(mine.Certificate, mine.Key)
	require.NoError(t, err)
	leaf := present(issue(t, root, registryHost, server(nil, registryHost)))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, tt := range []struct {
			name  string
			auth  tls.ClientAuthType
			pairs []ClientPair
			want  classify.Cause
			sent  string
			says  string
		}{
			{"demanded, none there", tls.RequireAndVerifyClientCert, nil, classify.TLSClientCertificateRequired, "", "when none came"},
			{"demanded and given", tls.RequireAndVerifyClientCert, []ClientPair{mine}, "", mine.Source, ""},
			{"key and certificate in one file", tls.RequireAndVerifyClientCert, []ClientPair{oneFile}, "", "both.pem", ""},
			{"parsed before", tls.RequireAndVerifyClientCert, []ClientPair{{Parsed: &parsedBefore}}, "", "client certificate 1", ""},
			{"the second fits", tls.RequireAndVerifyClientCert, []ClientPair{foreign, mine}, "", mine.Source, ""},
			{"none fits", tls.RequireAndVerifyClientCert, []ClientPair{foreign}, classify.TLSClientCertificateRequired, "", "none of the 1 configured ones fits"},
			{"any would do", tls.RequireAnyClientCert, []ClientPair{foreign}, classify.TLSClientCertificateRequired, "", "none of the 1"},
			{"expired", tls.RequireAndVerifyClientCert, []ClientPair{old}, classify.TLSClientCertificateRejected, "old.cert", "expired at 2026-05-04T11:00:00Z"},
			{"for servers", tls.RequireAndVerifyClientCert, []ClientPair{wrongUse}, classify.TLSClientCertificateRejected, "server.cert", "not issued for clients"},
			{"asked for, not demanded", tls.VerifyClientCertIfGiven, nil, "", "", ""},
			{"not asked for", tls.NoClientCert, []ClientPair{mine}, "", "", ""},
		} {
			t.Run(tls.VersionName(version)+", "+tt.name, func(t *testing.T) {
				t.Parallel()
				ap := serveTLS(t, &tls.Config{
					Certificates: []tls.Certificate{leaf}, ClientAuth: tt.auth, ClientCAs: pool(clientCA), MaxVersion: version, Time: func() time.Time { return noon },
				})
				c := &Checker{Roots: pool(root), ClientPairs: tt.pairs, Now: func() time.Time { return noon }}
				if tt.want != "" {
					c.Limit = 2 * time.Minute // a busy machine must not make a refusal come too late
				}
				rep, conn, err := c.Dial(t.Context(), ap, registryHost)
				require.NoError(t, err)
				if tt.want == "" {
					assert.Empty(t, rep.Findings())
					assert.True(t, rep.Held())
					require.NotNil(t, conn)
					_ = conn.Close()
				} else {
					assert.Nil(t, conn)
					assert.False(t, rep.Held())
					require.NotEmpty(t, rep.Findings())
					f := rep.Findings()[0]
					assert.Equal(t, tt.want, f.Cause)
					assert.Equal(t, classify.SeverityFail, f.Severity)
					assert.Contains(t, f.Summary, tt.says)
					assert.Contains(t, f.Summary, "Corp Test Client CA", "which issuers the server accepts")
					assert.NotEmpty(t, f.Fact(classify.FactAlert))
					assert.NotEmpty(t, f.Endpoint)
				}
				assert.Equal(t, tt.sent, rep.Handshakes[0].ClientCertificate)
				assert.Equal(t, tt.auth != tls.NoClientCert, rep.Handshakes[0].ClientCertificateRequested)
			})
		}
	}
}

// A pair that does not parse fails the runtime's pull, too. Keys are not printed.
func TestClientPairThatDoesNotParse(t *testing.T) {
	t.Parallel()
	pair := ClientPair{Certificate: []byte("x"), Key: []byte("very-secret"), Source: "node.cert"}
	_, err := (&Checker{Roots: x509.NewCertPool(), ClientPairs: []ClientPair{pair}}).CheckTLS(t.Context(), netip.MustParseAddrPort("127.0.0.1:1"), registryHost)
	require.ErrorContains(t, err, "node.cert")
	raw, err := json.Marshal(pair)
	require.NoError(t, err)
	_, err = (&Checker{Roots: x509.NewCertPool(), ClientPairs: []ClientPair{{Parsed: &tls.Certificate{}}}}).CheckTLS(t.Context(), netip.MustParseAddrPort("127.0.0.1:1"), registryHost)
	require.Error(t, err)
	for _, s := range []string{string(raw), fmt.Sprintf("%v %+v %#v %s", pair, pair, pair, pair)} {
		assert.NotContains(t, s, "very-secret")
	}
	_, err = (&Checker{Roots: x509.NewCertPool(), ClientPairs: make([]ClientPair, 100)}).CheckTLS(t.Context(), netip.MustParseAddrPort("127.0.0.1:1"), registryHost)
	assert.Error(t, err)
}

// The switch is a hole even while everything is in order, and what it hides is
// said.
func TestVerificationOff(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	ap := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{present(issue(t, root, registryHost, server(nil, registryHost)))}})
	c := &Checker{Roots: pool(root), SkipVerify: true, Now: func() time.Time { return noon }}
	rep, conn, err := c.Dial(t.Context(), ap, registryHost)
	require.NoError(t, err)
	require.NotNil(t, conn)
	_ = conn.Close()
	assert.True(t, rep.Held())
	got, failing := causes(rep.Findings())
	assert.Equal(t, []classify.Cause{classify.TLSVerificationOff}, got)
	assert.Zero(t, failing)

	rep, conn, err = c.Dial(t.Context(), ap, "auth.corp.test")
	require.NoError(t, err)
	assert.Nil(t, conn, "we send nothing, whatever the runtime does")
	assert.False(t, rep.Held())
	got, failing = causes(rep.Findings())
	assert.Equal(t, []classify.Cause{classify.TLSHostnameMismatch, classify.TLSVerificationOff}, got)
	assert.Zero(t, failing)
	assert.NotEmpty(t, rep.Inconclusive)
}

// segmented is an in-memory path on which segments can be clamped.
type segmented struct{ handle func(c net.Conn, mss int) }

func (d segmented) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d.DialSegment(ctx, network, address, 1460)
}

func (d segmented) DialSegment(_ context.Context, _, _ string, mss int) (net.Conn, error) {
	client, srv := net.Pipe()
	go func() {
		defer func() { _ = srv.Close() }()
		d.handle(srv, mss)
	}()
	return client, nil
}

// The matrix of hello and segment size, on a path that loses what is too large
// one way, the other way, or whatever one does.
func TestHelloAndSegmentMatrix(t *testing.T) {
	root := issue(t, nil, "Corp Test Root", ca(nil))
	leaf := issue(t, root, registryHost, server(nil, registryHost))
	short := &tls.Config{Certificates: []tls.Certificate{present(leaf)}, Time: func() time.Time { return noon }}
	cfg := &tls.Config{Certificates: []tls.Certificate{present(leaf, root, root, root, root)}, Time: func() time.Time { return noon }}
	speak := func(cfg *tls.Config, when func(size, mss int) bool) func(net.Conn, int) {
		return func(c net.Conn, mss int) {
			conn, size := peekHello(c)
			if conn != nil && when(size, mss) {
				_ = tls.Server(conn, cfg).Handshake()
			}
			_, _ = io.Copy(io.Discard, c)
		}
	}
	answer := func(when func(size, mss int) bool) func(net.Conn, int) { return speak(cfg, when) }
	slow := func(c net.Conn, _ int) {
		conn, _ := peekHello(c)
		time.Sleep(4 * time.Second)
		if conn != nil {
			_ = tls.Server(conn, cfg).Handshake()
		}
		_, _ = io.Copy(io.Discard, c)
	}
	for _, tt := range []struct {
		name   string
		handle func(net.Conn, int)
		want   classify.Cause
		says   string
		after  time.Duration
	}{
		{"large packets to the server are lost", answer(func(size, mss int) bool { return size < 1280 || mss < 1240 }), classify.RouteMTUBlackHole, "from this node to the server", defaultLimit},
		{"a chain of one small packet shows no way back", speak(short, func(size, mss int) bool { return size < 1280 || mss < 1240 }), classify.RouteMTUBlackHole, "on the way there or back", defaultLimit},
		{"large packets to the node are lost", answer(func(_, mss int) bool { return mss < 1240 }), classify.RouteMTUBlackHole, "from the server to this node", defaultLimit},
		{"a middlebox that takes no split hello", answer(func(size, _ int) bool { return size < 1000 }), classify.RouteLargeHelloDropped, "", defaultLimit},
		{"silent whatever one does", answer(func(int, int) bool { return false }), classify.EndpointTLSHandshakeTimeout, "", defaultLimit},
		{"slow, and no more than that", slow, "", "", 4 * time.Second},
		{"healthy", answer(func(int, int) bool { return true }), "", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Minute) // the other side of the path ends by itself
				start := time.Now()
				c := &Checker{DialContext: segmented{tt.handle}.DialContext, DialSegments: segmented{tt.handle}.DialSegment, Roots: pool(root), Now: func() time.Time { return noon }}
				rep, conn, err := c.Dial(t.Context(), netip.MustParseAddrPort("10.20.0.4:443"), registryHost)
				require.NoError(t, err)
				assert.Equal(t, tt.after, time.Since(start), "the matrix costs no time of its own")
				if tt.want == "" {
					assert.True(t, rep.Held())
					assert.Empty(t, rep.Findings())
					hangUp(conn)
					return
				}
				assert.Nil(t, conn)
				assert.Len(t, rep.Handshakes, 4)
				require.NotEmpty(t, rep.Findings())
				f := rep.Findings()[0]
				assert.Equal(t, tt.want, f.Cause)
				assert.Contains(t, f.Summary, tt.says)
				assert.Equal(t, classify.SeverityFail, f.Severity)
				assert.Equal(t, tt.want, rep.Handshakes[0].Cause)
			})
		})
	}
}

// A certificate out of its dates is judged again with the server's clock.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	for _, tt := range []struct {
		name  string
		leaf  func(*x509.Certificate)
		date  time.Time // the server's clock, zero = it says none
		want  []classify.Cause
		says  string
		skew  bool
		ahead time.Duration // what Seen knows from a verified host
	}{
		{"our clock is behind", func(c *x509.Certificate) { c.NotBefore = noon.Add(time.Hour) }, noon.Add(2 * time.Hour), []classify.Cause{classify.TLSClockSkew, classify.TLSNotYetValid}, "2h0m0s behind", true, 0},
		{"our clock is ahead", func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Hour) }, noon.Add(-2 * time.Hour), []classify.Cause{classify.TLSClockSkew, classify.TLSExpired}, "2h0m0s ahead of", true, 0},
		{"the clocks agree", func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Hour) }, noon.Add(20 * time.Second), []classify.Cause{classify.TLSExpired}, "which agrees with the clock", true, 0},
		{"the clock is wrong and does not matter", func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Hour) }, noon.Add(2 * time.Hour), []classify.Cause{classify.TLSExpired}, "would not hold either", true, 0},
		{"the server says no time", func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Hour) }, time.Time{}, []classify.Cause{classify.TLSExpired}, "", false, 0},
		{"a verified host said it", func(c *x509.Certificate) { c.NotBefore = noon.Add(time.Hour) }, time.Time{}, []classify.Cause{classify.TLSClockSkew, classify.TLSNotYetValid}, "auth.corp.test", true, 2 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cert := present(issue(t, root, registryHost, server(tt.leaf, registryHost)))
			ap := serve(t, func(c net.Conn) {
				head := make([]byte, 1)
				if _, err := io.ReadFull(c, head); err != nil {
					return
				}
				if head[0] != 'G' {
					_ = tls.Server(&replay{Conn: c, head: head}, &tls.Config{Certificates: []tls.Certificate{cert}}).Handshake()
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n")
				if !tt.date.IsZero() {
					_, _ = io.WriteString(c, "Date: "+tt.date.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")+"\r\n")
				}
				_, _ = io.WriteString(c, "\r\n")
			})
			c := &Checker{Roots: pool(root), Now: func() time.Time { return noon }, Hellos: []Hello{HelloLarge}, Seen: &Seen{}}
			if tt.ahead != 0 {
				c.Seen.Clock("auth.corp.test", tt.ahead)
			}
			rep, err := c.CheckTLS(t.Context(), ap, registryHost)
			require.NoError(t, err)
			got, failing := causes(rep.Findings())
			assert.Equal(t, tt.want, got)
			assert.Equal(t, 1, failing)
			assert.Contains(t, rep.Findings()[0].Summary, tt.says)
			assert.Equal(t, tt.skew, rep.ClockSkewMS != nil)
			if tt.want[0] == classify.TLSClockSkew {
				assert.Equal(t, tt.ahead != 0, rep.Findings()[0].Certainty == classify.CertaintyProven)
			}
		})
	}
}
