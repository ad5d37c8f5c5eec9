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
	r.pool(ctx, name, n, waits)
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

// pool finds where the node belongs, once there is something to count.
func (r *reconciler) pool(ctx context.Context, name string, n *node, waits []waiting) {
	if n.pool != "" || !slices.ContainsFunc(waits, func(w waiting) bool { return len(w.failures) > 0 }) {
		return
	}
	var err error
	if n.pool, err = r.pools.of(ctx, name); err != nil {
		logf.FromContext(ctx).Error(err, "the node's pool is not known")
	}
}

// want notes the questions that the Pods wait for.
func (r *reconciler) want(n *node, waits []waiting) map[question]bool {
	wanted := map[question]bool{}
	for _, e := range n.entries {
		e.namespaces = nil
	}
	for _, w := range waits {
		for _, f := range w.failures {
			if q, ok := r.questionOf(w.pod, f); ok {
				wanted[q] = true
				n.want(q, f.said(), w.pod.Namespace, r.now())
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
