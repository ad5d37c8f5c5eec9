package classify

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"time"
)

// alertNumber finds the TLS alert that text begins with, "tls: bad certificate".
// The words are those that crypto/tls prints for the number.
func alertNumber(text string) (uint8, bool) {
	best, number := 0, uint8(0)
	for n := range uint8(122) {
		words := tls.AlertError(n).Error()
		if strings.HasPrefix(words, "tls: alert(") {
			continue
		}
		// The longest wins: one alert's words may begin another's.
		if len(words) > best && strings.HasPrefix(text, words) {
			best, number = len(words), n
		}
	}
	return number, best > 0
}

// alertCause says what an alert of the server means (RFC 8446 section 6.2).
func alertCause(number uint8) (Cause, []Cause) {
	switch number {
	case 41, 116: // no certificate (SSL 3), certificate required
		return TLSClientCertificateRequired, nil
	case 42: // bad certificate: TLS 1.2 servers send it also when none came
		return TLSClientCertificateRejected, []Cause{TLSClientCertificateRequired}
	case 43, 44, 45, 46, 48, 49: // unsupported, revoked, expired, unknown, unknown authority, access denied
		return TLSClientCertificateRejected, nil
	case 70, 86: // protocol version, inappropriate fallback
		return TLSProtocolVersion, nil
	case 71: // insufficient security
		return TLSCipherMismatch, nil
	case 40: // handshake failure covers every parameter without agreement
		return TLSHandshakeAlert, []Cause{TLSCipherMismatch, TLSClientCertificateRequired}
	}
	return TLSHandshakeAlert, nil
}

func alertFacts(number uint8) []Fact {
	return []Fact{{FactAlert, strings.TrimPrefix(tls.AlertError(number).Error(), "tls: ")}}
}

func alertFinding(number uint8, sc scene) Finding {
	c, alternatives := alertCause(number)
	f := sc.finding(c, alertFacts(number)...)
	f.Alternatives = alternatives
	return f
}

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
		switch text := authority.Error(); {
		case strings.Contains(text, "insecure algorithm"):
			return TLSWeakSignature, authority.Cert, nil
		case strings.Contains(text, "cannot sign this kind of certificate"):
			return TLSWrongKeyUsage, authority.Cert, nil
		case selfSigned(leaf) || (leaf == nil && authority.Cert != nil && !authority.Cert.IsCA && selfSigned(authority.Cert)):
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
	after := strings.Contains(detail, " is after ")
	if strings.Contains(detail, " is before ") || !after && cert != nil && now.Before(cert.NotBefore) {
		return TLSNotYetValid
	}
	return TLSExpired
}

func hostnameCause(e x509.HostnameError) Cause {
	c := e.Certificate
	isIP := net.ParseIP(strings.Trim(e.Host, "[]")) != nil
	switch {
	case c == nil, isIP && len(c.IPAddresses) > 0, !isIP && len(c.DNSNames) > 0:
		return TLSHostnameMismatch
	case isIP && !strings.Contains(e.Error(), "legacy Common Name"):
		return TLSNoIPSAN
	}
	return TLSNoSAN
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
	names := slices.Clone(c.DNSNames[:min(len(c.DNSNames), 8)])
	for _, ip := range c.IPAddresses[:min(len(c.IPAddresses), 8)] {
		names = append(names, ip.String())
	}
	facts := fact(FactSubject, c.Subject.String(), FactIssuer, c.Issuer.String(), FactNames, strings.Join(names, ", "))
	if !c.NotAfter.IsZero() {
		facts = append(facts, fact(FactNotBefore, c.NotBefore.UTC().Format(time.RFC3339), FactNotAfter, c.NotAfter.UTC().Format(time.RFC3339))...)
	}
	return facts
}

// certificate reads what crypto/x509 prints.
func (p *piece) certificate() (hit, bool) {
	if !p.has("x509: ") {
		return hit{}, false
	}
	i := strings.Index(p.lower[p.tail:], "x509: ")
	if i < 0 {
		return hit{}, false
	}
	at := p.tail + i
	w, ok := p.matchBehind(certificateTable(), max(0, at-60))
	if !ok {
		p.stopped = true
		return hit{}, false
	}
	h := w.hit()
	h.nobody = p.proxied() // the certificate is the proxy's, which is not named
	rest := p.flat[at+len("x509: "):]
	switch w.cause {
	case TLSExpired:
		h.cause = validityCause(rest[:min(len(rest), 300)], nil, noTime)
		if j := strings.Index(rest[:min(len(rest), 300)], "current time "); j >= 0 {
			detail, _, _ := strings.Cut(rest[j:], "\"")
			h.facts = fact(FactMessage, detail[:min(len(detail), 100)])
		}
	case TLSHostnameMismatch:
		names, host, ok := strings.Cut(strings.TrimPrefix(rest, "certificate is valid for "), ", not ")
		if ok && len(names) <= 2048 {
			h.facts = fact(FactNames, names)
			if !p.hasReq {
				host = host[:min(len(host), 256)]
				if n := strings.IndexAny(host, " ,;\"'"); n >= 0 {
					host = host[:n]
				}
				h.endpoint = strings.TrimRight(host, ".:")
			}
		}
	}
	return h, true
}

// handshake reads what crypto/tls prints besides certificates, and answers in
// the wrong protocol.
func (p *piece) handshake() (hit, bool) {
	if p.has("remote error: tls: ") {
		i := strings.LastIndex(p.lower, "remote error: tls: ")
		number, ok := alertNumber(p.flat[i+len("remote error: "):])
		if !ok {
			p.stopped = true
			return hit{}, false
		}
		c, alternatives := alertCause(number)
		return hit{cause: c, facts: alertFacts(number), alternatives: alternatives, nobody: p.proxied()}, true
	}
	if p.has("local error: tls: ") && !p.has("x509: ") {
		if strings.Contains(p.lower[p.tail:], "local error: tls: no renegotiation") {
			// Servers ask for another handshake to get a certificate; Go's client
			// does not take part unless it is configured to.
			return hit{cause: TLSClientCertificateRequired, alternatives: []Cause{TLSHandshakeAlert}, nobody: p.proxied()}, true
		}
		// This side broke off over what it received (RFC 8446 section 6.2).
		return hit{cause: EndpointMalformedResponse, alternatives: []Cause{TLSHandshakeAlert}, nobody: p.proxied()}, true
	}
	if w, ok := p.words.match(handshakeTable()); ok {
		h := w.hit()
		h.nobody = p.proxied()
		return h, true
	}
	if p.has("malformed http response ") {
		i := strings.Index(p.lower, "malformed http response ")
		// \x15\x03 is the head of a TLS alert record.
		if strings.HasPrefix(strings.TrimLeft(p.lower[i+len("malformed http response "):], `"\`), "x15") {
			return hit{cause: TLSHTTPSResponseToHTTPClient}, true
		}
		return hit{cause: EndpointMalformedResponse}, true
	}
	return hit{}, false
}

// certificateFinding reads what crypto/x509 reports.
func certificateFinding(err error, sc scene) (Finding, bool) {
	var leaf *x509.Certificate
	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) && len(verification.UnverifiedCertificates) > 0 {
		leaf = verification.UnverifiedCertificates[0]
	}
	c, cert, facts := certificateCause(err, leaf)
	if c == "" {
		return Finding{}, false
	}
	if leaf == nil {
		leaf = cert
	}
	return sc.finding(c, append(certificateFacts(leaf), facts...)...), true
}

// handshakeFinding reads what crypto/tls reports besides certificates.
func handshakeFinding(err error, sc scene) (Finding, bool) {
	var record tls.RecordHeaderError
	if errors.As(err, &record) {
		if string(record.RecordHeader[:4]) == "HTTP" {
			return sc.finding(TLSHTTPResponseToHTTPSClient), true
		}
		return sc.finding(TLSNotTLS, fact(FactMessage, record.Msg)...), true
	}
	var alert tls.AlertError // QUIC
	if errors.As(err, &alert) {
		return alertFinding(uint8(alert), sc), true
	}
	for e := err; e != nil; e = unwrapFirst(e) {
		// Over TCP the alert has an unexported type; its words are those of
		// the same number.
		if op, ok := e.(*net.OpError); ok && op.Op == "remote error" && op.Err != nil {
			if number, ok := alertNumber(op.Err.Error()); ok {
				return alertFinding(number, sc), true
			}
		}
	}
	return Finding{}, false
}

// noTime makes validityCause decide by the text alone.
var noTime time.Time
