package tlsauth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// problem is one thing that is wrong with a chain.
type problem struct {
	cause     classify.Cause
	summary   string
	certainty classify.Certainty // "" = proven
	others    []classify.Cause
	facts     []classify.Fact
	err       error
}

// trial is a chain on trial: what was sent, and what it is judged by.
type trial struct {
	ctx   context.Context     // nothing more is computed when it has ended
	certs []*x509.Certificate // as sent, the leaf first, at most maxChain
	more  int                 // certificates that were sent and are not in certs
	name  string
	port  string
	roots *Roots
	now   time.Time

	seen    *Seen
	started time.Time // of the runtime, zero = not known

	verified int                 // chains built so far
	signed   int                 // signatures checked so far
	climbed  []*x509.Certificate // from the leaf to the last certificate sent, once known
}

// A server chooses how many certificates it sends and which of them name each
// other as issuers, so the work on one chain is bounded: crypto/x509 stops at 100
// signatures each time that it builds a chain, and the rest counts here.
const (
	maxChain      = 16       // certificates that are looked at
	maxChainBytes = 64 << 10 // of those together, but always the leaf
	maxVerify     = 32       // chains built for one trial
	maxSignatures = 300      // signatures checked for one trial besides
)

// bounded returns the certificates that are looked at, and how many are not.
func bounded(sent []*x509.Certificate) (certs []*x509.Certificate, more int) {
	size := 0
	for i, cert := range sent {
		if size += len(cert.Raw); i > 0 && (i == maxChain || size > maxChainBytes) {
			return sent[:i], len(sent) - i
		}
	}
	return sent, 0
}

// grace is what a judgement may take beyond the end of its check: a handshake that
// completed just before, beside one that never will, is worth that much.
const grace = 100 * time.Millisecond

// withGrace returns a context that ends that much after ctx.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	graced, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) })
	})
	return graced, func() { stop(); cancel(nil) }
}

// errEffort says that a chain would cost more to judge than it is given.
var errEffort = errors.New("the certificates that were sent are too many to be judged")

// over reports whether the check has ended.
func (t *trial) over() bool { return t.ctx.Err() != nil }

// signs reports whether the key of parent made the signature of cert. It is false
// as well once the trial has had its share.
func (t *trial) signs(parent, cert *x509.Certificate) bool { return t.signature(parent, cert) == nil }

func (t *trial) signature(parent, cert *x509.Certificate) error {
	if t.signed++; t.signed > maxSignatures || t.over() {
		return errEffort
	}
	return parent.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature)
}

// serverUse is what a certificate must be good for.
const serverUse = x509.ExtKeyUsageServerAuth

func (t *trial) leaf() *x509.Certificate { return t.certs[0] }

// verify is crypto/x509 with the given differences from what the runtime asks.
func (t *trial) verify(name string, at time.Time, usage x509.ExtKeyUsage, more ...*x509.Certificate) ([][]*x509.Certificate, error) {
	if t.verified++; t.verified > maxVerify {
		return nil, errEffort
	}
	leave, err := t.seen.enter(t.ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	between := x509.NewCertPool()
	for _, cert := range slices.Concat(t.certs[1:], more) {
		between.AddCert(cert)
	}
	return t.leaf().Verify(x509.VerifyOptions{
		DNSName: name, Intermediates: between, Roots: t.roots.Pool, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{usage},
	})
}

// weak returns the first certificate, other than a self-signed one, whose
// signature algorithm crypto/x509 refuses.
func (t *trial) weak() *x509.Certificate {
	for _, cert := range t.certs {
		switch cert.SignatureAlgorithm {
		case x509.MD2WithRSA, x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1:
			if !bytes.Equal(cert.RawSubject, cert.RawIssuer) {
				return cert
			}
		}
	}
	return nil
}

// parent returns the certificate that was sent and signed cert, nil if none was.
func (t *trial) parent(cert *x509.Certificate) *x509.Certificate {
	for _, p := range t.certs[1:] {
		if p != cert && bytes.Equal(p.RawSubject, cert.RawIssuer) && maySign(p) && t.signs(p, cert) {
			return p
		}
	}
	return nil
}

// maySign reports whether a certificate is one of a CA, as
// [x509.Certificate.CheckSignatureFrom] asks it.
func maySign(c *x509.Certificate) bool {
	return (c.Version != 3 || c.BasicConstraintsValid && c.IsCA) && (c.KeyUsage == 0 || c.KeyUsage&x509.KeyUsageCertSign != 0)
}

// top climbs from the leaf to the last certificate that was sent.
func (t *trial) top() *x509.Certificate {
	if len(t.climbed) == 0 {
		t.climbed = t.certs[:1:1]
		for range t.certs { // bounded: certificates may sign each other in a circle
			p := t.parent(t.climbed[len(t.climbed)-1])
			if p == nil {
				break
			}
			t.climbed = append(t.climbed, p)
		}
	}
	return t.climbed[len(t.climbed)-1]
}

// selfSigned reports whether the certificate's own key signed it. An algorithm
// that Go refuses to check is given the benefit of the doubt.
func (t *trial) selfSigned(cert *x509.Certificate) bool {
	if !bytes.Equal(cert.RawSubject, cert.RawIssuer) {
		return false
	}
	var insecure x509.InsecureAlgorithmError
	err := t.signature(cert, cert)
	return err == nil || errors.As(err, &insecure)
}

// facts are what stands in the leaf, and what it was judged by.
func (t *trial) facts() []classify.Fact {
	leaf := t.leaf()
	return []classify.Fact{
		{Key: classify.FactSubject, Value: subject(leaf)},
		{Key: classify.FactIssuer, Value: printName(leaf.Issuer, 256)},
		{Key: classify.FactNames, Value: offered(leaf)},
		{Key: classify.FactNotBefore, Value: leaf.NotBefore.UTC().Format(time.RFC3339)},
		{Key: classify.FactNotAfter, Value: leaf.NotAfter.UTC().Format(time.RFC3339)},
		{Key: classify.FactRoots, Value: t.roots.describe()},
	}
}

func (t *trial) describe() []Certificate {
	var out []Certificate
	for _, cert := range t.certs[:min(len(t.certs), maxChain)] {
		sum := sha256.Sum256(cert.Raw)
		names, _ := altNames(cert, 32)
		out = append(out, Certificate{
			Subject: subject(cert), Issuer: printName(cert.Issuer, 256), Names: names,
			NotBefore: cert.NotBefore.UTC(), NotAfter: cert.NotAfter.UTC(),
			SHA256: hex.EncodeToString(sum[:]), SelfSigned: t.selfSigned(cert), IsCA: cert.IsCA,
		})
	}
	return out
}

// dated reports whether a problem is one of dates, which a wrong clock explains.
func dated(cause classify.Cause) bool {
	return cause == classify.TLSExpired || cause == classify.TLSNotYetValid
}

// dates judges the validity of one certificate of the chain.
func (t *trial) dates(cert *x509.Certificate) []problem {
	which := "the certificate"
	if cert != t.leaf() {
		which = fmt.Sprintf("the CA certificate %q of the chain", subject(cert))
	}
	at := t.now.UTC().Format(time.RFC3339)
	switch {
	case t.now.Before(cert.NotBefore):
		return []problem{{cause: classify.TLSNotYetValid, summary: fmt.Sprintf("%s is valid from %s on, and this node's clock says %s",
			which, cert.NotBefore.UTC().Format(time.RFC3339), at)}}
	case t.now.After(cert.NotAfter):
		return []problem{{cause: classify.TLSExpired, summary: fmt.Sprintf("%s expired at %s, and this node's clock says %s",
			which, cert.NotAfter.UTC().Format(time.RFC3339), at)}}
	}
	return nil
}
