package tlsauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// ClientPair is a client certificate with its key, both in PEM, as a registry
// configuration names them. It is never printed.
type ClientPair struct {
	Certificate []byte `json:"-"`
	Key         []byte `json:"-"` // nil = in Certificate, too
	// Parsed is the pair where it was parsed before; Certificate and Key are then
	// not looked at. nil = parse them.
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

func (c *Checker) pairs() ([]pair, error) {
	if len(c.ClientPairs) > maxPairs {
		return nil, fmt.Errorf("tlsauth: more than %d client certificates", maxPairs)
	}
	var out []pair
	for i, p := range c.ClientPairs {
		source := p.Source
		if source == "" {
			source = fmt.Sprintf("client certificate %d", i+1)
		}
		cert, err := p.parse()
		if err != nil { // its texts quote neither file
			return nil, fmt.Errorf("tlsauth: %s: %s", classify.Redact(source, 200), classify.Redact(err.Error(), 200))
		}
		out = append(out, pair{classify.Redact(source, 200), cert})
	}
	return out, nil
}

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

// clientDemand is what a server said and got about a client certificate.
type clientDemand struct {
	mu       sync.Mutex
	asked    bool
	accepts  []string // names of the CAs that the server accepts, at most 4
	had      int      // pairs that were there
	sent     *pair
	sentLeaf *x509.Certificate
}

// answer chooses like crypto/tls with Config.Certificates: the first pair that
// the server's words allow, else none (RFC 8446, 4.4.2: an empty list).
func (d *clientDemand) answer(info *tls.CertificateRequestInfo, pairs []pair) *tls.Certificate {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked, d.had = true, len(pairs)
	for _, raw := range info.AcceptableCAs[:min(len(info.AcceptableCAs), 4)] {
		var rdn pkix.RDNSequence
		if _, err := asn1.Unmarshal(raw, &rdn); err == nil {
			var n pkix.Name
			n.FillFromRDNSequence(&rdn)
			d.accepts = append(d.accepts, classify.Redact(n.String(), 128))
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

func (d *clientDemand) made() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

func (d *clientDemand) offered() string {
	d.mu.Lock()
	defer d.mu.Unlock()
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
	if !d.made() || version < tls.VersionTLS13 {
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

// refine reads an alert to a handshake in which a client certificate was
// demanded. Before TLS 1.3 there was no alert for one that did not come: servers
// sent bad_certificate or handshake_failure.
func (d *clientDemand) refine(l *look, f classify.Finding) classify.Finding {
	d.mu.Lock()
	defer d.mu.Unlock()
	alert := f.Fact(classify.FactAlert)
	accepts := ""
	if len(d.accepts) > 0 {
		accepts = "; it accepts what is issued by " + strings.Join(d.accepts, " or ")
	}
	cause, summary := classify.TLSClientCertificateRequired, ""
	switch {
	case d.sent != nil:
		why := ""
		if leaf := d.sentLeaf; leaf != nil && l.now.After(leaf.NotAfter) {
			why = fmt.Sprintf(", which expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
		} else if leaf != nil && len(leaf.ExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
			why = ", which was not issued for clients"
		}
		cause = classify.TLSClientCertificateRejected
		summary = fmt.Sprintf("the server refused the client certificate of %s%s with the alert %q", d.sent.source, why, alert)
	case d.had > 0:
		summary = fmt.Sprintf("the server demands a client certificate, and none of the %d configured ones fits what it asks for (alert %q)", d.had, alert)
	default:
		summary = fmt.Sprintf("the server asked for a client certificate and ended the handshake with the alert %q when none came", alert)
	}
	f = registry.Refine(f, cause, "")
	f.Summary = l.endpoint() + ": " + summary + accepts
	return f
}

// refusal is the finding for a word that came after the handshake, nil if none
// did: a close or a reset without an alert has other reasons as well.
func (s *shake) refusal(l *look) *classify.Finding {
	if s.refused == nil {
		return nil
	}
	stage := &classify.StageError{Stage: classify.StageHandshake, Endpoint: l.endpoint(), Address: s.remote(l.address), Err: s.refused}
	f := classify.Error(stage)
	var alert tls.AlertError
	if f.Fact(classify.FactAlert) == "" && !errors.As(s.refused, &alert) {
		return nil
	}
	f = s.client.refine(l, f)
	f.Endpoint = l.endpoint()
	return &f
}
