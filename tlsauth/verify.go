package tlsauth

import (
	"bytes"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
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
	maxName       = 32       // attributes of a name that are printed
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

// judge verifies the chain as the runtime does. If that fails, it looks for
// everything that is wrong, the problem that the runtime reports first: dates of
// the leaf, its name, then the path to a root (the order of Certificate.Verify).
func (t *trial) judge() (chains [][]*x509.Certificate, problems []problem) {
	chains, err := t.verify(t.name, t.now, x509.ExtKeyUsageServerAuth)
	if err == nil {
		return chains, nil
	}
	problems = append(problems, t.dates(t.leaf())...)
	problems = append(problems, t.names()...)
	problems = append(problems, t.path()...)
	if len(problems) == 0 { // not understood: say so in the library's own words
		f := classify.Error(&classify.StageError{Stage: classify.StageHandshake, Err: err})
		problems = append(problems, problem{cause: f.Cause, summary: "the chain does not verify: " + classify.Redact(err.Error(), 200)})
	}
	problems[0].err = err
	if t.more > 0 {
		for i := range problems {
			if p := &problems[i]; !dated(p.cause) && p.cause != classify.TLSHostnameMismatch && p.certainty == "" {
				p.certainty = classify.CertaintyLikely
				p.summary += fmt.Sprintf("; the endpoint sent %d certificates, of which the first %d were looked at", len(t.certs)+t.more, len(t.certs))
			}
		}
	}
	for i := range problems {
		problems[i].facts = append(t.facts(), problems[i].facts...)
	}
	return nil, problems
}

func root(chains [][]*x509.Certificate) *x509.Certificate {
	return chains[0][len(chains[0])-1]
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

// names judges the names of the leaf (RFC 9525: only the subject alternative
// names count, and an address matches only an address entry).
func (t *trial) names() []problem {
	leaf := t.leaf()
	if leaf.VerifyHostname(t.name) == nil {
		return nil
	}
	_, err := netip.ParseAddr(bare(t.name))
	isIP := err == nil
	legacy := len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses)+len(leaf.URIs) == 0 && leaf.Subject.CommonName == bare(t.name)
	switch {
	case isIP && len(leaf.IPAddresses) == 0 && !legacy:
		return []problem{{cause: classify.TLSNoIPSAN, summary: fmt.Sprintf(
			"the endpoint is addressed as %s and the certificate names no address, only %s", t.name, offered(leaf))}}
	case legacy || !isIP && len(leaf.DNSNames) == 0:
		return []problem{{cause: classify.TLSNoSAN, summary: fmt.Sprintf(
			"the certificate names no host among its subject alternative names; its common name %q does not count",
			classify.Redact(leaf.Subject.CommonName, 128))}}
	}
	summary := fmt.Sprintf("the certificate is for %s, not for %s", offered(leaf), t.name)
	if plain := strings.Replace(t.name, ".privatelink.", ".", 1); plain != t.name && leaf.VerifyHostname(plain) == nil {
		// Azure and others resolve the plain name to the alias; the alias itself
		// stands in no certificate.
		summary += fmt.Sprintf("; the reference names the private-link alias, and %s is the name that the certificate is for", plain)
	}
	return []problem{{cause: classify.TLSHostnameMismatch, summary: summary}}
}

// path judges the way from the leaf to a root, whatever the name says.
func (t *trial) path() []problem {
	_, err := t.verify("", t.now, x509.ExtKeyUsageServerAuth)
	if err == nil {
		return nil
	}
	var out []problem
	if usage := t.usage(err); usage != nil {
		out = append(out, *usage)
	}
	chains, at, never := t.trustedAt()
	if chains == nil {
		return append(out, t.untrusted(never)...)
	}
	if !at.Equal(t.now) {
		for _, cert := range chains[0][1:] { // the leaf was judged before
			out = append(out, t.dates(cert)...)
		}
	}
	if len(out) == 0 && len(t.dates(t.leaf())) == 0 {
		out = append(out, t.untrusted(err)...)
	}
	return out
}

// usage says that the leaf, or a CA above it, may not speak for servers.
func (t *trial) usage(err error) *problem {
	var invalid x509.CertificateInvalidError
	asked := errors.As(err, &invalid) && (invalid.Reason == x509.IncompatibleUsage || invalid.Reason == x509.CANotAuthorizedForExtKeyUsage)
	leaf := t.leaf()
	limited := len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0
	fits := slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) || slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny)
	switch {
	case limited && !fits:
		return &problem{cause: classify.TLSWrongKeyUsage, summary: "the certificate was issued for another use: its extended key usage does not include server authentication"}
	case asked:
		return &problem{cause: classify.TLSWrongKeyUsage, summary: "a CA of the chain may not issue certificates for server authentication"}
	}
	return nil
}

// trustedAt looks for a time at which the path would hold, so that "expired"
// and "not trusted" can be told apart. Without chains, err is what is wrong with
// the path apart from dates, if anything is.
func (t *trial) trustedAt() (chains [][]*x509.Certificate, at time.Time, err error) {
	from, to := t.leaf().NotBefore, t.leaf().NotAfter
	for _, cert := range t.certs[1:] {
		if cert.NotBefore.After(from) {
			from = cert.NotBefore
		}
		if cert.NotAfter.Before(to) {
			to = cert.NotAfter
		}
	}
	for _, at = range []time.Time{t.now, from.Add(to.Sub(from) / 2), t.leaf().NotAfter, t.leaf().NotBefore} {
		chains, failure := t.verify("", at, x509.ExtKeyUsageAny)
		if failure == nil {
			return chains, at, nil
		}
		var invalid x509.CertificateInvalidError
		if dated := errors.As(failure, &invalid) && invalid.Reason == x509.Expired; err == nil || !dated {
			err = failure
		}
	}
	return nil, time.Time{}, err
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

// selfSigned tells whether the certificate's own key signed it. An algorithm
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

func subject(cert *x509.Certificate) string { return printName(cert.Subject, 256) }

// printName is a name in the usual form. Package pkix takes quadratic time for a
// name of very many attributes, of which the first ones are printed then.
func printName(n pkix.Name, limit int) string {
	if len(n.Names) > maxName {
		few := make(pkix.RDNSequence, maxName)
		for i := range few {
			few[i] = n.Names[i : i+1]
		}
		return classify.Redact(few.String(), limit-1) + "…"
	}
	return classify.Redact(n.String(), limit)
}

// offered lists the names of a certificate in one line.
func offered(cert *x509.Certificate) string {
	names, more := altNames(cert, 8)
	if len(names) == 0 {
		return "no name"
	}
	s := strings.Join(names, ", ")
	if more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// altNames returns at most limit DNS and IP names, and how many more there are.
func altNames(cert *x509.Certificate, limit int) (names []string, more int) {
	names = append(names, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) > limit {
		names, more = names[:limit], len(names)-limit
	}
	for i, n := range names {
		names[i] = classify.Redact(n, 255)
	}
	return names, more
}
