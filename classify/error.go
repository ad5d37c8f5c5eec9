package classify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Error reads a live Go error: by type and by error number first, by its text
// only where the standard library has neither. nil gives the zero Finding, and
// an error that already is a [Finding], however wrapped, comes back as it is.
//
// A bare deadline, EOF or reset does not say what it interrupted: wrap it in a
// [StageError], whose stage then decides. What is not understood becomes
// [UnknownUnclassified] with the redacted text as its summary, never a guess.
//
// The Finding says what this one error means. It does not say that nothing else
// is broken, nor that the peer is the one that was meant.
func Error(err error) Finding {
	if err == nil {
		return Finding{}
	}
	var known Finding
	if errors.As(err, &known) {
		return known
	}
	var pointer *Finding
	if errors.As(err, &pointer) && pointer != nil {
		return *pointer
	}
	sc := sceneOf(err)
	f, ok := typed(err, sc)
	if !ok {
		f, ok = worded(err, sc)
	}
	if !ok {
		f = sc.finding(UnknownUnclassified)
		f.Summary = Redact(err.Error(), 512)
	}
	return f.WithError(err)
}

// scene is what is known around a failure, from the wrapping errors or from the
// text before the innermost part.
type scene struct {
	stage     Stage
	operation Operation
	endpoint  string
	address   string
	limit     time.Duration
	unix      bool // the peer is a local socket, not a registry
	facts     []Fact
}

// sceneOf walks the chain of err. Inner values win: they are nearer to what
// happened.
func sceneOf(err error) scene {
	var sc scene
	for e := err; e != nil; e = unwrapFirst(e) {
		switch v := e.(type) {
		case *StageError:
			sc.stage = v.Stage
			sc.operation = orElse(v.Operation, sc.operation)
			sc.endpoint = orElse(v.Endpoint, sc.endpoint)
			sc.address = orElse(v.Address, sc.address)
			if v.Limit > 0 {
				sc.limit = v.Limit
			}
		case *url.Error:
			req := parseRequest(v.Op, v.URL)
			if sc.endpoint == "" {
				sc.endpoint = req.host
			}
			if sc.operation == "" {
				sc.operation = req.operation()
			}
		case *net.OpError:
			switch {
			case v.Op == "proxyconnect":
				sc.stage, sc.endpoint, sc.address = StageProxyConnect, "", ""
			case strings.HasPrefix(v.Net, "unix"):
				sc.unix = true
			case v.Addr != nil && (v.Op == "dial" || v.Op == "read" || v.Op == "write"):
				sc.address = v.Addr.String()
			}
		case *net.DNSError:
			sc.stage = StageLookup
			sc.endpoint = orElse(v.Name, sc.endpoint)
			sc.address = ""
		}
	}
	if sc.endpoint == "" {
		sc.endpoint = sc.address
	}
	return sc
}

// unwrapFirst follows the first branch of a joined error, which is the one that
// [errors.As] looks into first.
func unwrapFirst(err error) error {
	switch v := err.(type) {
	case interface{ Unwrap() error }:
		return v.Unwrap()
	case interface{ Unwrap() []error }:
		for _, e := range v.Unwrap() {
			if e != nil {
				return e
			}
		}
	}
	return nil
}

func orElse[T ~string](v, other T) T {
	if v != "" {
		return v
	}
	return other
}

// finding builds a finding at the scene, with its address and limit as facts
// and its summary composed.
func (sc scene) finding(c Cause, facts ...Fact) Finding {
	if sc.address != "" && !hasFact(facts, FactAddress) {
		facts = append([]Fact{{FactAddress, sc.address}}, facts...)
	}
	for _, fact := range sc.facts {
		if !hasFact(facts, fact.Key) {
			facts = append(facts, fact)
		}
	}
	if sc.limit > 0 {
		facts = append(facts, Fact{FactLimit, sc.limit.String()})
	}
	f := New(c, "", facts...)
	f.Endpoint, f.Operation = sc.endpoint, sc.operation
	if f.Operation == "" {
		f.Operation = OperationUnknown
	}
	f.Summary = sentence(f)
	return f
}

func hasFact(facts []Fact, key string) bool {
	for _, f := range facts {
		if f.Key == key {
			return true
		}
	}
	return false
}

// fact returns a fact with a redacted value, or nothing for an empty value.
func fact(key, value string) []Fact {
	value = Redact(value, 256)
	if strings.TrimSpace(value) == "" {
		return nil
	}
	return []Fact{{key, value}}
}

// typed reads err by types and error numbers alone.
func typed(err error, sc scene) (Finding, bool) {
	var answer *HTTPAnswer
	if errors.As(err, &answer) {
		return answerFinding(answer, sc), true
	}
	switch {
	case errors.Is(err, ErrResponseTooLarge):
		return sc.finding(EndpointResponseTooLarge), true
	case errors.Is(err, ErrMalformedResponse):
		return sc.finding(EndpointMalformedResponse, fact(FactMessage, err.Error())...), true
	}
	var dnsErr *net.DNSError
	if errors.As(err, &dnsErr) {
		return dnsFinding(dnsErr, sc)
	}
	if f, ok := certificateFinding(err, sc); ok {
		return f, true
	}
	if f, ok := handshakeFinding(err, sc); ok {
		return f, true
	}
	var op *net.OpError
	isOp := errors.As(err, &op)
	for isOp && op.Op == "proxyconnect" { // the wrapper says where, its inside says what
		inner := op
		if isOp = errors.As(inner.Err, &op); !isOp {
			break
		}
	}
	if symbol := errnoFact(err); symbol != "" {
		established := isOp && (op.Op == "read" || op.Op == "write")
		if !isOp {
			established = sc.stage == StageHandshake || sc.stage == StageHeaders || sc.stage == StageBody
		}
		if isOp || sc.stage != "" || symbol == "EMFILE" || symbol == "ENFILE" || symbol == "ENOSPC" || symbol == "EDQUOT" {
			if c := errnoCause(symbol, sc, established); c != "" {
				return sc.finding(c, Fact{FactErrno, symbol}), true
			}
		}
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return sc.finding(TLSHTTPResponseToHTTPSClient), true
	}
	return endFinding(err, sc, isOp, op)
}

// worded reads the text of a live error, for what the standard library has only
// in words (net/http's own timeouts, HTTP/2). The endpoint and the operation of
// the wrapping errors stay.
func worded(err error, sc scene) (Finding, bool) {
	text := err.Error()
	if len(text) > maxText {
		text = text[:maxText]
	}
	p := newPiece(text)
	h, ok := p.core()
	if !ok {
		return Finding{}, false
	}
	if h.address != "" && sc.address == "" {
		sc.address = h.address
	}
	if sc.endpoint == "" {
		sc.endpoint = h.endpoint
	}
	if sc.operation == "" {
		sc.operation = h.operation
	}
	f := sc.finding(h.cause, h.facts...)
	f.Alternatives = h.alternatives
	f.Certainty = CertaintyLikely
	if spokenByGo(err) {
		f.Certainty = CertaintyProven
	}
	return f, true
}

// spokenByGo reports whether the innermost error is one of the standard
// library's own, so that its words are as exact as a type.
func spokenByGo(err error) bool {
	for next := unwrapFirst(err); next != nil; next = unwrapFirst(err) {
		err = next
	}
	_, ok := goWords[err.Error()]
	return ok
}

// dnsFinding reads the error of a lookup. Since the resolver keeps the socket
// error only as text, that text is read with the same table as an event's.
func dnsFinding(e *net.DNSError, sc scene) (Finding, bool) {
	sc.stage, sc.endpoint = StageLookup, orElse(e.Name, sc.endpoint)
	facts := fact(FactResolver, e.Server)
	if symbol := wordsErrno(e.Err); symbol != "" {
		facts = append(facts, Fact{FactErrno, symbol})
	}
	if errors.Is(e, context.Canceled) && sc.limit == 0 {
		return sc.finding(UnknownCanceledNoCause, facts...), true
	}
	c := lookupCause(e.Err)
	switch {
	case e.IsNotFound && c != DNSNoUsableAddress:
		c = DNSNXDOMAIN
	case e.IsTimeout || (c == "" && sc.limit > 0):
		c = DNSResolverTimeout
	case c == "" && e.IsTemporary:
		c = DNSTemporaryFailure
	case c == "":
		return Finding{}, false
	}
	f := sc.finding(c, facts...)
	f.Alternatives = lookupAlternatives(c)
	return f, true
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
