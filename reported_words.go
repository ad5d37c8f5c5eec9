package pullwalk

import (
	"fmt"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// triggers say what brought a fault to light.
var triggers = map[classify.Trigger]string{
	classify.TriggerNewNodes: "every failing node appeared after the last pull that worked (a scale-up, replacement or upgrade of nodes)",
	classify.TriggerChange:   "something changed on a node that had pulled the image before",
	classify.TriggerCache:    "a node asks the network for the first time, after starts from its own copy",
}

// reported says what the cluster saw, and how it stands to what the probes saw.
func (r *Result) reported() []string {
	p := r.Reported
	if p == nil {
		return nil
	}
	if p.Reading.Kind == "" {
		return []string{p.Note}
	}
	line := "the events say " + string(p.Reading.Best.Cause)
	if p.Reading.Best.Endpoint != "" {
		line += " at " + p.Reading.Best.Endpoint
	}
	if p.Node != "" {
		line += " on " + p.Node
	}
	if age := time.Duration(p.LastFailureAgeMS) * time.Millisecond; age > 0 {
		line += fmt.Sprintf(", %v ago", age.Round(time.Second))
	}
	switch p.Agrees {
	case agreesYes:
		line += ", and the probes agree"
	case agreesNo:
		line += ", and the probes do not"
	default:
		line += ", and whether the probes agree cannot be said"
	}
	if p.Note != "" {
		line += ": " + p.Note
	}
	out := []string{line}
	if words := triggers[p.Trigger]; words != "" {
		cause, by := p.Reading.Best.Cause, "by the events"
		if r.Primary != nil {
			cause, by = r.Primary.Cause, "by the probes"
		}
		out = append(out, fmt.Sprintf("the trigger was that %s; the cause is %s, %s", words, cause, by))
	}
	if p.CachedStarts > 0 {
		out = append(out, fmt.Sprintf("no proof: %d starts used a copy on the node", p.CachedStarts))
	}
	return out
}
