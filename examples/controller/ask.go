package main

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// asker asks one agent. *agentclient.Client is one.
type asker interface {
	Diagnose(ctx context.Context, addr netip.AddrPort, req agentclient.Request) ([]*pullwalk.Result, error)
}

// files is an asker whose authority and token are read anew each time, so that
// both can be renewed while it runs.
type files struct{ authority, token string }

func (f files) Diagnose(ctx context.Context, addr netip.AddrPort, req agentclient.Request) ([]*pullwalk.Result, error) {
	pem, err := os.ReadFile(f.authority)
	if err != nil {
		return nil, err
	}
	c, err := agentclient.New(pem, func() ([]byte, error) { return os.ReadFile(f.token) })
	if err != nil {
		return nil, err
	}
	return c.Diagnose(ctx, addr, req)
}

// perNode is an asker for agents that have a certificate each. A token is for the agent
// of one node: root there, who sees it, can ask no other with it.
type perNode struct {
	authority string
	token     func(ctx context.Context, node string) ([]byte, error)
}

func (p perNode) Diagnose(ctx context.Context, addr netip.AddrPort, req agentclient.Request) ([]*pullwalk.Result, error) {
	pem, err := os.ReadFile(p.authority)
	if err != nil {
		return nil, err
	}
	c, err := agentclient.NewPerNode(pem, p.token)
	if err != nil {
		return nil, err
	}
	return c.Diagnose(ctx, addr, req)
}

const tokenSeconds = 600 // the least that the API server gives

// nodeTokens asks the cluster for tokens of a service account, one for each request.
type nodeTokens struct {
	writer  client.SubResourceWriter // of tokens
	account client.ObjectKey
}

func (n nodeTokens) token(ctx context.Context, node string) ([]byte, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: n.account.Namespace, Name: n.account.Name}}
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{agentclient.NodeServerName(node)}, ExpirationSeconds: new(int64(tokenSeconds)),
	}}
	if err := n.writer.Create(ctx, account, req); err != nil {
		return nil, err
	}
	return []byte(req.Status.Token), nil
}

// budget is what an agent may take for a request: it asks for all images at once,
// and a silent host costs them half a minute together.
const budget = time.Minute

// blame says what an error of a request means: the problem, and whether it is one
// of what was asked and not of the agent.
func blame(err error) (p problem, ofQuestion bool) {
	p = problem{reasonUnreachable, classify.Redact(err.Error(), 240)}
	var refused *agentclient.StatusError
	switch {
	case errors.As(err, &refused):
		p.reason = reasonRefuses
		if refused.Code == http.StatusMisdirectedRequest {
			p.reason = reasonUnreachable // somebody else's agent has the address
		}
		return p, refused.Invalid()
	case errors.Is(err, agentclient.ErrAnswer):
		p.reason = reasonUnusable
		return p, true
	case errors.Is(err, agentclient.ErrRequest):
		p.reason = reasonNotAsked // by one tenant's secret, and no fault of the agent
		return p, true
	}
	return p, false
}

// busy says how long a busy agent wants to be left alone, 0 = it is not busy.
func busy(err error) time.Duration {
	var refused *agentclient.StatusError
	if errors.As(err, &refused) && refused.Busy() {
		return max(refused.RetryAfter, busyAgain)
	}
	return 0
}

// unanswered notes that the agent did not answer.
func (n *node) unanswered(now time.Time, id string, p problem) {
	n.problem, n.agent = &p, id
	n.retry = now.Add(doubled(agentAgain, agentLast, n.silent))
	n.silent++
}

// answered notes that it did, whatever it said.
func (n *node) answered() { n.problem, n.agent, n.retry, n.silent = nil, "", time.Time{}, 0 }

// refusedWhole notes that a request was refused for what it asks. One image may be
// why: then each is asked for on its own.
func (n *node) refusedWhole(now time.Time, asked []question, p problem) {
	for _, q := range asked {
		e := n.entries[q]
		if len(asked) > 1 {
			e.alone = true
			continue // and due at once
		}
		e.problem, e.asked = &p, now
		e.next = now.Add(doubled(firstAgain, lastAgain, e.tries))
		e.tries++
	}
}

// take keeps the answers.
func (n *node) take(now time.Time, asked []question, results []*pullwalk.Result, secrets bool) {
	n.answered()
	for i, q := range asked {
		e := n.entries[q]
		e.answer, e.problem, e.asked = newAnswer(results[i], now, secrets), nil, now
		e.next = now.Add(doubled(firstAgain, lastAgain, e.tries))
		e.tries++
	}
}

// kind is the reason as a label.
func (p problem) kind() string {
	switch p.reason {
	case reasonRefuses:
		return "refused"
	case reasonUnusable:
		return "unusable"
	}
	return "unreachable"
}
