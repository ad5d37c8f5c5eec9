package classify

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
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
			sc.endpoint = orElse(sc.endpoint, req.host)
			sc.operation = orElse(sc.operation, req.operation())
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
	sc.endpoint = orElse(sc.endpoint, sc.address)
	return sc
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
		isOp = errors.As(op.Err, &op)
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
	var p piece
	p.read(text[:min(len(text), maxText)])
	h, ok := p.core()
	if !ok {
		return Finding{}, false
	}
	sc.address = orElse(sc.address, h.address)
	sc.endpoint = orElse(sc.endpoint, h.endpoint)
	sc.operation = orElse(sc.operation, h.operation)
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
	return slices.Contains(goWords, err.Error())
}

// dnsFinding reads the error of a lookup. Since the resolver keeps the socket
// error only as text, that text is read with the same table as an event's.
func dnsFinding(e *net.DNSError, sc scene) (Finding, bool) {
	sc.stage, sc.endpoint = StageLookup, orElse(e.Name, sc.endpoint)
	facts := fact(FactResolver, e.Server, FactErrno, wordsErrno(e.Err))
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

// endFinding reads deadlines, cancellations and ends of a stream.
func endFinding(err error, sc scene, isOp bool, op *net.OpError) (Finding, bool) {
	canceled := errors.Is(err, context.Canceled)
	var netErr net.Error
	timeout := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		(errors.As(err, &netErr) && netErr.Timeout())
	switch {
	case sc.limit > 0 && (canceled || timeout || errors.Is(err, net.ErrClosed) || errors.Is(err, fs.ErrClosed)):
		// The step's own limit ended it, whatever way the interruption took.
		return sc.ended(stageTimeout(sc.stage)), true
	case canceled && !timeout:
		return sc.finding(UnknownCanceledNoCause), true
	case timeout && sc.stage == "":
		if c := unstagedTimeout(err, isOp, op); c != "" {
			return sc.ended(c), true
		}
		return Finding{}, false // net/http says more in words
	case timeout && sc.stage == StageProxyConnect && isOp && op.Op == "dial":
		return sc.finding(EndpointProxyUnreachable), true
	case timeout:
		return sc.ended(stageTimeout(sc.stage)), true
	case errors.Is(err, io.ErrUnexpectedEOF):
		return sc.ended(stageEnd(sc.stage, true)), true
	case errors.Is(err, io.EOF):
		return sc.ended(stageEnd(sc.stage, false)), true
	}
	return Finding{}, false
}

// unstagedTimeout reads a timeout that no probe wrapped: only the socket
// operation can say what was waited for.
func unstagedTimeout(err error, isOp bool, op *net.OpError) Cause {
	switch {
	case isOp && op.Op == "dial":
		return RouteConnectTimeout
	case isOp && (op.Op == "read" || op.Op == "write") && strings.HasPrefix(op.Net, "tcp"):
		return EndpointReadTimeout
	}
	for e := err; e != nil; e = unwrapFirst(e) {
		if e == context.DeadlineExceeded && !strings.Contains(err.Error(), "Client.Timeout") {
			return UnknownRequestDeadlineNoStage
		}
	}
	return ""
}

// stageTimeout says what a timeout means in a stage.
func stageTimeout(s Stage) Cause { return orElse(stageTimeouts[s], UnknownRequestDeadlineNoStage) }

var stageTimeouts = map[Stage]Cause{
	StageLookup: DNSResolverTimeout, StageConnect: RouteConnectTimeout, StageProxyConnect: EndpointProxyRefusedConnect,
	StageHandshake: EndpointTLSHandshakeTimeout, StageHeaders: EndpointResponseHeaderTimeout, StageBody: EndpointDownloadStalled,
}

// stageEnd says what the end of a stream means in a stage; cut tells that part
// of an answer had arrived.
func stageEnd(s Stage, cut bool) Cause {
	switch {
	case s == StageLookup:
		return DNSAnswerMalformed
	case s == StageProxyConnect:
		return EndpointProxyRefusedConnect
	case s == StageBody || s == "" && cut:
		return EndpointDownloadInterrupted
	}
	return EndpointConnectionClosedEOF
}
