package tlsauth

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

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
