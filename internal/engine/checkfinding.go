package engine

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// ownCause begins the codes of callers; none of ours does.
const ownCause = "x."

// The bounds of what a check says, each far beyond what a caller needs.
const (
	defaultCheck  = 10 * time.Second // as long as a handshake may take
	maxCheckID    = 100
	maxOwn        = 16 // findings of one run, and facts of one finding
	maxOwnText    = 500
	maxOwnScanned = 16 << 10 // of a text, before it is redacted and cut
)

var causePattern = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)*$`)

// normalise makes what a Check returned safe to show and to count: known words
// where words are known, bounded and redacted text elsewhere.
func normalise(id pull.StepID, layer classify.Layer, findings []classify.Finding) []classify.Finding {
	var list []classify.Finding
	// The gravest first, so that none of them is cut off.
	for _, severity := range []classify.Severity{classify.SeverityFail, classify.SeverityWarn, classify.SeverityInfo} {
		for _, f := range findings {
			if severityOf(f) == severity && len(list) < maxOwn {
				list = append(list, ownFinding(id, layer, f))
			}
		}
	}
	if left := len(findings) - len(list); left > 0 {
		more := ownFinding(id, layer, classify.Finding{Cause: "x.more-findings", Severity: classify.SeverityInfo, Certainty: classify.CertaintyProven,
			Summary: fmt.Sprintf("the check %s found %d things more, which are not told", id, left)})
		list = append(list, more)
	}
	return list
}

// severityOf reads an unknown severity as the gravest: a slip in a check must not
// open a gate.
func severityOf(f classify.Finding) classify.Severity {
	if f.Severity == classify.SeverityWarn || f.Severity == classify.SeverityInfo {
		return f.Severity
	}
	return classify.SeverityFail
}

func ownFinding(id pull.StepID, layer classify.Layer, f classify.Finding) classify.Finding {
	info, known := classify.Lookup(f.Cause)
	out := classify.New(f.Cause, own(f.Summary))
	if !known {
		out = classify.New(codeOf(f.Cause), own(f.Summary))
		out.Layer = layer
		out.Owner = classify.Owner(own(string(f.Owner)))
		out.Remedy, out.NotFixedBy = own(f.Remedy), own(f.NotFixedBy)
	}
	if out.Summary == "" {
		out.Summary = fmt.Sprintf("the check %s says no more", id)
	}
	out.Severity, out.Certainty = severityOf(f), classify.CertaintyPossible
	if f.Certainty == classify.CertaintyProven || f.Certainty == classify.CertaintyLikely {
		out.Certainty = f.Certainty
	}
	if slices.Contains(operations, f.Operation) {
		out.Operation = f.Operation
	}
	if known && info.Layer == classify.LayerDNS || !known && layer == classify.LayerDNS {
		out.Endpoint = own(f.Endpoint) // the name looked up; elsewhere the endpoint is where the check stands
	}
	for _, fact := range f.Facts[:min(len(f.Facts), maxOwn)] {
		if key := fact.Key; len(key) <= maxCheckID && causePattern.MatchString(key) {
			out.Facts = append(out.Facts, classify.Fact{Key: key, Value: own(fact.Value)})
		}
	}
	for _, a := range f.Alternatives[:min(len(f.Alternatives), maxOwn)] {
		if _, ok := classify.Lookup(a); !ok {
			a = codeOf(a)
		}
		out.Alternatives = append(out.Alternatives, a)
	}
	return out
}

var operations = []classify.Operation{
	classify.OperationResolveManifest, classify.OperationFetchToken, classify.OperationFetchBlob, classify.OperationExtract,
	classify.OperationSandboxImage, classify.OperationUnknown,
}

// codeOf makes a code of the caller's that cannot be taken for one of ours.
func codeOf(c classify.Cause) classify.Cause {
	name := strings.TrimPrefix(string(c), ownCause)
	if len(name) > maxCheckID || !causePattern.MatchString(name) {
		return ownCause + "unnamed"
	}
	return classify.Cause(ownCause + name)
}

// own is a text of the caller's as it may be shown.
func own(text string) string {
	return classify.Redact(strings.ToValidUTF8(text[:min(len(text), maxOwnScanned)], ""), maxOwnText)
}
