package main

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// look finds what each Pod waits for. Where only events can tell, it reads those of
// a few Pods, the older the seldomer.
func (r *reconciler) look(ctx context.Context, n *node, pods []corev1.Pod) []waiting {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return since(&a).Compare(since(&b)) })
	var out []waiting
	looked := 0
	for i := range pods {
		pod := &pods[i]
		w := waiting{pod: pod, failures: failures(pod)}
		if len(w.failures) == 0 && creating(pod) {
			seen, f := r.sandbox(ctx, n, pod, &looked)
			if f != nil {
				w.failures = []failure{*f}
			} else if !seen || condition(pod) == nil {
				continue // it starts, as far as anybody knows, or nobody does
			}
		} else {
			delete(n.looks, pod.UID)
		}
		out = append(out, w)
	}
	return out
}

// sandbox is the pull of the sandbox's image that fails, as events say, nil = it does
// not. seen says that the events were read.
func (r *reconciler) sandbox(ctx context.Context, n *node, pod *corev1.Pod, looked *int) (seen bool, f *failure) {
	l, known := n.looks[pod.UID]
	if !known {
		l.next = since(pod).Add(firstLook)
	}
	if now := r.now(); !now.Before(l.next) && *looked < maxLooks {
		*looked++
		l.next = now.Add(min(max(firstLook, now.Sub(since(pod))/4), lastLook))
		events, err := history(ctx, r.live, pod)
		if err != nil {
			logf.FromContext(ctx).Error(err, "without events a sandbox image that cannot be pulled is not seen", "pod", client.ObjectKeyFromObject(pod))
		} else {
			l.seen, l.failure = true, sandboxFailure(pod, events)
		}
	}
	n.looks[pod.UID] = l
	return l.seen, l.failure
}
