package classify

import (
	"crypto/tls"
	"strings"
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
