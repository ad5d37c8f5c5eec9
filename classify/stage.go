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
	Limit     time.Duration // > 0: the step's own limit ended it, so silence is proven for that long
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
