package classify

import (
	"fmt"
	"strings"
	"time"
)

// tell writes the story in a few sentences: the cause, what brought it to light,
// what is proof and what is not.
func (s *Story) tell() string {
	var failing, pulled, cached, waiting, over []*NodeStory
	for i := range s.Nodes {
		n := &s.Nodes[i]
		switch {
		case n.State == NodeFailing:
			failing = append(failing, n)
		case n.State == NodeWaiting:
			waiting = append(waiting, n)
		}
		if len(n.Pulls) > 0 {
			pulled = append(pulled, n)
			if n.Reading != nil && n.State != NodeFailing {
				over = append(over, n)
			}
		}
		if n.CachedStarts > 0 {
			cached = append(cached, n)
		}
	}
	var w []string
	add := func(format string, a ...any) { w = append(w, fmt.Sprintf(format, a...)) }
	name := s.name()
	switch {
	case len(failing) > 0:
		when := ""
		if t := firstFailure(failing); !t.IsZero() {
			when = " since " + stamp(t)
		}
		add("%s does not arrive on %s%s: %s.", name, nodeNames(failing), when, orElse(s.Cause.Summary, "no text says why"))
	case len(over) > 0:
		add("%s failed on %s and was pulled there later: %s.", name, nodeNames(over), orElse(s.Cause.Summary, "no text says why"))
	case len(waiting) > 0:
		add("%s has not arrived on %s, and no event says why: look for an older Failed event or at the pod's status.", name, nodeNames(waiting))
	case len(pulled) > 0:
		add("%s was pulled on %s.", name, nodeNames(pulled))
	default:
		add("%s was started on %s from the copy there.", name, nodeNames(cached))
	}
	if s.Operation == OperationSandboxImage {
		add("It is the image of the pod sandbox: no pod starts on such a node, and the pods' pull secrets are not used for it.")
	}
	for _, n := range failing {
		if n.Stale {
			add("The events of %s are old and tell of %s; the pod's status now says %s.", nodeNames([]*NodeStory{n}), n.lastEvent().Cause, n.Present.Best.Cause)
		}
		if n.Latest != nil {
			add("On %s the cause changed from %s to %s.", nodeNames([]*NodeStory{n}), n.Reading.Best.Cause, n.Latest.Best.Cause)
		}
	}
	switch s.Trigger {
	case TriggerNewNodes:
		add("Trigger: %s appeared after the last pull that worked (a scale-up, replacement or upgrade of nodes). That brought the fault to light and is not its cause: nodes with a copy do not ask.", nodeNames(failing))
	case TriggerChange:
		add("Trigger: the same node had pulled this image before, so something changed in between; the events do not say what.")
	case TriggerCache:
		add("Trigger: the node had started the image from its own copy before and asks the network only now; the fault may be older than the first failure.")
	}
	if len(s.PoolsWithout) > 0 {
		add("It never arrived over the network in pool %s.", strings.Join(s.PoolsWithout[:min(len(s.PoolsWithout), 8)], ", "))
	}
	if len(pulled) > 0 && len(over) == 0 {
		add("Proof: %s.", s.pullWords(pulled))
	}
	if len(cached) > 0 {
		add("No proof: starts on %s used the copy on the node, nothing was transferred.", nodeNames(cached))
	}
	for _, n := range s.Nodes {
		if n.From != "" {
			add("The copy on %s came from %s, not from the registry that is asked for.", orElse(n.Node, "a node"), n.From)
			break
		}
	}
	return strings.Join(w, " ")
}

func (s *Story) name() string {
	switch {
	case s.Image != "":
		return s.Image
	case s.Operation == OperationSandboxImage:
		return "the sandbox image"
	}
	return "an image that no event names"
}

func (n *NodeStory) lastEvent() Finding {
	if n.Latest != nil {
		return n.Latest.Best
	}
	return n.Reading.Best
}

// pullWords describes the last fresh pull.
func (s *Story) pullWords(pulled []*NodeStory) string {
	n := pulled[0]
	for _, o := range pulled[1:] {
		if n.lastPullAt.before(o.lastPullAt) {
			n = o
		}
	}
	p := n.Pulls[len(n.Pulls)-1]
	text := orElse(n.Node, "a node") + " pulled it over the network"
	if !p.Time.IsZero() {
		text += " at " + stamp(p.Time)
	}
	if p.DurationMS > 0 {
		text += fmt.Sprintf(" in %v", time.Duration(p.DurationMS)*time.Millisecond)
	}
	if p.Bytes > 0 {
		text += fmt.Sprintf(" (%.1f MB)", float64(p.Bytes)/1e6)
	}
	return text + ", which holds for that node and that time"
}

func firstFailure(nodes []*NodeStory) time.Time {
	var first moment
	for _, n := range nodes {
		first = earliest(first, n.firstFailAt)
	}
	return first.time()
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// nodeNames lists nodes as in a sentence.
func nodeNames(nodes []*NodeStory) string {
	var names []string
	for _, n := range nodes {
		if n.Node != "" {
			names = append(names, n.Node)
		}
	}
	switch len(names) {
	case 0:
		return "a node that no event names"
	case 1:
		return names[0]
	case 2, 3, 4:
		return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
	}
	return fmt.Sprintf("%s and %d more nodes", strings.Join(names[:3], ", "), len(names)-3)
}
