package classify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Story is what the events of a cluster tell about one image on all nodes that
// they name. It is history, not proof: an event can be old, and what it does not
// say may have happened. See [Timeline].
type Story struct {
	Image string `json:"image"` // as first printed; "" = the text names none
	// Operation is [OperationSandboxImage] if the image is the pod sandbox's,
	// which no pod secret helps, else "".
	Operation Operation `json:"operation,omitempty"`
	// Cause is the reading of the failure that counts, the zero Finding if
	// nothing failed or no text says why.
	Cause Finding `json:"cause"`
	// Trigger is what brought the fault to light. It is not the cause: the
	// fault may have been there all the time, behind copies on the nodes.
	Trigger Trigger     `json:"trigger"`
	Nodes   []NodeStory `json:"nodes"` // by first appearance
	// PoolsWithout are the pools of which no node got the image over the
	// network, as far as the names of nodes show pools.
	PoolsWithout []string `json:"poolsWithout,omitempty"`
	Words        string   `json:"words"` // the same in a few sentences
}

// Trigger says what changed before an image stopped arriving.
type Trigger string

// The triggers.
const (
	TriggerUnknown  Trigger = ""          // the events do not show it
	TriggerNewNodes Trigger = "new-nodes" // every failing node appeared after the last pull that worked: scale-up, replacement, upgrade
	TriggerChange   Trigger = "change"    // a failing node had pulled the same image before
	TriggerCache    Trigger = "cache"     // a failing node had only started it from its own copy before
)

// NodeState is how an image stands on one node, by the last event about it.
type NodeState string

// The states.
const (
	NodeFailing NodeState = "failing" // the last word is a failure
	NodePulled  NodeState = "pulled"  // it came over the network
	NodeCached  NodeState = "cached"  // started from the copy on the node, nothing transferred
	NodeWaiting NodeState = "waiting" // a pull was started, or a back-off hides its failure
)

// NodeStory is one image on one node. Times are zero where the input has none.
type NodeStory struct {
	Node      string    `json:"node,omitempty"` // "" = not named
	Pool      string    `json:"pool,omitempty"` // by the node's name, where a provider puts it there
	State     NodeState `json:"state"`
	FirstSeen time.Time `json:"firstSeen,omitzero"` // first event of any kind from this node
	Pods      []string  `json:"pods,omitempty"`     // at most 8

	Failures     int       `json:"failures,omitempty"` // times that a cause was printed
	FirstFailure time.Time `json:"firstFailure,omitzero"`
	LastFailure  time.Time `json:"lastFailure,omitzero"`
	Reading      *Reading  `json:"reading,omitempty"`  // of the first failure
	Latest       *Reading  `json:"latest,omitempty"`   // of the last one, if its cause is another
	Backoffs     int       `json:"backoffs,omitempty"` // events without a cause that hide the failure
	// Present is what a pod's status says now; events go stale after some
	// minutes and then still show the cause that was.
	Present *Reading `json:"present,omitempty"`
	Stale   bool     `json:"stale,omitempty"` // Present says another cause than the events

	Pulls        []Pull    `json:"pulls,omitempty"`        // fresh pulls, at most 8, the last ones
	CachedStarts int       `json:"cachedStarts,omitempty"` // never proof of anything on the network
	LastSuccess  time.Time `json:"lastSuccess,omitzero"`   // of the fresh pulls
	// From is the registry that the runtime says the copy came from, if it is
	// another than the one asked for.
	From string `json:"from,omitempty"`

	firstAt, lastAt, firstFailAt, lastFailAt, lastPullAt, firstCachedAt moment
	rank                                                                int
}

// Pull is one pull over the network.
type Pull struct {
	Time       time.Time `json:"time,omitzero"`
	DurationMS int64     `json:"durationMs,omitempty"` // the transfer itself
	WaitMS     int64     `json:"waitMs,omitempty"`     // before it, in the kubelet's queue
	Bytes      int64     `json:"bytes,omitempty"`      // size of the image; layers on the node already are in it
}

// moment is a place in the order of events, in milliseconds; known = there is one.
type moment struct {
	ms    int64
	known bool
}

func (m moment) before(o moment) bool { return m.known && o.known && m.ms < o.ms }

func (m moment) compare(o moment) int {
	if !m.known || !o.known {
		return 0
	}
	return cmp.Compare(m.ms, o.ms)
}

// earliest and latest ignore what is not known.
func earliest(a, b moment) moment {
	if !a.known || b.before(a) {
		return b
	}
	return a
}

func latest(a, b moment) moment {
	if !a.known || a.before(b) {
		return b
	}
	return a
}

const (
	maxStories    = 256
	maxStoryPods  = 8
	maxStoryPulls = 8
)

// Timeline tells the story of each image that events speak of, over all pods and
// nodes: where it failed first and why, which pulls went over the network, which
// starts used a copy and prove nothing, and what brought the fault to light.
//
// Events may come in any order and from several inputs of [ParseEvents]. The
// order in time is that of their times, or of the ages that a table prints,
// counted back from the latest time in the input. Events without an image belong
// to the one that their pod was last pulling. Images are the same if they name
// the same registry, repository and tag or digest. At most 256 images come back,
// failing ones first.
func Timeline(events []EventRecord) []Story {
	b := newStoryBuilder(events)
	for _, i := range b.order {
		b.add(&events[i], b.at[i], b.first[i])
	}
	stories := b.finish()
	slices.SortStableFunc(stories, func(x, y Story) int { return cmp.Compare(y.weight(), x.weight()) })
	return stories[:min(len(stories), maxStories)]
}

// weight puts failing images first.
func (s *Story) weight() int {
	n := 0
	for i := range s.Nodes {
		if s.Nodes[i].State == NodeFailing {
			n += 2
		} else if s.Nodes[i].State == NodeWaiting {
			n++
		}
	}
	return min(n, 2)
}

// finish fills in what only the whole shows.
func (b *storyBuilder) finish() []Story {
	for i := range b.stories {
		s := &b.stories[i]
		s.Nodes = slices.DeleteFunc(s.Nodes, func(n NodeStory) bool { return n.State == "" })
		for j := range s.Nodes {
			s.Nodes[j].close()
		}
		slices.SortStableFunc(s.Nodes, func(x, y NodeStory) int { return x.firstAt.compare(y.firstAt) })
		s.Cause = s.cause()
		s.Trigger = s.trigger()
		s.PoolsWithout = s.poolsWithout()
		s.Words = s.sentences()
	}
	return slices.DeleteFunc(b.stories, func(s Story) bool { return len(s.Nodes) == 0 })
}

func (n *NodeStory) close() {
	n.FirstSeen, n.FirstFailure, n.LastFailure = n.firstAt.time(), n.firstFailAt.time(), n.lastFailAt.time()
	n.LastSuccess = n.lastPullAt.time()
	if n.Present != nil && n.Reading != nil {
		n.Stale = n.Present.Best.Cause != n.lastEvent().Cause
	}
}

// time is the moment on the calendar, zero if it is only an age.
func (m moment) time() time.Time {
	if !m.known || m.ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(m.ms).UTC()
}

// cause picks the reading that counts: what a status says now before what events
// said, and a cause before a missing one.
func (s *Story) cause() Finding {
	var best Finding
	rank := 0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for j, r := range []*Reading{n.Present, n.Latest, n.Reading} {
			if r == nil || n.State != NodeFailing {
				continue
			}
			if k := 4*(hit{cause: r.Best.Cause}.rank()) + 3 - j; k > rank {
				best, rank = r.Best, k
			}
		}
	}
	if rank == 0 { // over by now
		for i := range s.Nodes {
			if r := s.Nodes[i].Reading; r != nil {
				return r.Best
			}
		}
	}
	return best
}

// trigger compares the failing nodes with the pulls that worked.
func (s *Story) trigger() Trigger {
	var lastPull moment
	failing, younger := 0, 0
	for i := range s.Nodes {
		lastPull = latest(lastPull, s.Nodes[i].lastPullAt)
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.State != NodeFailing {
			continue
		}
		failing++
		switch {
		case n.lastPullAt.before(n.firstFailAt) || n.lastPullAt.before(n.lastFailAt):
			return TriggerChange
		case n.firstCachedAt.before(n.lastFailAt):
			return TriggerCache
		case lastPull.before(n.firstAt):
			younger++
		}
	}
	if failing > 0 && younger == failing {
		return TriggerNewNodes
	}
	return TriggerUnknown
}

// poolsWithout lists the pools with a failing node and no fresh pull.
func (s *Story) poolsWithout() []string {
	var failing, fresh []string
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Pool == "" {
			continue
		}
		if len(n.Pulls) > 0 {
			fresh = append(fresh, n.Pool)
		} else if n.State == NodeFailing || n.State == NodeWaiting {
			failing = append(failing, n.Pool)
		}
	}
	slices.Sort(failing)
	return slices.DeleteFunc(slices.Compact(failing), func(p string) bool { return slices.Contains(fresh, p) })
}

// poolOf reads the pool out of a node's name, where a provider puts it there:
// aks-POOL-HASH-vmss000001 and gke-CLUSTER-POOL-HASH-SUFFIX. "" = not there.
func poolOf(node string) string {
	parts := strings.Split(node, "-")
	switch {
	case len(parts) == 4 && (parts[0] == "aks" || parts[0] == "akswin") && strings.HasPrefix(parts[3], "vmss"):
		return parts[1]
	case len(parts) > 4 && parts[0] == "gke":
		return strings.Join(parts[1:len(parts)-2], "-")
	}
	return ""
}

// sentences writes the story in a few sentences: the cause, what brought it to light,
// what is proof and what is not.
func (s *Story) sentences() string {
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
		var first moment
		for _, n := range failing {
			first = earliest(first, n.firstFailAt)
		}
		when := ""
		if t := first.time(); !t.IsZero() {
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
	if s.Operation == OperationSandboxImage {
		return orElse(s.Image, "the sandbox image")
	}
	return orElse(s.Image, "an image that no event names")
}

func (n *NodeStory) lastEvent() Finding { return cmp.Or(n.Latest, n.Reading).Best }

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
