package pullwalk

import (
	"cmp"

	"github.com/pullwalk/pullwalk/classify"
)

// compare holds what the cluster reported against what the probes saw.
func (d *diagnosis) compare(r *Result) *Reported {
	if len(d.opts.Events) == 0 {
		return nil
	}
	out := &Reported{Events: len(d.opts.Events), Agrees: "unknown"}
	for _, ev := range d.opts.Events {
		reading := classify.Event(ev.Reason, ev.Message)
		if reading.Kind == classify.KindFailure {
			out.Reading, out.Message, out.Node = reading, classify.Redact(ev.Message, 500), cmp.Or(ev.Node, out.Node)
		}
	}
	switch {
	case out.Reading.Kind == "":
		out.Note = "no event names a failure of a pull"
	case r.Primary != nil && related(out.Reading.Best.Cause, r.Primary.Cause):
		out.Agrees = "yes"
	case r.Primary != nil || r.Verdict.passes():
		out.Agrees = "no"
		out.Note = "repaired or intermittent since, another node, or the text names a consequence"
	}
	return out
}

// related says that a text and a probe speak of the same fault: equal codes, or
// one that refines the other.
func related(text, probe classify.Cause) bool {
	if text == probe {
		return true
	}
	info, ok := classify.Lookup(probe)
	return ok && info.Refines == text
}
