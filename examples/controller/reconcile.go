package main

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// byNode is the index of the Pods that are looked at by their node.
const byNode = "pullwalk.dev/node"

// reconciler looks at one node at a time, not at one Pod: the queue then keeps to
// one request per agent, and what many Pods of a node wait for is asked once.
type reconciler struct {
	pods    client.Reader // the cache, with the indexes
	live    client.Reader // the API: what is read too seldom to be watched
	ask     asker
	agents  agents
	pools   *pools
	secrets secrets
	teller  teller
	metrics *metrics
	now     func() time.Time

	mu    sync.Mutex
	nodes map[string]*node
}

// Reconcile looks at the node that the request names.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	name := req.Name
	var list corev1.PodList
	if err := r.pods.List(ctx, &list, client.MatchingFields{byNode: name}); err != nil {
		return reconcile.Result{}, err
	}
	n := r.node(name)
	waits := r.look(ctx, n, list.Items)
	wanted := r.want(n, waits)
	n.forget(r.now(), wanted, list.Items)
	r.notice(ctx, name, n)
	if due := n.due(r.now(), wanted); len(due) > 0 {
		asked := r.recall(ctx, n, due, waits)
		if err := r.tell(ctx, n, name, waits); err != nil {
			return reconcile.Result{}, err
		}
		r.question(ctx, name, n, asked)
		if ctx.Err() != nil {
			return reconcile.Result{}, nil // the controller ends
		}
	}
	if err := r.tell(ctx, n, name, waits); err != nil {
		return reconcile.Result{}, err
	}
	wake, some := n.wake(wanted)
	if !some {
		r.drop(name)
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(time.Millisecond, wake.Sub(r.now()))}, nil
}

func (r *reconciler) node(name string) *node {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes == nil {
		r.nodes = map[string]*node{}
	}
	if r.nodes[name] == nil {
		r.nodes[name] = newNode()
	}
	return r.nodes[name]
}

// drop forgets a node of which nothing is to be known any more. What was said of
// its Pods stands on them.
func (r *reconciler) drop(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.nodes, name)
}

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
			if w.failures = r.sandbox(ctx, n, pod, &looked); w.failures == nil && condition(pod) == nil {
				continue // it starts, as far as anybody knows
			}
		} else {
			delete(n.looks, pod.UID)
		}
		out = append(out, w)
	}
	return out
}

// sandbox is the pull of the sandbox's image that fails, as events say.
func (r *reconciler) sandbox(ctx context.Context, n *node, pod *corev1.Pod, looked *int) []failure {
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
			l.failure = sandboxFailure(pod, events)
		}
	}
	n.looks[pod.UID] = l
	if l.failure == nil {
		return nil
	}
	return []failure{*l.failure}
}

// want notes the questions that the Pods wait for.
func (r *reconciler) want(n *node, waits []waiting) map[question]bool {
	wanted := map[question]bool{}
	for _, w := range waits {
		for _, f := range w.failures {
			if q, ok := r.questionOf(w.pod, f); ok {
				wanted[q] = true
				n.want(q, f.said())
			}
		}
	}
	return wanted
}

// questionOf is what to ask about a failure, if that is for an agent to answer.
func (r *reconciler) questionOf(pod *corev1.Pod, f failure) (question, bool) {
	if f.decided() || askable(f.image) != "" {
		return question{}, false
	}
	return question{f.image, r.secrets.identity(pod, f)}, true
}

// notice ends the wait for an agent if there is another one now, or its Pod's state
// is another.
func (r *reconciler) notice(ctx context.Context, name string, n *node) {
	if n.problem == nil {
		return
	}
	if a, _ := r.agents.on(ctx, name); a.id != n.agent {
		n.retry = time.Time{}
	}
}

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
	var err error
	if n.pool, err = r.pools.of(ctx, name); err != nil {
		log.Error(err, "the node's pool is not known")
	}
	at, err := r.agents.on(ctx, name)
	if err != nil {
		r.metrics.failed.WithLabelValues("absent", n.pool).Inc()
		n.unanswered(r.now(), at.id, problem{reasonUnreachable, err.Error()})
		return
	}
	req := agentclient.Request{Node: name, BudgetMS: budget(len(due)).Milliseconds()}
	var asked []question
	for _, d := range due {
		asked = append(asked, d.question)
		req.Images = append(req.Images, d.image)
		if len(due) == 1 { // an agent compares all events with each image
			req.Events = d.records
		}
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

// tell says on each Pod what is known, and counts.
func (r *reconciler) tell(ctx context.Context, n *node, name string, waits []waiting) error {
	counts := map[podLabels]int{}
	var failed error
	for _, w := range waits {
		c := recovered(w.pod)
		if len(w.failures) > 0 {
			var images []string
			var each []conclusion
			for _, f := range w.failures {
				images = append(images, f.image)
				each = append(each, r.conclude(n, w.pod, f))
			}
			c = combine(images, each)
			layer, cause := bounded(c.cause)
			counts[podLabels{layer, cause, n.pool, c.source}]++
		}
		told, err := r.teller.tell(ctx, w.pod, c, n.told[w.pod.UID], r.now())
		if n.told[w.pod.UID] = told; err != nil {
			failed = err // the others are told nevertheless
		}
	}
	r.metrics.pods.set(name, counts)
	return failed
}

// conclude says what is known of one image that a Pod waits for.
func (r *reconciler) conclude(n *node, pod *corev1.Pod, f failure) conclusion {
	text := f.said()
	if f.decided() {
		return byKubelet(text)
	}
	q, ok := r.questionOf(pod, f)
	if !ok {
		return textOnly(text, problem{reasonNotAsked, askable(f.image)})
	}
	e := n.entries[q]
	if text.finding.Cause == "" || text.finding.Cause == e.reading.finding.Cause {
		text = e.reading // with its history
	}
	recent := e.answer != nil && r.now().Before(e.answer.at.Add(answerKept))
	switch {
	case e.answer != nil && (recent || e.problem == nil && n.problem == nil):
		return e.answer.conclude(pod, f, text)
	case e.problem != nil:
		return textOnly(text, *e.problem)
	case n.problem != nil:
		return textOnly(text, *n.problem)
	}
	c := textOnly(text, problem{reason: reasonNotProbedYet})
	c.guess = true
	return c
}
