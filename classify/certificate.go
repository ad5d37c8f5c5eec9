package classify

import (
	"bytes"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"time"
)

// certificateCause reads an error of crypto/x509. leaf is the certificate that
// the server presented as its own, nil if the error did not carry it.
func certificateCause(err error, leaf *x509.Certificate) (Cause, *x509.Certificate, []Fact) {
	var (
		authority  x509.UnknownAuthorityError
		invalid    x509.CertificateInvalidError
		hostname   x509.HostnameError
		insecure   x509.InsecureAlgorithmError
		constraint x509.ConstraintViolationError
		roots      x509.SystemRootsError
		extension  x509.UnhandledCriticalExtension
	)
	switch {
	case errors.As(err, &hostname):
		return hostnameCause(hostname), hostname.Certificate, nil
	case errors.As(err, &invalid):
		return invalidCause(invalid), invalid.Cert, fact(FactMessage, invalid.Detail)
	case errors.As(err, &authority):
		// Why a candidate was passed over is in the text alone.
		if hint := authority.Error(); strings.Contains(hint, "insecure algorithm") {
			return TLSWeakSignature, authority.Cert, nil
		} else if strings.Contains(hint, "cannot sign this kind of certificate") {
			return TLSWrongKeyUsage, authority.Cert, nil
		}
		if selfSigned(leaf) || (leaf == nil && authority.Cert != nil && !authority.Cert.IsCA && selfSigned(authority.Cert)) {
			return TLSSelfSigned, authority.Cert, nil
		}
		return TLSUnknownAuthority, authority.Cert, nil
	case errors.As(err, &insecure):
		return TLSWeakSignature, nil, fact(FactMessage, insecure.Error())
	case errors.As(err, &roots):
		return TLSNoSystemRoots, nil, append([]Fact{{FactRoots, "none"}}, fact(FactMessage, roots.Error())...)
	case errors.As(err, &constraint), errors.As(err, &extension):
		return TLSWrongKeyUsage, nil, nil
	}
	return "", nil, nil
}

func invalidCause(e x509.CertificateInvalidError) Cause {
	switch e.Reason {
	case x509.Expired:
		return validityCause(e.Detail, e.Cert, time.Now())
	case x509.NameConstraintsWithoutSANs:
		return TLSNoSAN
	case x509.NameMismatch, x509.TooManyConstraints, x509.NoValidChains:
		return TLSUnknownAuthority
	}
	// The others say that this certificate, or the authority above it, may not
	// be used for this: basic constraints, key usage, name constraints.
	return TLSWrongKeyUsage
}

// validityCause tells the two ends of the validity apart. crypto/x509 has one
// reason for both; the platform verifier of Windows gives no detail either.
func validityCause(detail string, cert *x509.Certificate, now time.Time) Cause {
	switch {
	case strings.Contains(detail, " is before "):
		return TLSNotYetValid
	case strings.Contains(detail, " is after "):
		return TLSExpired
	case cert != nil && now.Before(cert.NotBefore):
		return TLSNotYetValid
	}
	return TLSExpired
}

func hostnameCause(e x509.HostnameError) Cause {
	c := e.Certificate
	switch {
	case c == nil:
		return TLSHostnameMismatch
	case net.ParseIP(strings.Trim(e.Host, "[]")) != nil:
		if len(c.IPAddresses) == 0 && !strings.Contains(e.Error(), "legacy Common Name") {
			return TLSNoIPSAN
		}
		if len(c.IPAddresses) == 0 {
			return TLSNoSAN
		}
		return TLSHostnameMismatch
	case len(c.DNSNames) == 0:
		return TLSNoSAN
	}
	return TLSHostnameMismatch
}

// selfSigned reports whether c is signed with its own key.
func selfSigned(c *x509.Certificate) bool {
	return c != nil && bytes.Equal(c.RawIssuer, c.RawSubject) &&
		c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

// certificateFacts describes the certificate that the server presented.
func certificateFacts(c *x509.Certificate) []Fact {
	if c == nil {
		return nil
	}
	facts := append(fact(FactSubject, c.Subject.String()), fact(FactIssuer, c.Issuer.String())...)
	names := append([]string(nil), c.DNSNames[:min(len(c.DNSNames), 8)]...)
	for _, ip := range c.IPAddresses[:min(len(c.IPAddresses), 8)] {
		names = append(names, ip.String())
	}
	facts = append(facts, fact(FactNames, strings.Join(names, ", "))...)
	if !c.NotAfter.IsZero() {
		facts = append(facts,
			Fact{FactNotBefore, c.NotBefore.UTC().Format(time.RFC3339)},
			Fact{FactNotAfter, c.NotAfter.UTC().Format(time.RFC3339)})
	}
	return facts
}
