package tlsauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"time"
)

// ClientPair is a client certificate with its key, both in PEM, as a registry
// configuration names them. It is never printed.
type ClientPair struct {
	Certificate []byte `json:"-"`
	Key         []byte `json:"-"` // nil = the key is in Certificate
	// Parsed is the pair, already parsed; Certificate and Key are then ignored. nil =
	// parse them.
	Parsed *tls.Certificate `json:"-"`
	// Source names it in reports, as the file of the certificate; "" = "client
	// certificate N", counted from 1.
	Source string `json:"source"`
}

// String returns the source, never the key.
func (p ClientPair) String() string { return p.Source }

// GoString keeps %#v from printing the key.
func (p ClientPair) GoString() string { return "tlsauth.ClientPair{" + p.Source + "}" }

// pair is a [ClientPair] that parsed.
type pair struct {
	source string
	cert   tls.Certificate
}

// maxPairs bounds how many pairs are parsed: a directory of them is read whole.
const maxPairs = 32

func (p ClientPair) parse() (tls.Certificate, error) {
	switch {
	case p.Parsed != nil && len(p.Parsed.Certificate) == 0:
		return tls.Certificate{}, errors.New("no certificate")
	case p.Parsed != nil:
		return *p.Parsed, nil
	case p.Key == nil:
		return tls.X509KeyPair(p.Certificate, p.Certificate)
	}
	return tls.X509KeyPair(p.Certificate, p.Key)
}

// clientDemand is what a server said and got about a client certificate. Only the
// goroutine that makes the handshake writes to it.
type clientDemand struct {
	asked    bool
	accepts  []string // names of the CAs that the server accepts, at most 4
	had      int      // pairs that were there
	sent     *pair
	sentLeaf *x509.Certificate
}

// answer chooses like crypto/tls with Config.Certificates: the first pair that
// the server's words allow, else none (RFC 8446, 4.4.2: an empty list).
func (d *clientDemand) answer(info *tls.CertificateRequestInfo, pairs []pair) *tls.Certificate {
	d.asked, d.had = true, len(pairs)
	for _, raw := range info.AcceptableCAs[:min(len(info.AcceptableCAs), 4)] {
		var rdn pkix.RDNSequence
		if _, err := asn1.Unmarshal(raw, &rdn); err == nil {
			var n pkix.Name
			n.FillFromRDNSequence(&rdn)
			d.accepts = append(d.accepts, printName(n, 128))
		}
	}
	for i := range pairs {
		if info.SupportsCertificate(&pairs[i].cert) == nil {
			d.sent = &pairs[i]
			d.sentLeaf, _ = x509.ParseCertificate(pairs[i].cert.Certificate[0])
			return &pairs[i].cert
		}
	}
	return &tls.Certificate{}
}

func (d *clientDemand) offered() string {
	if d.sent == nil {
		return ""
	}
	return d.sent.source
}

// settleShare is the share of a handshake's limit that a spare connection waits
// for the word about our client certificate: by default a second, which is enough
// for a round trip and the server's verification of it.
const settleShare = 10

// settle waits for a refusal. In TLS 1.3 the client is done before the server
// has seen its certificate, so that the refusal is the first thing to be read;
// a server that agrees says nothing until it is asked.
func (d *clientDemand) settle(ctx context.Context, conn *tls.Conn, version uint16, wait time.Duration) error {
	if !d.asked || version < tls.VersionTLS13 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := conn.Read(make([]byte, 1))
	if ctx.Err() != nil {
		return nil
	}
	return err
}
