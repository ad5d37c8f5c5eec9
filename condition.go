package pullwalk

import (
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Bounds of a condition. Kubernetes takes reasons of up to 1,024 bytes; nobody
// reads as much.
const (
	maxReason  = 128
	maxMessage = 512
)

// Condition returns the result as reason and message of a Kubernetes condition.
// The condition's status is the caller's to choose from the verdict.
//
// The reason is the code of the root cause in camel case, RouteConnectTimeout for
// route.connect-timeout, or that of the first warning of a degraded result. Without
// either it is ImageDownloaded (with a [Proof]), RegistryAnswers (after [Connect]),
// EveryHopHeld, or Inconclusive. The message is one line of at most 512 bytes: the
// owner, what was seen, and where to look.
func (r *Result) Condition() (reason, message string) {
	switch r.Verdict {
	case StatusFailed:
		if r.Primary == nil { // not from Diagnose
			return "Failed", "the pull fails; the result names no cause"
		}
		return camelCase(r.Primary.Cause), conditionMessage("", *r.Primary)
	case StatusOK, StatusDegraded:
		isWarning := func(f classify.Finding) bool { return f.Severity == classify.SeverityWarn }
		if i := slices.IndexFunc(r.Findings, isWarning); i >= 0 && r.Verdict == StatusDegraded {
			return camelCase(r.Findings[i].Cause), conditionMessage("it works, with a warning: ", r.Findings[i])
		}
		switch {
		case r.Proof != nil:
			reason = "ImageDownloaded"
		case r.Pull == Connect:
			reason = "RegistryAnswers"
		default:
			reason = "EveryHopHeld"
		}
		return reason, classify.Redact(r.headline(), maxMessage)
	}
	return "Inconclusive", classify.Redact("not known: "+r.Inconclusive, maxMessage)
}

func conditionMessage(prefix string, f classify.Finding) string {
	message := prefix
	if f.Owner != "" {
		message += "owner " + classify.Redact(string(f.Owner), 32) + ": "
	}
	message += classify.Redact(f.Error(), maxMessage/2) // leaves room for where to look
	if info, ok := classify.Lookup(f.Cause); ok {
		message += " Look: " + info.Look
	}
	return classify.Redact(message, maxMessage)
}

// camelCase makes a reason of a code. What no reason may hold is left out: a
// caller's own code, or one from elsewhere, may hold anything.
func camelCase(code classify.Cause) string {
	var b strings.Builder
	up := true
	for _, c := range string(code) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		digit := '0' <= c && c <= '9'
		switch {
		case b.Len() == maxReason:
			return b.String()
		case letter && up:
			b.WriteString(strings.ToUpper(string(c)))
		case letter, digit && b.Len() > 0: // a reason begins with a letter
			b.WriteRune(c)
		}
		up = !letter && !digit
	}
	if b.Len() == 0 {
		return "Failed"
	}
	return b.String()
}
