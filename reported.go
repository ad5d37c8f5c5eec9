package pullwalk

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// The values of [Reported].Agrees.
const (
	agreesYes     = "yes"
	agreesNo      = "no"
	agreesUnknown = "unknown"
)

// imageEvents are what the cluster reported about this image.
type imageEvents struct {
	events []readEvent // in the order of time
	node   string      // the node that this looks from; "" = not known
	sure   bool        // it is the cluster's own name for it
}

// readEvent is an event and what it says: reading one costs more than all the rest.
type readEvent struct {
	classify.EventRecord
	reading classify.Reading
}

func (e readEvent) fails() bool {
	return e.reading.Kind == classify.KindFailure && e.reading.Best.Severity == classify.SeverityFail
}

// events are what the cluster reported of any image.
type events struct {
	list []classify.EventRecord
	node string // the node that this looks from; "" = not known
	sure bool   // it is the cluster's own name for it
}

// about are the events about an image, whatever it is called.
func (e events) about(images ...string) imageEvents {
	t := imageEvents{node: e.node, sure: e.sure}
	for _, one := range classify.EventsAbout(e.list, images...) {
		one.Node = classify.Redact(one.Node, 256)
		t.events = append(t.events, readEvent{one, classify.Event(one.Reason, one.Message)})
	}
	return t
}

// comparable is the part of the events that a result can be compared with: those of
// this node if a failure is among them, else those that name no node, else those
// of others.
func (t imageEvents) comparable() (events []readEvent, other bool) {
	var own, unnamed, others []readEvent
	for _, e := range t.events {
		switch {
		case e.Node == "":
			unnamed = append(unnamed, e)
		case t.node == "" || sameNode(e.Node, t.node):
			own = append(own, e)
		default:
			others = append(others, e)
		}
	}
	switch {
	case slices.ContainsFunc(own, readEvent.fails):
		return own, false
	case slices.ContainsFunc(unnamed, readEvent.fails):
		return unnamed, false
	case slices.ContainsFunc(others, readEvent.fails):
		return others, true
	}
	return slices.Concat(unnamed, own), false
}

// sameNode compares names of a node, of which one may carry its domain.
func sameNode(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// findings say that every failure was reported by another node than this one.
func (t imageEvents) findings() []classify.Finding {
	events, other := t.comparable()
	if !other {
		return nil
	}
	last := lastFailure(events)
	f := classify.New(classify.NodeVantageOtherNode, fmt.Sprintf("The events tell of %s on the node %s, and this looked from %s: what holds here need not hold there.", last.reading.Best.Cause, last.Node, t.node))
	f.Severity = classify.SeverityWarn
	if !t.sure { // a host name may differ from the name of the node
		f.Certainty, f.Alternatives = classify.CertaintyLikely, []classify.Cause{classify.NodeVantageNotNode}
	}
	return []classify.Finding{f}
}

// failure is the last one that events tell of, and what came after it.
type failure struct {
	readEvent
	pulled bool // over the network, later than the failure
}

// lastFailure picks the last failure; a text that says why counts before one that
// does not.
func lastFailure(events []readEvent) failure {
	var out failure
	for _, e := range events {
		switch r := e.reading; {
		case e.fails():
			known := out.reading.Best.Layer
			if r.Best.Layer == classify.LayerUnknown && known != "" && known != classify.LayerUnknown {
				continue
			}
			out = failure{readEvent: e}
		case r.Kind == classify.KindOK && !r.Cached && !e.Status:
			out.pulled = true
		}
	}
	return out
}

// compare holds what the cluster reported against what the probes saw. t are the events
// that name the image by its reference.
func (e events) compare(r *Result, t imageEvents, now time.Time, rounds int) *Reported {
	images := []string{r.Image.Reference}
	if r.Image.Digest != "" {
		images = append(images, r.Image.Registry+"/"+r.Image.Repository+"@"+r.Image.Digest)
	}
	if len(t.events) < len(e.list) { // some may name the image by its digest
		t = e.about(images...)
	}
	out := &Reported{Events: len(e.list), Unrelated: len(e.list) - len(t.events), Agrees: agreesUnknown}
	out.history(e.list, images)
	comparable, other := t.comparable()
	last := lastFailure(comparable)
	if last.reading.Kind == "" {
		out.Note = quiet(comparable)
		return out
	}
	out.Reading, out.Message, out.Node = last.reading, classify.Redact(last.Message, 500), last.Node
	out.times(last.EventRecord, now)
	var note string
	out.Agrees, note = r.agreement(last)
	if out.Agrees == agreesNo {
		note = joined(append([]string{note}, out.explanations(r, last, rounds)...))
	}
	if other {
		// Two nodes may fail alike or not: neither says anything of the other.
		word := map[string]string{agreesYes: "the same was seen here", agreesNo: "it was not seen here", agreesUnknown: ""}[out.Agrees]
		out.Agrees = agreesUnknown
		note = joined([]string{fmt.Sprintf("the events are of the node %s, and this looked from %s", last.Node, t.node), word})
	}
	out.Note = note
	return out
}

// history is what the timeline of the image tells beside its last failure.
func (p *Reported) history(events []classify.EventRecord, images []string) {
	for _, s := range classify.Timeline(events) {
		if !slices.ContainsFunc(images, func(image string) bool { return classify.SameImage(s.Image, image) }) {
			continue
		}
		p.Trigger = cmp.Or(p.Trigger, s.Trigger)
		for _, n := range s.Nodes {
			if t := n.FirstFailure; !t.IsZero() && (p.FirstFailure.IsZero() || t.Before(p.FirstFailure)) {
				p.FirstFailure = t
			}
			p.Pulls += len(n.Pulls)
			p.CachedStarts += n.CachedStarts
		}
	}
}

// times says when the failure that is compared was seen last.
func (p *Reported) times(e classify.EventRecord, now time.Time) {
	p.LastFailure = e.Time.UTC()
	switch {
	case e.Time.IsZero():
		p.LastFailureAgeMS = e.AgeMS
	case now.After(e.Time):
		p.LastFailureAgeMS = now.Sub(e.Time).Milliseconds()
	}
}

// quiet says why events without a failure are nothing to compare with.
func quiet(events []readEvent) string {
	for _, e := range slices.Backward(events) {
		switch r := e.reading; {
		case r.Kind == classify.KindOK && r.Cached:
			return "the events tell only of starts from the node's own copy, for which nothing was asked of the network"
		case r.Kind == classify.KindOK:
			return "the events tell of a pull that worked, which holds for its node and its time"
		case r.Kind == classify.KindBackoff:
			return "the events say that the pull failed and not why: look for an older event, or at the status of the pod"
		}
	}
	return "no event names a failure of a pull of this image"
}

// agreement compares a failure with what the probes found to be broken, and says
// what a reader must know of the answer.
func (r *Result) agreement(last failure) (agrees, note string) {
	text := last.reading.Best
	if r.Verdict == StatusInconclusive {
		return agreesUnknown, "the probes came to no verdict"
	}
	for i, f := range r.Findings {
		if f.Severity != classify.SeverityFail {
			break
		}
		switch {
		case related(text.Cause, f.Cause) && r.sameHost(text.Endpoint, f):
		case text.Layer == classify.LayerDNS && r.isNameserver(f.Endpoint):
			note = fmt.Sprintf("the text names the lookup of %s, and the probes saw that its nameserver %s is not reached", cmp.Or(text.Endpoint, "a name"), f.Endpoint)
		case slices.Contains(text.Alternatives, f.Cause) && r.sameHost(text.Endpoint, f):
			return agreesUnknown, "the text can be read in several ways, and what the probes saw is one of them"
		default:
			continue
		}
		if i > 0 {
			note = joined([]string{note, "it is not the first thing that is broken"})
		}
		return agreesYes, note
	}
	if pull.Passes(r.Verdict) && last.pulled {
		return agreesYes, "a later event tells of a pull that worked"
	}
	return agreesNo, ""
}

// explanations are what may make a true event and a true probe differ.
func (p *Reported) explanations(r *Result, last failure, rounds int) []string {
	var out []string
	text := last.reading.Best
	age := (time.Duration(p.LastFailureAgeMS) * time.Millisecond).Round(time.Second)
	since := "it may have changed since"
	if pull.Passes(r.Verdict) {
		since = "it may have been repaired since"
	}
	switch {
	case age > 0:
		out = append(out, fmt.Sprintf("%s (the event is %v old)", since, age))
	case !p.LastFailure.IsZero():
		out = append(out, "the event is dated ahead of this clock")
	default:
		out = append(out, since+" (the event has no date)")
	}
	for _, f := range r.Findings {
		if f.Severity == classify.SeverityWarn && related(text.Cause, f.Cause) && r.sameHost(text.Endpoint, f) {
			out = append(out, "the same is a warning here, so it may come and go, or something else makes up for it")
			break
		}
	}
	if f := r.Primary; f != nil {
		switch {
		case related(text.Cause, f.Cause):
			out = append(out, "the same cause was seen at another host")
		case text.Layer.Rank() > f.Layer.Rank():
			out = append(out, "the text may name a consequence")
		}
	} else if rounds > 1 {
		out = append(out, fmt.Sprintf("it may come and go, and was not met in %d rounds", rounds))
	} else {
		out = append(out, "it may come and go, and this looked once")
	}
	switch v := r.Vantage; {
	case v.NetworkNamespace == "other":
		out = append(out, "this looked from another network than the node's")
	case v.RuntimePID == 0:
		out = append(out, "it is not known whether this is the network of the node's runtime")
	}
	if p.Node == "" {
		out = append(out, "it may have been another node, since the event names none")
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
	return ok && info.Refines != "" && info.Refines == text
}

// sameHost says that a text and a finding can be about the same host: one of them
// names none, or both the same, or the text an address of it.
func (r *Result) sameHost(text string, f classify.Finding) bool {
	said, found := hostOf(text), hostOf(f.Endpoint)
	if said == "" || found == "" || strings.EqualFold(said, found) {
		return true
	}
	addr, err := netip.ParseAddr(said)
	if err != nil {
		return false
	}
	for _, s := range r.Sources {
		for _, e := range s.Endpoints {
			if e.HostPort() != f.Endpoint && !strings.EqualFold(e.Host, found) {
				continue
			}
			known := e.addresses()
			return len(known) == 0 || slices.Contains(known, addr)
		}
	}
	return true
}

func (r *Result) isNameserver(endpoint string) bool {
	return slices.ContainsFunc(r.Vantage.Nameservers, func(ns string) bool { return hostOf(ns) == hostOf(endpoint) })
}

// hostOf is the host of host or host:port.
func hostOf(endpoint string) string {
	if host, _, err := net.SplitHostPort(endpoint); err == nil {
		return host
	}
	return strings.Trim(endpoint, "[]")
}

// joined puts what is known of several reasons into one sentence.
func joined(parts []string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

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

// compareSandbox holds an event about the sandbox image against what was seen of it.
func (r *Result) compareSandbox() {
	p, s := r.Reported, r.Sandbox
	if p == nil || p.Reading.Best.Operation != classify.OperationSandboxImage {
		return
	}
	p.Agrees, p.Note = "unknown", "the event is about the sandbox image"
	switch {
	case s.Primary != nil && related(p.Reading.Best.Cause, s.Primary.Cause):
		p.Agrees, p.Note = "yes", ""
	case s.Verdict == StatusSkipped:
		p.Note += ", which was not walked: " + s.Reason
	case s.Primary != nil || pull.Passes(s.Verdict):
		p.Agrees = "no"
		p.Note += ": repaired or intermittent since, another node, or the text names a consequence"
	}
}
