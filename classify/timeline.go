package classify

import (
	"cmp"
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

type storyBuilder struct {
	order     []int
	at, first []moment
	nodeOf    map[string]string // pod -> node
	imageOf   map[string]string // pod -> image that it pulled last
	seen      map[string]moment // node -> first event of any kind
	index     map[string]int    // canonical image -> story
	nodes     map[[2]string]int // canonical image, node -> index in Nodes
	stories   []Story
	keys      []string
	last      string // image of the record before, for records without a pod
}

func newStoryBuilder(events []EventRecord) *storyBuilder {
	b := &storyBuilder{
		at: make([]moment, len(events)), first: make([]moment, len(events)), nodeOf: map[string]string{}, imageOf: map[string]string{},
		seen: map[string]moment{}, index: map[string]int{}, nodes: map[[2]string]int{},
	}
	var now int64
	for i := range events {
		if t := events[i].Time; !t.IsZero() {
			now = max(now, t.UnixMilli())
		}
	}
	for i := range events {
		e := &events[i]
		b.order = append(b.order, i)
		switch {
		case !e.Time.IsZero():
			b.at[i] = moment{e.Time.UnixMilli(), true}
		case e.AgeMS > 0:
			b.at[i] = moment{now - e.AgeMS, true}
		case e.Status:
			b.at[i] = moment{now, now > 0}
		}
		b.first[i] = b.at[i]
		if !e.First.IsZero() {
			b.first[i] = moment{e.First.UnixMilli(), true}
		} else if e.FirstAgeMS > 0 {
			b.first[i] = moment{now - e.FirstAgeMS, true}
		}
		pod := podKey(e)
		node := e.Node
		if to, ok := assignedTo(e); ok {
			node = to
		}
		if pod != "" && node != "" && b.nodeOf[pod] == "" {
			b.nodeOf[pod] = node
		}
		if node != "" {
			b.seen[node] = earliest(b.seen[node], b.first[i])
		}
		if pod != "" && e.Image != "" && b.imageOf[pod] == "" {
			b.imageOf[pod] = e.Image
		}
	}
	slices.SortStableFunc(b.order, func(x, y int) int {
		if b.at[x].before(b.at[y]) {
			return -1
		} else if b.at[y].before(b.at[x]) {
			return 1
		}
		return 0
	})
	return b
}

func podKey(e *EventRecord) string {
	if e.Pod == "" {
		return ""
	}
	return e.Namespace + "/" + e.Pod
}

// assignedTo reads the scheduler's event, the first that names a node.
func assignedTo(e *EventRecord) (string, bool) {
	if e.Reason != "Scheduled" {
		return "", false
	}
	_, node, ok := strings.Cut(e.Message, " to ")
	node = strings.TrimSpace(node)
	return boundName(node), ok && node != "" && !strings.ContainsAny(node, " \n")
}

// story returns the node's part of an image's story.
func (b *storyBuilder) story(image, node string, op Operation) (*Story, *NodeStory) {
	key := canonicalImage(image)
	if op == OperationSandboxImage {
		key = "sandbox " + key
	}
	i, ok := b.index[key]
	if !ok {
		i = len(b.stories)
		b.index[key] = i
		b.stories = append(b.stories, Story{Image: image})
		b.keys = append(b.keys, key)
		if op == OperationSandboxImage {
			b.stories[i].Operation = op
		}
	}
	s := &b.stories[i]
	at, ok := b.nodes[[2]string{key, node}]
	if !ok {
		at = len(s.Nodes)
		b.nodes[[2]string{key, node}] = at
		s.Nodes = append(s.Nodes, NodeStory{Node: node, Pool: poolOf(node), firstAt: b.seen[node]})
	}
	return s, &s.Nodes[at]
}

// add puts one event into the story that it belongs to.
func (b *storyBuilder) add(e *EventRecord, at, first moment) {
	r := Event(e.Reason, e.Message)
	running := e.Status && e.Reason == "Running"
	started := len(r.Attempts) == 1 && r.Attempts[0].Cause == UnknownPullInProgress || e.Reason == "Pulling"
	if r.Kind == KindUnknown && !running && !started {
		return
	}
	pod := podKey(e)
	image := orElse(e.Image, r.Image)
	switch {
	case image != "":
		b.last = image
		if pod != "" {
			b.imageOf[pod] = image
		}
	case r.Best.Operation == OperationSandboxImage:
	case pod != "":
		image = b.imageOf[pod]
	default:
		image = b.last
	}
	if image == "" && r.Kind != KindFailure {
		return
	}
	_, n := b.story(image, orElse(e.Node, b.nodeOf[pod]), r.Best.Operation)
	n.firstAt, n.lastAt = earliest(n.firstAt, first), latest(n.lastAt, at)
	if e.Pod != "" && len(n.Pods) < maxStoryPods && !slices.Contains(n.Pods, e.Pod) {
		n.Pods = append(n.Pods, e.Pod)
	}
	count := max(e.Count, 1)
	switch {
	case running:
		n.running(e, at)
	case e.Status:
		n.present(r)
	case r.Kind == KindFailure:
		n.fail(r, at, first, count)
	case r.Kind == KindOK && r.Cached:
		n.CachedStarts += count
		n.firstCachedAt = earliest(n.firstCachedAt, first)
		n.State = NodeCached
	case r.Kind == KindOK:
		n.pulled(e, at)
	case r.Kind == KindBackoff:
		n.Backoffs += count
		if n.State == "" {
			n.State = NodeWaiting
		}
	case n.State == "":
		n.State = NodeWaiting
	}
}

func (n *NodeStory) fail(r Reading, at, first moment, count int) {
	if r.Best.Severity != SeverityFail {
		return // a warning beside the cause
	}
	n.Failures += count
	rank := hit{cause: r.Best.Cause}.rank()
	switch {
	case n.Reading == nil || rank > n.rank:
		n.Reading, n.Latest, n.rank = &r, nil, rank
	case r.Best.Cause != n.Reading.Best.Cause && rank == n.rank:
		n.Latest = &r
	}
	n.firstFailAt, n.lastFailAt = earliest(n.firstFailAt, first), latest(n.lastFailAt, at)
	n.State = NodeFailing
}

// present takes the pod's status, which is newer than the events of its failure.
// It has no time of its own: if an event says that the image was pulled after
// that, the status was taken before.
func (n *NodeStory) present(r Reading) {
	if n.State == NodePulled {
		return
	}
	if r.Kind == KindBackoff {
		n.Backoffs++
		if n.State != NodeFailing {
			n.State = NodeWaiting
		}
		return
	}
	if r.Kind != KindFailure || r.Best.Severity != SeverityFail {
		return
	}
	n.Present = &r
	n.State = NodeFailing
}

func (n *NodeStory) pulled(e *EventRecord, at moment) {
	p := pullOf(e.Message)
	p.Time = e.Time
	if len(n.Pulls) == maxStoryPulls {
		n.Pulls = slices.Delete(n.Pulls, 0, 1)
	}
	n.Pulls = append(n.Pulls, p)
	n.lastPullAt = latest(n.lastPullAt, at)
	n.State = NodePulled
}

// running takes a container that runs: the image is on the node, however it got
// there.
func (n *NodeStory) running(e *EventRecord, at moment) {
	if from, asked := imageHost(e.ImageID), imageHost(e.Image); from != "" && asked != "" && from != asked {
		n.From = from
	}
	if n.State == "" {
		n.CachedStarts++
		n.firstCachedAt = earliest(n.firstCachedAt, at)
		n.State = NodeCached
	}
}

// pullOf reads the kubelet's words about a pull that worked:
// in 812ms (5m2s including waiting). Image size: 5123456 bytes.
func pullOf(message string) Pull {
	var p Pull
	_, rest, ok := strings.Cut(message, "\" in ")
	if !ok {
		return p
	}
	word, rest, _ := strings.Cut(rest, " ")
	if d, err := time.ParseDuration(strings.TrimRight(word, ".,")); err == nil && d >= 0 {
		p.DurationMS = d.Milliseconds()
	}
	if total, _, ok := strings.Cut(strings.TrimPrefix(rest, "("), " including waiting"); ok {
		if d, err := time.ParseDuration(total); err == nil && d.Milliseconds() > p.DurationMS {
			p.WaitMS = d.Milliseconds() - p.DurationMS
		}
	}
	if _, size, ok := strings.Cut(rest, "Image size: "); ok {
		size, _, _ = strings.Cut(size, " ")
		p.Bytes = int64(max(atoi(size), 0))
	}
	return p
}

// finish fills in what only the whole shows.
func (b *storyBuilder) finish() []Story {
	for i := range b.stories {
		s := &b.stories[i]
		s.Nodes = slices.DeleteFunc(s.Nodes, func(n NodeStory) bool { return n.State == "" })
		for j := range s.Nodes {
			s.Nodes[j].close()
		}
		slices.SortStableFunc(s.Nodes, func(x, y NodeStory) int {
			if x.firstAt.before(y.firstAt) {
				return -1
			} else if y.firstAt.before(x.firstAt) {
				return 1
			}
			return 0
		})
		s.Cause = s.cause()
		s.Trigger = s.trigger()
		s.PoolsWithout = s.poolsWithout()
		s.Words = s.tell()
	}
	return slices.DeleteFunc(b.stories, func(s Story) bool { return len(s.Nodes) == 0 })
}

func (n *NodeStory) close() {
	n.FirstSeen, n.FirstFailure, n.LastFailure = n.firstAt.time(), n.firstFailAt.time(), n.lastFailAt.time()
	n.LastSuccess = n.lastPullAt.time()
	if n.Present != nil && n.Reading != nil {
		last := n.Reading
		if n.Latest != nil {
			last = n.Latest
		}
		n.Stale = n.Present.Best.Cause != last.Best.Cause
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
// said, a cause before a missing one, the layer lowest in the ladder last, since
// any of several may be first.
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

// canonicalImage writes out what a short reference leaves to docker's defaults.
func canonicalImage(ref string) string {
	host, rest, ok := strings.Cut(ref, "/")
	if !ok || (!strings.ContainsAny(host, ".:") && host != "localhost") {
		host, rest = "docker.io", ref
	}
	if host == "index.docker.io" {
		host = "docker.io"
	}
	if host == "docker.io" && !strings.Contains(rest, "/") {
		rest = "library/" + rest
	}
	if name := rest[strings.LastIndexByte(rest, '/')+1:]; !strings.ContainsAny(name, ":@") {
		rest += ":latest"
	}
	return host + "/" + rest
}
