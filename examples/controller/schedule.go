package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
)

// When the same is asked again.
const (
	firstAgain = time.Minute      // after the first answer; then twice as long each time
	lastAgain  = 15 * time.Minute // at most
	agentAgain = 30 * time.Second // after an agent did not answer; twice as long each time
	agentLast  = 5 * time.Minute  // at most
	busyAgain  = 10 * time.Second // if a busy agent does not say when
	answerKept = 30 * time.Minute // an answer counts so long while its agent is silent
	firstLook  = 30 * time.Second // at the events of a Pod without a sandbox; then a quarter of its age
	lastLook   = 10 * time.Minute // at most
	maxLooks   = 4                // Pods whose events are read at once
	maxBatch   = 4                // images of one request: the answer must not take minutes
	maxImage   = 1024             // bytes of a name; a registry's, a repository's and a tag's or digest's stay below
)

// question is what the agent of a node is asked, once for all Pods that wait for
// the answer.
type question struct {
	image    string
	identity string // "" = the node's own
}

// entry is a question with what is known of it.
type entry struct {
	namespaces []string       // of the Pods that wait for it now
	first      time.Time      // when it was first wanted
	answer     *answer        // the last one that can be used; nil = none
	problem    *problem       // why the last request has none; nil = it has
	said       classify.Cause // by the Pod's status, when it was asked last
	reading    reading        // of that and of events
	asked      time.Time
	next       time.Time
	tries      int
	alone      bool // what it was asked together with was refused as a whole
}

// look is what the events of a Pod without sandbox said.
type look struct {
	next    time.Time
	seen    bool     // they were read
	failure *failure // nil = nothing of a pull
}

// node is what is known of one node. Only one reconciliation uses it at a time.
type node struct {
	pool    string // "" = nobody has looked yet
	entries map[question]*entry
	looks   map[types.UID]look
	told    map[types.UID]string // the key of what was said last; the cache may lag behind
	served  map[string]time.Time // when a namespace's image was asked for last; by namespace

	// Of its agent.
	problem *problem
	agent   string // the id of the one that did not answer
	retry   time.Time
	silent  int // requests without an answer, in a row
}

func newNode() *node {
	return &node{entries: map[question]*entry{}, looks: map[types.UID]look{}, told: map[types.UID]string{}, served: map[string]time.Time{}}
}

// waiting is a Pod with what it waits for.
type waiting struct {
	pod      *corev1.Pod
	failures []failure
}

// doubled is base, twice as long for each time.
func doubled(base, most time.Duration, times int) time.Duration {
	for ; times > 0 && base < most; times-- {
		base *= 2
	}
	return min(base, most)
}

// askable says why an image is not asked for, "" if it is.
func askable(image string) string {
	if len(image) > maxImage {
		return "the image's name is longer than one can be"
	}
	if _, err := endpoints.ParseReference(image); err != nil {
		return classify.Redact(err.Error(), 200)
	}
	return ""
}

// want notes that a Pod waits for the answer. Another cause in the texts brings
// the next request forward, and not so far that one that comes and goes is asked
// for at each change.
func (n *node) want(q question, said reading, namespace string, now time.Time) *entry {
	e := n.entries[q]
	if e == nil {
		e = &entry{first: now}
		n.entries[q] = e
	}
	if !slices.Contains(e.namespaces, namespace) {
		e.namespaces = append(e.namespaces, namespace)
	}
	if c := said.finding.Cause; c != "" && !e.asked.IsZero() && c != e.said {
		soon := e.asked.Add(max(firstAgain, doubled(firstAgain, lastAgain, e.tries)/4))
		if soon.Before(e.next) {
			e.next = soon
		}
	}
	return e
}

// forget drops what no Pod waits for, when its time to be asked again has come:
// Pods that are made anew each second do not ask anew each second.
func (n *node) forget(now time.Time, wanted map[question]bool, pods []corev1.Pod) {
	maps.DeleteFunc(n.entries, func(q question, e *entry) bool { return !wanted[q] && !now.Before(e.next) })
	gone := func(uid types.UID) bool {
		return !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.UID == uid })
	}
	maps.DeleteFunc(n.looks, func(uid types.UID, _ look) bool { return gone(uid) })
	maps.DeleteFunc(n.served, func(_ string, at time.Time) bool { return now.Sub(at) > answerKept })
	maps.DeleteFunc(n.told, func(uid types.UID, _ string) bool { return gone(uid) })
}

// due picks what the next request is about: round robin over the namespaces, those that
// were served longest ago first, and in each by when an image was first wanted or is due
// again. So a namespace with many images, or with ever new ones, delays no other. With
// the first goes what has the same identity.
func (n *node) due(now time.Time, wanted map[question]bool) []question {
	if now.Before(n.retry) {
		return nil
	}
	var all []question
	for q := range wanted {
		if !now.Before(n.entries[q].next) {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, n.before)
	turn := map[question]int{} // the first that one of its namespaces has for it
	of := map[string]int{}
	for _, q := range all {
		turn[q] = len(all)
		for _, namespace := range n.entries[q].namespaces {
			turn[q] = min(turn[q], of[namespace])
			of[namespace]++
		}
	}
	slices.SortStableFunc(all, func(a, b question) int {
		return cmp.Or(cmp.Compare(turn[a], turn[b]), n.servedLast(a).Compare(n.servedLast(b)))
	})
	if len(all) == 0 {
		return nil
	}
	first := all[0]
	most := maxBatch
	if n.entries[first].alone {
		most = 1
	}
	all = slices.DeleteFunc(all, func(q question) bool {
		return q != first && (q.identity != first.identity || n.entries[q].alone)
	})
	all = all[:min(most, len(all))]
	for _, q := range all {
		for _, namespace := range n.entries[q].namespaces {
			n.served[namespace] = now
		}
	}
	return all
}

// servedLast is when the namespace of a question that waits longest was served.
func (n *node) servedLast(q question) (at time.Time) {
	for i, namespace := range n.entries[q].namespaces {
		if served := n.served[namespace]; i == 0 || served.Before(at) {
			at = served
		}
	}
	return at
}

// before orders questions by since when an answer is wanted.
func (n *node) before(a, b question) int {
	since := func(q question) time.Time {
		if e := n.entries[q]; !e.next.IsZero() {
			return e.next
		}
		return n.entries[q].first
	}
	return cmp.Or(since(a).Compare(since(b)), strings.Compare(a.image+" "+a.identity, b.image+" "+b.identity))
}

// wake is when there is something to do again; false = nothing is left to do.
func (n *node) wake(wanted map[question]bool) (at time.Time, some bool) {
	earlier := func(t time.Time) {
		if !some || t.Before(at) {
			at, some = t, true
		}
	}
	for q, e := range n.entries {
		next := e.next // zero = at once
		if wanted[q] && next.Before(n.retry) {
			next = n.retry
		}
		earlier(next)
	}
	for _, l := range n.looks {
		earlier(l.next)
	}
	return at, some
}
