package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// Bounds of asking.
const (
	maxNodes = 3 // nodes that are asked for one that answers
	maxBusy  = 3 // times that a busy agent is asked again
	busyWait = 10 * time.Second
	maxWait  = time.Minute
)

// asker asks the agent at an address; *agentclient.Client is one.
type asker interface {
	Diagnose(context.Context, netip.AddrPort, agentclient.Request) ([]*pullwalk.Result, error)
}

// question is what is asked of the nodes.
type question struct {
	images   []string
	pull     pullwalk.PullMode
	budget   time.Duration // for one image on one node; 0 = the agent's default
	secrets  []agentclient.PullSecret
	perPool  int // nodes of each pool that should answer
	parallel int // nodes that are asked at the same time

	agents   map[string]agent // by node
	client   asker
	progress func(string) // called from one goroutine at a time
}

// outcome is what came of one image on one node.
type outcome struct {
	Pool   string           `json:"pool"`
	Node   string           `json:"node"`
	Image  string           `json:"image"`
	Reason string           `json:"reason,omitempty"` // why there is no result; "" = there is one
	result *pullwalk.Result // nil = none that can be used
	told   bool             // the pool's reason says it already
}

// ask asks the nodes of all pools, and returns when all have answered or ctx ends.
func (q question) ask(ctx context.Context, pools []pool) []outcome {
	var (
		mu    sync.Mutex
		all   []outcome
		wg    sync.WaitGroup
		slots = make(chan struct{}, q.parallel)
	)
	say := q.progress
	q.progress = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		say(line)
	}
	for _, p := range pools {
		// The younger is asked first, and who finds no answer takes the next.
		next := make(chan pullwalk.PoolNode, len(p.nodes))
		for _, n := range p.nodes {
			next <- n
		}
		close(next)
		for range min(q.perPool, len(p.nodes)) {
			wg.Go(func() {
				left := q.images
				for asked := 0; asked < maxNodes && len(left) > 0; {
					select {
					case slots <- struct{}{}:
					case <-ctx.Done():
						return
					}
					node, more := <-next
					if !more || ctx.Err() != nil {
						<-slots
						return
					}
					if q.unable(node.Name) == "" { // to pass over one costs nothing
						asked++
					}
					got := q.askNode(ctx, p.name, node.Name, left)
					<-slots
					left = nil
					mu.Lock()
					all = append(all, got...)
					mu.Unlock()
					for _, o := range got {
						if o.result == nil {
							left = append(left, o.Image)
						}
					}
				}
			})
		}
	}
	wg.Wait()
	// In the order of the pools' names, whoever was faster.
	slices.SortStableFunc(all, func(a, b outcome) int {
		return strings.Compare(a.Pool+"\x00"+a.Node, b.Pool+"\x00"+b.Node)
	})
	return all
}

// askNode asks one node for one image after the other: an agent that is stopped
// half way has then answered for some.
func (q question) askNode(ctx context.Context, pool, node string, images []string) []outcome {
	var out []outcome
	gone := q.unable(node) // why there is no use in asking further
	for _, image := range images {
		o := outcome{Pool: pool, Node: node, Image: image, Reason: gone}
		if gone == "" {
			q.progress(fmt.Sprintf("%s: %s: %s …", node, shown(image), q.doing()))
			started := time.Now()
			r, err := q.askImage(ctx, q.agents[node].addr, node, image)
			took := time.Since(started).Round(100 * time.Millisecond)
			if err == nil {
				r.Vantage.Labels = ownLabels(r.Vantage.Labels, pool, node)
				o.result = r
				q.progress(fmt.Sprintf("%s: %s: %s after %v", node, shown(image), answerOf(r), took))
			} else {
				o.Reason = reasonOf(ctx, err)
				q.progress(fmt.Sprintf("%s: %s: no answer after %v: %s", node, shown(image), took, o.Reason))
				if !concernsImage(err) {
					gone = o.Reason
				}
			}
		}
		out = append(out, o)
	}
	return out
}

// unable says why a node cannot be asked, "" if it can.
func (q question) unable(node string) string {
	if a, known := q.agents[node]; known {
		return a.why
	}
	return "no agent runs on it"
}

func (q question) doing() string {
	if q.pull == pullwalk.Complete {
		return "complete download"
	}
	return "first bytes of every layer"
}

// askImage waits for a busy agent, a few times.
func (q question) askImage(ctx context.Context, addr netip.AddrPort, node, image string) (*pullwalk.Result, error) {
	req := agentclient.Request{
		Node: node, Images: []string{image}, Pull: q.pull,
		BudgetMS: q.budget.Milliseconds(), PullSecrets: q.secrets,
	}
	for try := 0; ; try++ {
		results, err := q.client.Diagnose(ctx, addr, req)
		if err == nil && len(results) == 1 && results[0] != nil {
			return results[0], otherReference(results[0], image)
		}
		if err == nil {
			return nil, fmt.Errorf("%w: %d results for one image", agentclient.ErrAnswer, len(results))
		}
		refused := (*agentclient.StatusError)(nil)
		if !errors.As(err, &refused) || !refused.Busy() || try == maxBusy {
			return nil, err
		}
		wait := time.NewTimer(min(max(refused.RetryAfter, busyWait), maxWait))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, err
		}
	}
}

// otherReference is the error of a result that repeats the question and answers
// another. What a short name stands for is the runtime's to say.
func otherReference(r *pullwalk.Result, image string) error {
	ref, err := endpoints.ParseReference(image)
	if err != nil || !strings.HasPrefix(image, ref.Registry+"/") || r.Image.Reference == canonical(ref) {
		return nil
	}
	return fmt.Errorf("%w: it is about %q", agentclient.ErrAnswer, shown(r.Image.Reference))
}

// canonical is a reference in full, as results name it.
func canonical(ref endpoints.Reference) string {
	s := ref.Registry + "/" + ref.Repository
	if ref.Tag != "" {
		s += ":" + ref.Tag
	}
	if ref.Digest != "" {
		s += "@" + ref.Digest
	}
	return s
}

// ownLabels says of which node and pool the result is. That is what was asked, and
// no result may choose the pool that it speaks for.
func ownLabels(labels []pullwalk.Label, pool, node string) []pullwalk.Label {
	out := []pullwalk.Label{{Key: pullwalk.LabelNode, Value: node}, {Key: pullwalk.LabelPool, Value: pool}}
	for _, l := range labels {
		if l.Key != pullwalk.LabelNode && l.Key != pullwalk.LabelPool {
			out = append(out, l)
		}
	}
	return out
}

// concernsImage says whether the same agent may answer for another image.
func concernsImage(err error) bool {
	refused := (*agentclient.StatusError)(nil)
	return errors.Is(err, agentclient.ErrAnswer) || errors.As(err, &refused) && refused.Invalid()
}

// reasonOf is why there is no answer, in words that say what to do where there is
// something to do.
func reasonOf(ctx context.Context, err error) string {
	refused := (*agentclient.StatusError)(nil)
	switch {
	case ctx.Err() != nil:
		return "stopped before it answered: " + shown(context.Cause(ctx).Error())
	case errors.Is(err, context.DeadlineExceeded):
		return "it did not answer in time"
	case errors.As(err, &refused) && refused.Code == 401:
		return "the agent refuses the token of -agent-token-file"
	case errors.As(err, &refused) && refused.Code == 421:
		return "another node answers at its address"
	}
	return shown(strings.TrimPrefix(err.Error(), "agentclient: "))
}

// answerOf is a result in a few words.
func answerOf(r *pullwalk.Result) string {
	switch {
	case r.Verdict == pullwalk.StatusFailed && r.Primary != nil:
		return "failed: " + shown(r.Primary.Error())
	case r.Verdict == pullwalk.StatusInconclusive:
		return "inconclusive: " + shown(r.Inconclusive)
	case r.Proof != nil:
		return fmt.Sprintf("%s, %d bytes downloaded", r.Verdict, r.Proof.Bytes)
	}
	return string(r.Verdict) + ", nothing downloaded completely"
}

// shown makes what others wrote safe to print on a line.
func shown(s string) string { return strings.TrimSpace(classify.Redact(s, 300)) }
