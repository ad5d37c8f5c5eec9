package pullwalk_test

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
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// certificateFaults are "break certificate KIND HOST": what is wrong with the
// chain that a host shows.
var certificateFaults = map[string]func(testing.TB, *world, string) tls.Certificate{
	"not-yet-valid": func(_ testing.TB, w *world, name string) tls.Certificate {
		return w.lab.CertificateAs(name, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(48*time.Hour), time.Now().Add(96*time.Hour)
		})
	},
	"lasting": func(_ testing.TB, w *world, name string) tls.Certificate {
		return w.lab.CertificateAs(name, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-30*24*time.Hour), time.Now().Add(30*24*time.Hour)
		})
	},
	"no-san": func(_ testing.TB, w *world, name string) tls.Certificate {
		return w.lab.CertificateAs(name, func(c *x509.Certificate) { c.DNSNames = nil })
	},
	"for-clients": func(_ testing.TB, w *world, name string) tls.Certificate {
		return w.lab.CertificateAs(name, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	},
	"self-signed": func(t testing.TB, _ *world, name string) tls.Certificate { return signed(t, name, nil, nil) },
	"no-intermediate": func(t testing.TB, _ *world, name string) tls.Certificate {
		issuing := signed(t, "Corp Test Issuing CA 2", nil, asAuthority)
		return signed(t, name, &issuing, func(c *x509.Certificate) { c.IssuingCertificateURL = []string{"http://pki.corp.test/issuing.crt"} })
	},
	"inspected": func(t testing.TB, _ *world, name string) tls.Certificate {
		device := signed(t, "Corp Deep Inspection", nil, asAuthority)
		return signed(t, name, &device, nil)
	},
	"sha1": func(t testing.TB, w *world, name string) tls.Certificate {
		root := signed(t, "Corp Test RSA Root", nil, func(c *x509.Certificate) { asAuthority(c); c.SignatureAlgorithm = x509.SHA256WithRSA })
		w.trust(root)
		return signed(t, name, &root, func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA1WithRSA })
	},
}

// serverFaults are "break tls KIND HOST": what a server asks of a handshake.
var serverFaults = map[string]func(*tls.Config){
	"old":          func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
	"wants-client": func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert },
	"other-ciphers": func(c *tls.Config) {
		c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_RSA_WITH_RC4_128_SHA}
	},
	"refuses-clients": func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool() },
}

func asAuthority(c *x509.Certificate) {
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage, c.DNSNames = true, true, x509.KeyUsageCertSign, nil, nil
}

// signed makes a certificate; by nil = self-signed. RSA where the algorithm of
// the template asks for it.
func signed(t testing.TB, name string, by *tls.Certificate, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name, Organization: []string{"Elsewhere"}},
		DNSNames:     []string{name},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(c)
	}
	out := tls.Certificate{}
	if c.SignatureAlgorithm == x509.UnknownSignatureAlgorithm {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		out.PrivateKey = key
	} else {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		out.PrivateKey = key
	}
	parent, signer := c, &out
	if by != nil {
		parent, signer = by.Leaf, by
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, out.PrivateKey.(crypto.Signer).Public(), signer.PrivateKey)
	require.NoError(t, err)
	out.Leaf, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	out.Certificate = [][]byte{der}
	return out
}

// trust adds a root to the node's bundle.
func (w *world) trust(root tls.Certificate) {
	const bundle = "etc/ssl/certs/ca-certificates.crt"
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate[0]})
	w.file(bundle, string(w.files[bundle].Data)+string(block))
}

// clientPair is a client certificate of an authority that nobody here knows, with
// its key, in one file.
func clientPair(t testing.TB) string {
	t.Helper()
	c := signed(t, "node-1", nil, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
}
