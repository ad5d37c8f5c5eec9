package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// asking is a question that is due, with the Pod by which it is asked.
type asking struct {
	question
	pod     *corev1.Pod
	records []classify.EventRecord
}

// recall reads the history of what is due, of the Pod that waits longest.
func (r *reconciler) recall(ctx context.Context, n *node, due []question, waits []waiting) []asking {
	var out []asking
	for _, q := range due {
		a := asking{question: q}
		var about failure
		for _, w := range waits {
			for _, f := range w.failures {
				if is, ok := r.questionOf(w.pod, f); ok && is == q && a.pod == nil {
					a.pod, about = w.pod, f
				}
			}
		}
		events, err := history(ctx, r.live, a.pod)
		if err != nil {
			logf.FromContext(ctx).Error(err, "no history, only the present", "pod", client.ObjectKeyFromObject(a.pod))
		}
		a.records = about.records(a.pod, events)
		e := n.entries[q]
		e.said, e.reading = about.said().finding.Cause, read(a.records)
		out = append(out, a)
	}
	return out
}

// question asks the node's agent, once for all that is due.
func (r *reconciler) question(ctx context.Context, name string, n *node, due []asking) {
	log := logf.FromContext(ctx)
	at, err := r.agents.on(ctx, name)
	if err != nil {
		r.metrics.failed.WithLabelValues("absent", n.pool).Inc()
		n.unanswered(r.now(), at.id, problem{reasonUnreachable, err.Error()})
		return
	}
	req := agentclient.Request{Node: name, BudgetMS: budget.Milliseconds()}
	var asked []question
	for _, d := range due {
		asked = append(asked, d.question)
		req.Images = append(req.Images, d.image)
		req.Events = append(req.Events, d.records...) // each names its image
	}
	secrets := due[0].identity != ""
	if secrets {
		if req.PullSecrets, err = r.secrets.of(ctx, due[0].pod); err != nil {
			log.Error(err, "asked without the Pod's pull secrets", "pod", client.ObjectKeyFromObject(due[0].pod))
			secrets = false
		}
	}
	started := time.Now()
	results, err := r.ask.Diagnose(ctx, at.addr, req)
	if ctx.Err() != nil {
		return
	}
	r.metrics.seconds.WithLabelValues(n.pool).Observe(time.Since(started).Seconds())
	if err == nil {
		for _, res := range results {
			r.metrics.result(res, n.pool)
		}
		n.take(r.now(), asked, results, secrets)
		return
	}
	log.Info("the agent gives no answer", "agent", at.addr, "error", classify.Redact(err.Error(), 300))
	p, ofQuestion := blame(err)
	if wait := busy(err); wait > 0 {
		r.metrics.failed.WithLabelValues("busy", n.pool).Inc()
		n.retry = r.now().Add(wait)
		return
	}
	r.metrics.failed.WithLabelValues(p.kind(), n.pool).Inc()
	if ofQuestion {
		n.answered()
		n.refusedWhole(r.now(), asked, p)
		return
	}
	n.unanswered(r.now(), at.id, p)
}
