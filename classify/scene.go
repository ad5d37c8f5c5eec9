package classify

import (
	"slices"
	"strings"
	"time"
)

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
	f.Endpoint, f.Operation = sc.endpoint, orElse(sc.operation, OperationUnknown)
	f.Summary = sentence(f)
	return f
}

// ended builds the finding of an interruption, with the other reading that the
// timeout of a proxy leaves.
func (sc scene) ended(c Cause) Finding {
	f := sc.finding(c)
	if c == EndpointProxyRefusedConnect {
		f.Alternatives = []Cause{EndpointProxyUnreachable}
	}
	return f
}

func hasFact(facts []Fact, key string) bool {
	return slices.ContainsFunc(facts, func(f Fact) bool { return f.Key == key })
}

// fact returns facts of keys and values by turns, redacted, without the empty ones.
func fact(pairs ...string) []Fact {
	var facts []Fact
	for i := 0; i < len(pairs); i += 2 {
		value := pairs[i+1]
		if len(value) > 256 || !plainReference(value) {
			value = Redact(value, 256)
		}
		if strings.TrimSpace(value) != "" {
			facts = append(facts, Fact{pairs[i], value})
		}
	}
	return facts
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
