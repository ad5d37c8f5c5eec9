package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

type askFunc func(context.Context, agentclient.Request) (*pullwalk.Result, error)

func (f askFunc) Diagnose(ctx context.Context, _ netip.AddrPort, req agentclient.Request) ([]*pullwalk.Result, error) {
	r, err := f(ctx, req)
	if err != nil {
		return nil, err
	}
	return []*pullwalk.Result{r}, nil
}

// fleetOf are pools of so many nodes, with an agent on each.
func fleetOf(pools, nodes int) ([]pool, map[string]agent) {
	var out []pool
	agents := map[string]agent{}
	for i := range pools {
		p := pool{name: fmt.Sprintf("p%02d", i)}
		for j := range nodes {
			name := fmt.Sprintf("%s-n%02d", p.name, j)
			p.nodes = append(p.nodes, pullwalk.PoolNode{Name: name, Created: noon.Add(-time.Hour)})
			agents[name] = agent{}
		}
		out = append(out, p)
	}
	return out, agents
}

func newQuestion(agents map[string]agent, f askFunc) question {
	return question{images: []string{appImage}, pull: pullwalk.Complete, perPool: 1, parallel: 4, agents: agents, client: f, progress: func(string) {}}
}

// lines shows outcomes in short.
func lines(outcomes []outcome) []string {
	var out []string
	for _, o := range outcomes {
		s := o.Node + " " + o.Image + ": "
		if o.result != nil {
			s += string(o.result.Verdict)
		}
		out = append(out, s+o.Reason)
	}
	return out
}

func TestAskIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pools, agents := fleetOf(10, 5)
		var now, most, all atomic.Int32
		q := newQuestion(agents, func(_ context.Context, req agentclient.Request) (*pullwalk.Result, error) {
			all.Add(1)
			n := now.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return proved(req.Node, req.Images[0]), nil
		})
		q.perPool = 2
		start := time.Now()
		got := q.ask(t.Context(), pools)
		require.Len(t, got, 20)
		require.EqualValues(t, 20, all.Load())
		require.EqualValues(t, 4, most.Load())
		require.Equal(t, 5*time.Second, time.Since(start), "as many as may are asked at the same time")
		require.Equal(t, "p00-n00 "+appImage+": ok", lines(got)[0])
		require.Equal(t, "p09-n01 "+appImage+": ok", lines(got)[19])
	})
}

// A pool is not given up with its youngest node, and not asked to its end either.
func TestAskTakesTheNextNode(t *testing.T) {
	pools, agents := fleetOf(1, 9)
	delete(agents, "p00-n00")
	agents["p00-n01"] = agent{why: "its agent is Pending"}
	passed := []string{
		"p00-n00 " + initImage + ": no agent runs on it", "p00-n00 " + appImage + ": no agent runs on it",
		"p00-n01 " + initImage + ": its agent is Pending", "p00-n01 " + appImage + ": its agent is Pending",
	}
	var requests []string
	ask := func(ok bool) askFunc {
		return func(_ context.Context, req agentclient.Request) (*pullwalk.Result, error) {
			requests = append(requests, req.Node+" "+req.Images[0])
			if !ok {
				return nil, errors.New("agentclient: dial tcp 10.0.0.7:9741: connect: connection refused")
			}
			return proved(req.Node, req.Images[0]), nil
		}
	}
	q := newQuestion(agents, ask(true))
	q.images = []string{initImage, appImage}
	require.Equal(t, append(passed, "p00-n02 "+initImage+": ok", "p00-n02 "+appImage+": ok"), lines(q.ask(t.Context(), pools)))

	requests, q.client = nil, ask(false)
	want := passed
	for _, node := range []string{"p00-n02", "p00-n03", "p00-n04"} {
		for _, image := range q.images {
			want = append(want, node+" "+image+": dial tcp 10.0.0.7:9741: connect: connection refused")
		}
	}
	require.Equal(t, want, lines(q.ask(t.Context(), pools)))
	require.Equal(t, []string{"p00-n02 " + initImage, "p00-n03 " + initImage, "p00-n04 " + initImage}, requests,
		"who cannot be reached is not asked for the next image")
}

// The next node is asked only for what the one before left open.
func TestAskForWhatIsLeft(t *testing.T) {
	pools, agents := fleetOf(1, 3)
	q := newQuestion(agents, func(_ context.Context, req agentclient.Request) (*pullwalk.Result, error) {
		if req.Node == "p00-n00" && req.Images[0] == initImage {
			return nil, fmt.Errorf("agentclient: %w: more than 4194304 bytes", agentclient.ErrAnswer)
		}
		return proved(req.Node, req.Images[0]), nil
	})
	q.images = []string{initImage, appImage}
	require.Equal(t, []string{
		"p00-n00 " + initImage + ": the agent's answer cannot be used: more than 4194304 bytes",
		"p00-n00 " + appImage + ": ok",
		"p00-n01 " + initImage + ": ok",
	}, lines(q.ask(t.Context(), pools)))
}

func TestBusyAgents(t *testing.T) {
	tests := []struct {
		name  string
		busy  int           // answers
		after time.Duration // Retry-After
		want  string
		took  time.Duration
	}{
		{"once", 1, 0, "ok", 10 * time.Second},
		{"as it says", 2, 20 * time.Second, "ok", 40 * time.Second},
		{"not as long as it says", 1, time.Hour, "ok", time.Minute},
		{"not more often than it may", 1, time.Millisecond, "ok", 10 * time.Second},
		{"always", 100, 0, "the agent answers 429 Too Many Requests: busy", 30 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pools, agents := fleetOf(1, 1)
				left := test.busy
				q := newQuestion(agents, func(_ context.Context, req agentclient.Request) (*pullwalk.Result, error) {
					if left--; left >= 0 {
						return nil, &agentclient.StatusError{Code: 429, Message: "busy", RetryAfter: test.after}
					}
					return proved(req.Node, req.Images[0]), nil
				})
				start := time.Now()
				require.Equal(t, []string{"p00-n00 " + appImage + ": " + test.want}, lines(q.ask(t.Context(), pools)))
				require.Equal(t, test.took, time.Since(start))
			})
		})
	}
}

// Agents that never answer, and one that is busy, do not hold who goes away.
func TestAskEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pools, agents := fleetOf(20, 2)
		q := newQuestion(agents, func(ctx context.Context, req agentclient.Request) (*pullwalk.Result, error) {
			switch req.Node {
			case "p00-n00", "p01-n00", "p02-n00":
				return proved(req.Node, req.Images[0]), nil
			case "p03-n00":
				return nil, &agentclient.StatusError{Code: 503, Message: "busy"}
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		q.parallel = 10
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, errors.New("-timeout 5s is over"))
		defer cancel()
		start := time.Now()
		got := q.ask(ctx, pools)
		require.Equal(t, 5*time.Second, time.Since(start))
		for _, line := range lines(got) {
			if !strings.HasSuffix(line, ": ok") {
				require.Contains(t, line, "stopped before it answered: -timeout 5s is over")
			}
		}
		rep := &report{}
		rep.sum(sight{images: q.images, pools: pools, outcomes: got, unasked: "stopped"})
		require.Equal(t, pullwalk.StatusInconclusive, rep.Verdict)
	})
}

func TestAnAnswerThatTakesTooLong(t *testing.T) {
	pools, agents := fleetOf(1, 1)
	q := newQuestion(agents, func(context.Context, agentclient.Request) (*pullwalk.Result, error) {
		return nil, fmt.Errorf("agentclient: %w", context.DeadlineExceeded)
	})
	require.Equal(t, []string{"p00-n00 " + appImage + ": it did not answer in time"}, lines(q.ask(t.Context(), pools)))
}

// What a short name stands for is the runtime's to say; a full name is itself.
func TestOtherReference(t *testing.T) {
	for image, reference := range map[string]string{"app": "registry.corp.test/team/app:latest", appImage: appImage, "docker.io/library/app": "docker.io/library/app:latest"} {
		r := proved("n", image)
		r.Image.Reference = reference
		require.NoError(t, otherReference(r, image))
		r.Image.Reference = "evil.test/app:v1"
		require.Equal(t, image != "app", otherReference(r, image) != nil)
	}
}
