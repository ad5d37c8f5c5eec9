package classify

import (
	"slices"
	"strings"
	"time"
)

type storyBuilder struct {
	order     []int
	at, first []moment
	nodeOf    map[string]string // pod -> node
	imageOf   map[string]string // pod -> image that it pulled last
	seen      map[string]moment // node -> first event of any kind
	index     map[string]int    // canonical image -> story
	nodes     map[[2]string]int // canonical image, node -> index in Nodes
	stories   []Story
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
		node := orElse(assignedTo(e), e.Node)
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
	slices.SortStableFunc(b.order, func(x, y int) int { return b.at[x].compare(b.at[y]) })
	return b
}

func podKey(e *EventRecord) string {
	if e.Pod == "" {
		return ""
	}
	return e.Namespace + "/" + e.Pod
}

// assignedTo reads the node out of the scheduler's event, the first that names one.
func assignedTo(e *EventRecord) string {
	_, node, _ := strings.Cut(e.Message, " to ")
	if node = strings.TrimSpace(node); e.Reason != "Scheduled" || strings.ContainsAny(node, " \n") {
		return ""
	}
	return boundName(node)
}

// story returns the node's part of an image's story.
func (b *storyBuilder) story(image, node string, op Operation) *NodeStory {
	key := canonicalImage(image)
	if op == OperationSandboxImage {
		key = "sandbox " + key
	}
	i, ok := b.index[key]
	if !ok {
		i = len(b.stories)
		b.index[key] = i
		b.stories = append(b.stories, Story{Image: image})
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
	return &s.Nodes[at]
}

// reads returns what an event says, and whether it is about a pull at all.
func reads(e *EventRecord) (Reading, bool) {
	r := Event(e.Reason, e.Message)
	running := e.Status && e.Reason == "Running"
	started := len(r.Attempts) == 1 && r.Attempts[0].Cause == UnknownPullInProgress || e.Reason == "Pulling"
	return r, r.Kind != KindUnknown || running || started
}

// imageOfEvent says which image an event is about, "" if none can be found for
// it. Events must come in the order of time. It reports false for the image of a
// sandbox that no text names, which is another than any pod's.
func (b *storyBuilder) imageOfEvent(e *EventRecord, r Reading) (string, bool) {
	pod := podKey(e)
	image := orElse(e.Image, r.Image)
	switch {
	case image != "":
		b.last = image
		if pod != "" {
			b.imageOf[pod] = image
		}
	case r.Best.Operation == OperationSandboxImage:
		return "", false
	case pod != "":
		image = b.imageOf[pod]
	default:
		image = b.last
	}
	return image, true
}

// add puts one event into the story that it belongs to.
func (b *storyBuilder) add(e *EventRecord, at, first moment) {
	r, ok := reads(e)
	if !ok {
		return
	}
	running := e.Status && e.Reason == "Running"
	pod := podKey(e)
	image, _ := b.imageOfEvent(e, r)
	if image == "" && r.Kind != KindFailure {
		return
	}
	n := b.story(image, orElse(e.Node, b.nodeOf[pod]), r.Best.Operation)
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

// EventsAbout returns copies of the events that tell of a pull of one of images,
// in the order of time and by the rules of [Timeline]: an event without an image
// belongs to the one that its pod was last pulling, and one that no image can be
// found for is kept, since it may be about any. Image and Node are filled in
// where other events of the same pod show them. No images = every event about
// some pull.
func EventsAbout(events []EventRecord, images ...string) []EventRecord {
	b := newStoryBuilder(events)
	var out []EventRecord
	for _, i := range b.order {
		e := events[i]
		r, ok := reads(&e)
		if !ok {
			continue
		}
		image, known := b.imageOfEvent(&e, r)
		about := func(other string) bool { return SameImage(image, other) }
		if !known || image != "" && len(images) > 0 && !slices.ContainsFunc(images, about) {
			continue
		}
		e.Image, e.Node = image, orElse(e.Node, b.nodeOf[podKey(&e)])
		out = append(out, e)
	}
	return out
}
