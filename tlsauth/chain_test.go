package tlsauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// noon is the time of all certificate tests.
var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// authority is a CA, or a leaf that pretends to be one.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue builds a certificate; parent nil = self-signed.
func issue(tb testing.TB, parent *authority, cn string, change func(*x509.Certificate)) *authority {
	tb.Helper()
	return issueWith(tb, parent, newKey(tb), cn, change)
}

func newKey(tb testing.TB) crypto.Signer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(tb, err)
	return key
}

func newRSA(tb testing.TB) crypto.Signer {
	tb.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(tb, err)
	return key
}

func issueWith(tb testing.TB, parent *authority, key crypto.Signer, cn string, change func(*x509.Certificate)) *authority {
	tb.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(tb, err)
	tmpl := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: cn, Organization: []string{"Corp Test"}},
		NotBefore: noon.Add(-24 * time.Hour), NotAfter: noon.Add(24 * time.Hour),
	}
	if change != nil {
		change(tmpl)
	}
	signer := &authority{cert: tmpl, key: key}
	if parent != nil {
		signer = parent
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, signer.cert, key.Public(), signer.key)
	require.NoError(tb, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(tb, err)
	return &authority{cert: cert, key: key}
}

func ca(change func(*x509.Certificate)) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		c.NotBefore, c.NotAfter = noon.Add(-48*time.Hour), noon.Add(48*time.Hour)
		if change != nil {
			change(c)
		}
	}
}

func server(change func(*x509.Certificate), names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.KeyUsage = x509.KeyUsageDigitalSignature
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		for _, n := range names {
			if ip, err := netip.ParseAddr(n); err == nil {
				c.IPAddresses = append(c.IPAddresses, ip.AsSlice())
			} else {
				c.DNSNames = append(c.DNSNames, n)
			}
		}
		if change != nil {
			change(c)
		}
	}
}

// present is what a server sends: the leaf, then the rest.
func present(leaf *authority, rest ...*authority) tls.Certificate {
	out := tls.Certificate{Certificate: [][]byte{leaf.cert.Raw}, PrivateKey: leaf.key}
	for _, r := range rest {
		out.Certificate = append(out.Certificate, r.cert.Raw)
	}
	return out
}

func pool(roots ...*authority) *x509.CertPool {
	p := x509.NewCertPool()
	for _, r := range roots {
		p.AddCert(r.cert)
	}
	return p
}

// serve accepts connections on loopback until the test ends and gives each to
// handle, which must return when the connection breaks.
func serve(tb testing.TB, handle func(net.Conn)) netip.AddrPort {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				handle(conn)
			}()
		}
	}()
	return netip.MustParseAddrPort(ln.Addr().String())
}

// serveTLS serves TLS with cfg and echoes what it is sent.
func serveTLS(tb testing.TB, cfg *tls.Config) netip.AddrPort {
	tb.Helper()
	return serve(tb, func(conn net.Conn) {
		s := tls.Server(conn, cfg)
		buf := make([]byte, 512)
		for {
			n, err := s.Read(buf)
			if err != nil {
				return
			}
			if _, err := s.Write(buf[:n]); err != nil {
				return
			}
		}
	})
}
