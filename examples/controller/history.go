package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pullwalk/pullwalk/classify"
)

const maxEvents = 50 // of one Pod; the last ones

// history is what the cluster keeps of a Pod's past, oldest first. It is asked for
// when a question is due: a copy of all events of a cluster would be large, and is
// of no use.
func history(ctx context.Context, c client.Reader, pod *corev1.Pod) ([]corev1.Event, error) {
	var list corev1.EventList
	err := c.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingFields{"involvedObject.uid": string(pod.UID)}, client.Limit(500))
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return last(&a).Compare(last(&b)) })
	return list.Items[max(0, len(list.Items)-maxEvents):], nil
}

// last is when the event was seen last: each generation of recorders writes that
// into another field.
func last(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// records are the events about one failure, then what its status says now.
func (f failure) records(pod *corev1.Pod, events []corev1.Event) []classify.EventRecord {
	var out []classify.EventRecord
	for i := range events {
		e := &events[i]
		if e.InvolvedObject.FieldPath != "" && e.InvolvedObject.FieldPath != f.place {
			continue // of another container
		}
		r := record(pod, e.Reason, e.Message)
		r.Time, r.First, r.Count = last(e), e.FirstTimestamp.Time, int(e.Count)
		if r.Reason != "Scheduled" {
			r.Image = f.image
		}
		out = append(out, r)
	}
	if !f.sandbox {
		out = append(out, f.record) // of a sandbox no status speaks
	}
	return out
}

// reading is what the texts say. It is a guess: many faults print the same words.
type reading struct {
	finding classify.Finding // zero = no text says why
	first   time.Time        // when it was first reported; zero = not known
	stale   bool             // the events name another cause than the status
}

func read(records []classify.EventRecord) reading {
	stories := classify.Timeline(records)
	if len(stories) == 0 || len(stories[0].Nodes) == 0 {
		return reading{}
	}
	n := &stories[0].Nodes[0]
	return reading{finding: stories[0].Cause, first: n.FirstFailure, stale: n.Stale}
}

// said is what the texts say at the moment, without history.
func (f failure) said() reading {
	return read([]classify.EventRecord{f.record})
}

// sandboxFailure finds the pull of the sandbox's image among a Pod's events, nil if
// the last attempt failed for another reason, such as the network or a policy.
func sandboxFailure(pod *corev1.Pod, events []corev1.Event) *failure {
	for i := range slices.Backward(events) {
		e := &events[i]
		if e.Reason != "FailedCreatePodSandBox" {
			continue
		}
		r := classify.Event(e.Reason, e.Message)
		if r.Kind != classify.KindFailure || r.Image == "" {
			return nil
		}
		f := failure{image: r.Image, sandbox: true, record: record(pod, e.Reason, e.Message)}
		f.record.Image, f.record.Time, f.record.Count = r.Image, last(e), cmp.Or(int(e.Count), 1)
		return &f
	}
	return nil
}
