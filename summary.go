package pullwalk

import (
	"fmt"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Bounds of a summary: what a chat shows without folding it.
const (
	maxSummaryLine  = 320 // bytes
	maxSummaryCodes = 4   // other findings that are named; the rest is counted
)

// Summary returns the report in at most ten lines of at most some 300 bytes, for a
// chat or a condition of a cluster: the verdict with node and time, the first
// broken layer with host and owner, what was seen, where to look, the remedy, what
// will not help, what else is wrong, what the events say, and what would prove the
// repair. Longer texts are cut and end in an ellipsis; [Result.String] has them
// whole. Like that, it is plain text and holds words of other parties: quote it
// where markup means something.
func (r *Result) Summary() string {
	var lines []string
	add := func(title, text string) {
		if text == "" {
			return
		}
		if title != "" {
			text = title + ": " + text
		}
		lines = append(lines, classify.Redact(text, maxSummaryLine))
	}
	add("", fmt.Sprintf("%s, on %s at %s", r.headline(), r.node(), r.Started.Format(time.RFC3339)))
	if p := r.Primary; p != nil {
		info, _ := classify.Lookup(p.Cause)
		add("First broken", firstBroken(p)+", owner "+string(p.Owner))
		add("Seen", seen(p))
		add("Look", info.Look)
		add("Remedy", p.Remedy)
		add("Will not help", p.NotFixedBy)
	}
	add("Not known", r.Inconclusive)
	add("Besides", r.besides())
	if events := r.reported(); len(events) > 0 {
		add("Events", strings.Join(events, "; "))
	}
	add("Proof", strings.Join(r.proof(), "; "))
	return strings.Join(lines, "\n") + "\n"
}

// besides names what else is wrong, and counts what is blocked.
func (r *Result) besides() string {
	var parts []string
	named, more := 0, 0
	for i, f := range r.Findings {
		switch {
		case i == 0 && r.Primary != nil, f.Severity == classify.SeverityInfo:
		case named == maxSummaryCodes:
			more++
		default:
			named++
			word := "warning "
			if f.Severity == classify.SeverityFail {
				word = "broken too: "
			}
			where := ""
			if f.Endpoint != "" {
				where = " at " + f.Endpoint
			}
			parts = append(parts, word+string(f.Cause)+where)
		}
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("%d more findings", more))
	}
	if n := len(r.blocked()); n > 0 {
		parts = append(parts, fmt.Sprintf("steps at %s not tried", hostsBlocked(n)))
	}
	return strings.Join(parts, "; ")
}

func hostsBlocked(n int) string {
	if n == 1 {
		return "one host"
	}
	return fmt.Sprintf("%d places", n)
}
