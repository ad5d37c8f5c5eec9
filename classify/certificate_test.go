package classify_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// issue makes a certificate signed by parent, by itself if parent is nil.
func issue(t *testing.T, template *x509.Certificate, parent *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	signer, signerKey := template, any(key)
	if parent != nil {
		signer, signerKey = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, key.Public(), signerKey)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func selfSigned(t *testing.T, name string) tls.Certificate {
	return issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}}, nil)
}

func authority(t *testing.T) tls.Certificate {
	return issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "Corp Test Root"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
}

// shake runs one handshake on loopback and returns the client's error, that of
// the first read included: TLS 1.3 shows a demand for a certificate only there.
func shake(t *testing.T, server, clientConfig *tls.Config) error {
	t.Helper()
	addr := serve(t, func(c net.Conn) {
		s := tls.Server(c, server)
		if s.Handshake() == nil {
			_, _ = io.Copy(io.Discard, s)
		} else {
			_ = c.(*net.TCPConn).CloseWrite()
			wait(c)
		}
	})
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	conn := tls.Client(c, clientConfig)
	if err := conn.HandshakeContext(t.Context()); err != nil {
		return err
	}
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = conn.Read(make([]byte, 1))
	return err
}

func TestErrorOfCertificates(t *testing.T) {
	root, other := authority(t), authority(t)
	pool := x509.NewCertPool()
	pool.AddCert(root.Leaf)
	host := "registry.corp.test"
	notCA := issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "no authority"}, DNSNames: []string{host}}, &root)
	belowNotCA := issue(t, &x509.Certificate{DNSNames: []string{host}}, &notCA)
	belowNotCA.Certificate = append(belowNotCA.Certificate, notCA.Certificate...)

	for name, c := range map[string]struct {
		cert tls.Certificate
		host string
		want classify.Cause
	}{
		"foreign authority": {issue(t, &x509.Certificate{DNSNames: []string{host}}, &other), host, classify.TLSUnknownAuthority},
		"self-signed":       {selfSigned(t, host), host, classify.TLSSelfSigned},
		"expired": {issue(t, &x509.Certificate{
			DNSNames: []string{host}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour),
		}, &root), host, classify.TLSExpired},
		"not yet valid": {issue(t, &x509.Certificate{
			DNSNames: []string{host}, NotBefore: time.Now().Add(24 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		}, &root), host, classify.TLSNotYetValid},
		"other names":       {issue(t, &x509.Certificate{DNSNames: []string{"gateway.corp.test"}}, &root), host, classify.TLSHostnameMismatch},
		"common name only":  {issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: host}}, &root), host, classify.TLSNoSAN},
		"no names at all":   {issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "x y"}}, &root), host, classify.TLSNoSAN},
		"no IP":             {issue(t, &x509.Certificate{DNSNames: []string{host}}, &root), "10.20.0.4", classify.TLSNoIPSAN},
		"other IP":          {issue(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(10, 20, 0, 9)}}, &root), "10.20.0.4", classify.TLSHostnameMismatch},
		"for clients only":  {issue(t, &x509.Certificate{DNSNames: []string{host}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, &root), host, classify.TLSWrongKeyUsage},
		"signed by no CA":   {belowNotCA, host, classify.TLSWrongKeyUsage},
		"unknown extension": {issue(t, &x509.Certificate{DNSNames: []string{host}, ExtraExtensions: []pkix.Extension{{Id: []int{1, 3, 6, 1, 4, 1, 99999, 1}, Critical: true, Value: []byte{5, 0}}}}, &root), host, classify.TLSWrongKeyUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := shake(t, &tls.Config{Certificates: []tls.Certificate{c.cert}}, &tls.Config{RootCAs: pool, ServerName: c.host})
			f := classify.Error(&classify.StageError{Stage: classify.StageHandshake, Endpoint: c.host + ":443", Err: err})
			assert.Equal(t, c.want, f.Cause, "%v", err)
			assert.Equal(t, classify.CertaintyProven, f.Certainty)
			assert.NotEmpty(t, f.Fact(classify.FactNotAfter))
			sameFault(t, err, f)

			var verification *tls.CertificateVerificationError
			assert.ErrorAs(t, f, &verification)
		})
	}
}

func TestErrorOfCertificateTypes(t *testing.T) {
	leaf := selfSigned(t, "registry.corp.test").Leaf
	for _, c := range []struct {
		err  error
		want classify.Cause
	}{
		{x509.InsecureAlgorithmError(x509.SHA1WithRSA), classify.TLSWeakSignature},
		{x509.SystemRootsError{}, classify.TLSNoSystemRoots},
		{x509.CertificateInvalidError{Cert: leaf, Reason: x509.Expired}, classify.TLSExpired},
		{x509.CertificateInvalidError{Cert: leaf, Reason: x509.NotAuthorizedToSign}, classify.TLSWrongKeyUsage},
		{x509.CertificateInvalidError{Cert: leaf, Reason: x509.IncompatibleUsage}, classify.TLSWrongKeyUsage},
		{x509.CertificateInvalidError{Cert: leaf, Reason: x509.TooManyIntermediates}, classify.TLSWrongKeyUsage},
		{x509.CertificateInvalidError{Cert: leaf, Reason: x509.NameMismatch}, classify.TLSUnknownAuthority},
		{x509.CertificateInvalidError{Cert: leaf, Reason: x509.NoValidChains}, classify.TLSUnknownAuthority},
		{x509.UnknownAuthorityError{Cert: leaf}, classify.TLSSelfSigned},
		{x509.UnknownAuthorityError{}, classify.TLSUnknownAuthority},
	} {
		f := classify.Error(c.err)
		assert.Equal(t, c.want, f.Cause, "%v", c.err)
		sameFault(t, c.err, f)
	}
	// The platform verifier of Windows gives no dates; the certificate has them.
	future := issue(t, &x509.Certificate{NotBefore: time.Now().Add(time.Hour), NotAfter: time.Now().Add(2 * time.Hour)}, nil).Leaf
	assert.Equal(t, classify.TLSNotYetValid, classify.Error(x509.CertificateInvalidError{Cert: future, Reason: x509.Expired}).Cause)
}

func TestErrorOfHandshakes(t *testing.T) {
	root := authority(t)
	pool := x509.NewCertPool()
	pool.AddCert(root.Leaf)
	host := "registry.corp.test"
	cert := issue(t, &x509.Certificate{DNSNames: []string{host}}, &root)
	stranger := selfSigned(t, "node")
	server := func(change func(*tls.Config)) *tls.Config {
		c := &tls.Config{Certificates: []tls.Certificate{cert}}
		change(c)
		return c
	}
	for name, c := range map[string]struct {
		server *tls.Config
		client *tls.Config
		want   classify.Cause
	}{
		"certificate required, TLS 1.3": {
			server(func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }),
			&tls.Config{RootCAs: pool, ServerName: host}, classify.TLSClientCertificateRequired,
		},
		"certificate missing, TLS 1.2": { // no alert of its own before TLS 1.3
			server(func(c *tls.Config) { c.ClientAuth, c.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12 }),
			&tls.Config{RootCAs: pool, ServerName: host}, classify.TLSHandshakeAlert,
		},
		"certificate refused": {
			server(func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool }),
			&tls.Config{RootCAs: pool, ServerName: host, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger, nil }},
			classify.TLSClientCertificateRejected,
		},
		"version": {
			server(func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }),
			&tls.Config{RootCAs: pool, ServerName: host, MaxVersion: tls.VersionTLS12}, classify.TLSProtocolVersion,
		},
		"cipher": {
			server(func(c *tls.Config) {
				c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
			}),
			&tls.Config{RootCAs: pool, ServerName: host, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}},
			classify.TLSHandshakeAlert,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := shake(t, c.server, c.client)
			f := classify.Error(&classify.StageError{Stage: classify.StageHandshake, Endpoint: host + ":443", Err: err})
			assert.Equal(t, c.want, f.Cause, "%v", err)
			assert.NotEmpty(t, f.Fact(classify.FactAlert))
			sameFault(t, err, f)
		})
	}

	for name, c := range map[string]struct {
		banner string
		want   classify.Cause
	}{
		"HTTP": {"HTTP/1.1 400 Bad Request\r\n\r\n", classify.TLSHTTPResponseToHTTPSClient},
		"SSH":  {"SSH-2.0-OpenSSH_9.9\r\n", classify.TLSNotTLS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := net.Dial("tcp", serve(t, func(conn net.Conn) { _, _ = io.WriteString(conn, c.banner); wait(conn) }))
			require.NoError(t, err)
			defer raw.Close()
			err = tls.Client(raw, &tls.Config{RootCAs: pool, ServerName: host}).HandshakeContext(t.Context())
			f := classify.Error(&classify.StageError{Stage: classify.StageHandshake, Endpoint: host + ":443", Err: err})
			assert.Equal(t, c.want, f.Cause, "%v", err)
		})
	}
}

func TestErrorOfQUICAlerts(t *testing.T) {
	for number, want := range map[uint8]classify.Cause{
		40: classify.TLSHandshakeAlert, 42: classify.TLSClientCertificateRejected, 48: classify.TLSClientCertificateRejected,
		70: classify.TLSProtocolVersion, 71: classify.TLSCipherMismatch, 80: classify.TLSHandshakeAlert, 116: classify.TLSClientCertificateRequired,
	} {
		f := classify.Error(tls.AlertError(number))
		assert.Equal(t, want, f.Cause, number)
		sameFault(t, &net.OpError{Op: "remote error", Err: tls.AlertError(number)}, f)
	}
}
