package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// authority issues server certificates. One key serves all its leaves: what a
// client judges is names, dates and signatures.
type authority struct {
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
	leafKey *ecdsa.PrivateKey
}

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("lab: authority key: %w", err)
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("lab: leaf key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name, Organization: []string{"Corp Test"}},
		NotBefore:             now.AddDate(-1, 0, 0),
		NotAfter:              now.AddDate(10, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("lab: authority certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("lab: authority certificate: %w", err)
	}
	return &authority{cert: cert, key: key, leafKey: leafKey}, nil
}

// issue makes a server certificate for one DNS name.
func (a *authority) issue(name string, notBefore, notAfter time.Time) tls.Certificate {
	return a.issueAs(name, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = notBefore, notAfter })
}

// issueAs makes a server certificate for one DNS name, and lets change set its
// dates and whatever else is to differ. It panics if signing fails, which for a
// template that a test wrote down it does not.
func (a *authority) issueAs(name string, change func(*x509.Certificate)) tls.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(fmt.Sprintf("lab: serial number: %v", err))
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{name},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.leafKey.Public(), a.key)
	if err != nil {
		panic(fmt.Sprintf("lab: certificate for %q: %v", name, err))
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(fmt.Sprintf("lab: certificate for %q: %v", name, err))
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leafKey, Leaf: leaf}
}

// Certificate issues a good server certificate of the world's own authority for
// any DNS name.
func (w *World) Certificate(name string) tls.Certificate {
	now := w.now()
	return w.ca.issue(name, now.Add(-time.Hour), now.AddDate(0, 3, 0))
}

// CertificateAs is Certificate with a template that change has changed.
func (w *World) CertificateAs(name string, change func(*x509.Certificate)) tls.Certificate {
	now := w.now()
	return w.ca.issueAs(name, func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = now.Add(-time.Hour), now.AddDate(0, 3, 0)
		change(c)
	})
}

// TrustedPool holds the world's authority and nothing else.
func (w *World) TrustedPool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(w.ca.cert)
	return pool
}

// AuthorityPEM is the certificate of the world's authority as a bundle file
// holds it.
func (w *World) AuthorityPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.ca.cert.Raw})
}
