package classify

import (
	"errors"
	"fmt"
	"time"
)

// What a probe says of an answer that is there and cannot be used. Wrap them to
// say more.
var (
	// ErrMalformedResponse: what came is no HTTP.
	ErrMalformedResponse = errors.New("malformed HTTP response")
	// ErrResponseTooLarge: more came than is read.
	ErrResponseTooLarge = errors.New("response over the limit")
)

// Stage is the part of one request that a live error interrupted.
type Stage string

// The stages, in the order in which a request passes them.
const (
	StageLookup       Stage = "lookup"           // asking a nameserver
	StageConnect      Stage = "connect"          // SYN sent, nothing accepted yet
	StageProxyConnect Stage = "proxy-connect"    // CONNECT sent to a forward proxy
	StageHandshake    Stage = "tls-handshake"    // connected, TLS not yet done
	StageHeaders      Stage = "response-headers" // request sent or being sent, no answer yet
	StageBody         Stage = "response-body"    // headers arrived, body not complete
)

// StageError is a live error together with the stage that it hit. Probes wrap
// with it, because a bare deadline or EOF does not say what was interrupted.
type StageError struct {
	Stage     Stage
	Operation Operation     // "" = not part of a pull
	Endpoint  string        // host[:port]; for StageLookup the name looked up
	Address   string        // the address in use, "" = none
	Limit     time.Duration // > 0: the step's own limit ended it, so nothing came for that long
	Err       error
}

// Error returns stage, endpoint and the wrapped error.
func (e *StageError) Error() string {
	s := string(e.Stage)
	if e.Endpoint != "" {
		s += " " + e.Endpoint
	}
	if e.Limit > 0 {
		return fmt.Sprintf("%s: nothing within %v: %v", s, e.Limit, e.Err)
	}
	return fmt.Sprintf("%s: %v", s, e.Err)
}

// Unwrap returns the wrapped error.
func (e *StageError) Unwrap() error { return e.Err }

// HTTPAnswer is a complete HTTP answer that a pull cannot use, as an error. The
// probes fill it, so that the meaning of a status is decided here alone and is
// the same for a live answer and for a text.
type HTTPAnswer struct {
	Operation Operation
	Host      string // host[:port] that answered
	URL       string // redacted: no query, no user information
	Method    string
	Status    int
	// Answerer says who wrote the answer: "registry" (the error JSON of the
	// distribution specification or its version header), "object-store" (XML
	// error of a blob store), "html" (a page), "proxy", or "unknown".
	Answerer string
	Codes    []string // error codes of the body, upper case as sent, at most 8
	Message  string   // the body's own words, bounded and redacted
	// Credentialed says that the request carried a credential or a token.
	Credentialed bool
	// Mirror says that the host is a mirror and not the image's own registry.
	Mirror bool
}

// Error returns one line without anything secret.
func (a *HTTPAnswer) Error() string {
	s := fmt.Sprintf("%s %s: %d", a.Method, a.URL, a.Status)
	for _, c := range a.Codes {
		s += " " + c
	}
	if a.Message != "" {
		s += ": " + a.Message
	}
	return s
}

// Who wrote an answer, the values of [HTTPAnswer].Answerer.
const (
	answererRegistry    = "registry"
	answererObjectStore = "object-store"
	answererHTML        = "html"
	answererProxy       = "proxy"
)
