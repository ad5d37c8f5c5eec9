package reach

import (
	"context"

	"github.com/pullwalk/pullwalk/classify"
)

// The keys of facts of this package, beside those of classify.
const (
	factICMP     = "icmp"      // kind, numbers and sender of an ICMP answer
	factHops     = "hops"      // the routers that answered, nearest first
	factLastHop  = "last-hop"  // the last of them
	factOther    = "other"     // an answer of the same address on another port
	factRule     = "rule"      // security rule that decides
	factNextHop  = "next-hop"  // kind and address of the next hop in a given table
	factIntended = "intended"  // next hop that was declared
	factUse      = "use"       // "262144/262144": in use, of what there is
	factSYNs     = "syns-sent" // SYNs that the connect took
)

// addFact returns f with a fact more, unless value is empty or f has such a
// fact already. The list of the caller's finding is not touched.
func addFact(f classify.Finding, key, value string) classify.Finding {
	if value == "" || f.Fact(key) != "" {
		return f
	}
	f.Facts = append(f.Facts[:len(f.Facts):len(f.Facts)], classify.Fact{Key: key, Value: value})
	return f
}

// instead returns a finding of another cause in the place of f. It keeps the Go
// error behind f, not the stage, whose sentence would be that of f's cause.
func instead(f classify.Finding, cause classify.Cause, certainty classify.Certainty, summary string, alternatives ...classify.Cause) classify.Finding {
	g := classify.New(cause, summary, f.Facts...)
	g.Endpoint, g.Operation, g.Severity = f.Endpoint, f.Operation, f.Severity
	g.Certainty, g.Alternatives = certainty, alternatives
	err := f.Unwrap()
	if stage, ok := err.(*classify.StageError); ok {
		err = stage.Err
	}
	return g.WithError(err)
}

// maxErrorText bounds Connect.Error and reasons that quote an error, in bytes.
const maxErrorText = 256

func boundedText(err error) string { return classify.Redact(err.Error(), maxErrorText) }

// endedReason says that the caller's context ended while doing what.
func endedReason(ctx context.Context, what string) string {
	return "the caller's context ended before " + what + " was decided: " +
		classify.Redact(context.Cause(ctx).Error(), maxErrorText)
}
