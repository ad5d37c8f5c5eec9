package simnet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const host = "registry.corp.test"

// body is longer than a window, so that it passes only if somebody reads.
var body = strings.Repeat("layer ", 100_000)

// serve runs an HTTPS server at ap and returns a client for it. Both end with
// the test.
func serve(t *testing.T, n *Net, ap netip.AddrPort, h http.Handler) *http.Client {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(cert)

	srv := &http.Server{
		Handler:   h,
		ErrorLog:  log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
	}
	served := make(chan error, 1)
	l := n.Listen(ap)
	go func() { served <- srv.ServeTLS(l, "", "") }()
	transport := &http.Transport{DialContext: n.Dialer().DialContext, TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		srv.Close()
		<-served
	})
	return &http.Client{Transport: transport}
}

// get fetches the body, with a limit for all of it.
func get(t *testing.T, c *http.Client, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "https://"+host+"/v2/", nil)
	require.NoError(t, err)
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return string(got), err
}

// An ordinary client and server of net/http, TLS between them, the name looked
// up at a nameserver of the network; then the faults.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	resolver := netip.MustParseAddrPort("10.20.0.53:53")
	spare := netip.MustParseAddrPort("10.20.0.5:443")
	for name, tt := range map[string]struct {
		fault func(n *Net)
		check func(t *testing.T, err error) // nil = the body arrives
		after time.Duration
	}{
		"healthy": {fault: func(*Net) {}},
		// A round trip for tcp, one for TLS 1.3, one for the request; then the
		// body, of which a window is on its way at a time.
		"slow": {fault: func(n *Net) { n.Delay(registry, time.Second) }, after: 6*time.Second + time.Duration(len(body)/window)*time.Second},
		"second address": {fault: func(n *Net) {
			n.Zone(resolver).Remove(host).Add(host, spare.Addr(), registry.Addr())
			n.Refuse(spare)
		}},
		"silent": {func(n *Net) { n.Silent(registry) }, isTimeout, 30 * time.Second},
		"refused": {func(n *Net) { n.Refuse(registry) }, func(t *testing.T, err error) {
			requireErrno(t, err, "dial", eCONNREFUSED)
		}, 0},
		"tls hangs": {func(n *Net) { n.Mute(registry) }, isTimeout, 30 * time.Second},
		"tls reset": {func(n *Net) { n.Reset(registry) }, func(t *testing.T, err error) {
			requireErrno(t, err, "read", eCONNRESET)
		}, 0},
		"tls cut off": {func(n *Net) { n.CutAfter(registry, 0) }, func(t *testing.T, err error) {
			require.ErrorIs(t, err, io.EOF)
		}, 0},
		"body hangs": {func(n *Net) { n.HangAfter(registry, len(body)/2) }, isTimeout, 30 * time.Second},
		"body cut off": {func(n *Net) { n.CutAfter(registry, len(body)/2) }, func(t *testing.T, err error) {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}, 0},
		"no such name": {func(n *Net) { n.Zone(resolver).Remove(host) }, func(t *testing.T, err error) {
			var dnsErr *net.DNSError
			require.ErrorAs(t, err, &dnsErr)
			require.True(t, dnsErr.IsNotFound)
		}, 0},
		"nameserver silent": {func(n *Net) { n.Zone(resolver).Silent() }, isTimeout, patience},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := world()
				t.Cleanup(n.Close)
				n.Zone(resolver).Add(host, registry.Addr())
				n.Nameservers(resolver)
				client := serve(t, n, registry, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.WriteString(w, body)
				}))
				tt.fault(n)
				start := time.Now()
				got, err := get(t, client, 30*time.Second)
				require.Equal(t, tt.after, time.Since(start))
				if tt.check != nil {
					require.Error(t, err)
					tt.check(t, err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, body, got)
			})
		})
	}
}

func isTimeout(t *testing.T, err error) {
	t.Helper()
	require.True(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
}

// Everything must end with the network, however much is going on.
func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		n.Zone(netip.MustParseAddrPort("10.20.0.53:53")).Add(host, registry.Addr())
		n.Nameservers(netip.MustParseAddrPort("10.20.0.53:53"))
		n.HangAfter(registry, len(body)/2)
		client := serve(t, n, registry, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, body)
		}))
		failed := make(chan error)
		go func() {
			_, err := get(t, client, time.Hour)
			failed <- err
		}()
		time.Sleep(time.Minute)
		n.Close()
		n.Close() // harmless
		require.Error(t, <-failed)
		require.Empty(t, n.conns)
		_, err := n.Dialer().DialContext(t.Context(), "tcp", registry.String())
		require.ErrorIs(t, err, net.ErrClosed)
	})
}
