package agentclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/exchange"
)

// Limits of one question.
const (
	maxResult  = 4 << 20          // bytes of one result; an ordinary one has 10 to 100 KiB
	maxAnswer  = 32 << 20         // of all results of one request
	maxObjects = 20_000           // in one result, and elements of lists
	maxMessage = 4 << 10          // of a refusal
	grace      = 15 * time.Second // for connection, TLS and body, beside the budget
)

// ServerName is the name that the certificate of every agent is for, where one
// certificate serves all nodes: they are asked by address, and come and go.
const ServerName = "pullwalk-agent"

// NodeServerName is the name that the certificate of one node's agent is for, and
// the audience of the tokens for it.
func NodeServerName(node string) string { return node + "." + ServerName }

// Client asks agents. Make one with New, NewPerNode or NewLocal. It keeps no
// connection open.
type Client struct {
	roots   *x509.CertPool // nil = in the clear, on loopback
	perNode bool           // certificate and token are of one node
	token   func(ctx context.Context, node string) ([]byte, error)
}

// New returns a client for agents that listen beyond loopback and share one
// certificate and one token. authority is the PEM of what signed the certificate (or
// that certificate itself, if it is self-signed). token gives the bearer token anew
// for each request, so that it can be rotated. Root on one node can then ask the
// agents of all others: see NewPerNode.
func New(authority []byte, token func() ([]byte, error)) (*Client, error) {
	if token == nil {
		return nil, errors.New("agentclient: no token")
	}
	return secure(authority, false, func(context.Context, string) ([]byte, error) { return token() })
}

// NewPerNode returns a client for agents of which each has a certificate for
// [NodeServerName] of its node. token gives a token for that audience, which no agent
// of another node takes. Requests must name their node.
func NewPerNode(authority []byte, token func(ctx context.Context, node string) ([]byte, error)) (*Client, error) {
	if token == nil {
		return nil, errors.New("agentclient: no token")
	}
	return secure(authority, true, token)
}

func secure(authority []byte, perNode bool, token func(context.Context, string) ([]byte, error)) (*Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("agentclient: no certificate in the PEM of the authority")
	}
	return &Client{roots: roots, perNode: perNode, token: token}, nil
}

// NewLocal returns a client for an agent on this machine's loopback interface,
// or behind a port-forward to it. It asks no other address.
func NewLocal() *Client { return &Client{} }

// config is that of TLS for a node; nil = in the clear.
func (c *Client) config(node string) *tls.Config {
	if c.roots == nil {
		return nil
	}
	name := ServerName
	if c.perNode {
		name = NodeServerName(node)
	}
	return &tls.Config{RootCAs: c.roots, ServerName: name, MinVersion: tls.VersionTLS13}
}

// StatusError is an agent's refusal.
type StatusError struct {
	Code int
	// Message is the agent's own, bounded and redacted.
	Message string
	// RetryAfter is how long a busy agent wants to be left alone; 0 = it did not say.
	RetryAfter time.Duration
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the agent answers %d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
}

// Busy says that the same question may be asked again later.
func (e *StatusError) Busy() bool {
	return e.Code == http.StatusTooManyRequests || e.Code == http.StatusServiceUnavailable
}

// Invalid says that the same question will always be refused.
func (e *StatusError) Invalid() bool {
	return e.Code == http.StatusBadRequest || e.Code == http.StatusForbidden || e.Code == http.StatusRequestEntityTooLarge
}

// ErrAnswer is found by errors.Is in the error about an answer that cannot be
// used: not JSON, too large, of another schema, or not about what was asked.
var ErrAnswer = errors.New("the agent's answer cannot be used")

// ErrRequest is found by errors.Is in the error about a request that was not sent,
// since every agent would refuse it.
var ErrRequest = errors.New("the request is invalid")

// Diagnose asks the agent at addr. The results are those of req.Images, in their
// order. The error is a *StatusError where the agent refuses, wraps ErrAnswer
// where what it says cannot be used, and else is about the way to the agent.
//
// What is checked makes a result one about this node, these images and this
// mode. Whether it is true is the agent's word.
func (c *Client) Diagnose(ctx context.Context, addr netip.AddrPort, req Request) ([]*pullwalk.Result, error) {
	if err := req.Check(); err != nil {
		return nil, fmt.Errorf("agentclient: %w: %w", ErrRequest, err)
	}
	config := c.config(req.Node)
	switch {
	case config == nil && !addr.Addr().Unmap().IsLoopback():
		return nil, fmt.Errorf("agentclient: %s is not loopback, and is asked over TLS only", addr)
	case c.perNode && req.Node == "":
		return nil, errors.New("agentclient: want a request that names its node, got none")
	}
	body, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("agentclient: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, req.Budget()+grace)
	defer cancel()
	where := url.URL{Scheme: "http", Host: addr.String(), Path: Path}
	if config != nil {
		where.Scheme = "https"
	}
	hr, err := http.NewRequestWithContext(ctx, http.MethodPost, where.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("agentclient: %w", err)
	}
	hr.Header.Set("Content-Type", "application/json")
	hr.Header.Set("User-Agent", "pullwalk-agentclient")
	if c.token != nil {
		token, err := c.token(ctx, req.Node)
		if err != nil {
			return nil, fmt.Errorf("agentclient: the token: %w", err)
		}
		hr.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	}
	var results []*pullwalk.Result
	err = exchange.Do(ctx, config, hr, func(resp *http.Response) (err error) {
		if resp.StatusCode != http.StatusOK {
			return refusal(resp)
		}
		results, err = decode(resp.Body, req)
		return err
	})
	switch {
	case err == nil:
		return results, nil
	case errors.Is(err, ErrAnswer) || errors.As(err, new(*StatusError)):
		return nil, err
	}
	return nil, fmt.Errorf("agentclient: %w", err)
}

func refusal(resp *http.Response) error {
	e := &StatusError{Code: resp.StatusCode}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(raw, &said) != nil || said.Error == "" {
		said.Error = string(raw)
	}
	e.Message = classify.Redact(said.Error, 300)
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = min(time.Duration(min(s, 3600))*time.Second, time.Hour)
	}
	return e
}

// decode reads one result per image and nothing else.
func decode(body io.Reader, req Request) ([]*pullwalk.Result, error) {
	allowed := int64(min(maxAnswer, maxResult*len(req.Images)))
	bounded := &io.LimitedReader{R: body, N: allowed + 1}
	dec := json.NewDecoder(bounded)
	results := make([]*pullwalk.Result, 0, len(req.Images))
	for _, image := range req.Images {
		r := &pullwalk.Result{}
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if err == nil {
			err = resultBounds.check(raw)
		}
		if err == nil {
			err = json.Unmarshal(raw, r)
		}
		if err != nil {
			if bounded.N == 0 {
				return nil, fmt.Errorf("agentclient: %w: more than %d bytes", ErrAnswer, allowed)
			}
			return nil, fmt.Errorf("agentclient: %w: %s", ErrAnswer, classify.Redact(err.Error(), 200))
		}
		if why := unusable(r, image, req); why != "" {
			return nil, fmt.Errorf("agentclient: %w: %s", ErrAnswer, why)
		}
		results = append(results, r)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("agentclient: %w: more follows the results", ErrAnswer)
	}
	return results, nil
}

// unusable says why a result is no answer to the question, "" if it is one.
func unusable(r *pullwalk.Result, image string, req Request) string {
	quote := func(s string) string { return strconv.Quote(classify.Redact(s, 200)) }
	mode := req.Pull
	if mode == "" {
		mode = pullwalk.Touch
	}
	switch {
	case r.Schema != pullwalk.Schema:
		return "its schema is " + quote(r.Schema) + ", not " + pullwalk.Schema
	case r.Image.Given != image:
		return "it is about the image " + quote(r.Image.Given)
	case r.Pull != mode:
		return "its mode is " + quote(string(r.Pull)) + ", and " + string(mode) + " was asked for"
	case r.Proof != nil && mode != pullwalk.Complete:
		return "it claims a proof without a complete download"
	}
	if node := nodeOf(r); req.Node != "" && node != req.Node {
		return "it is about the node " + quote(node)
	}
	switch r.Verdict {
	case pullwalk.StatusFailed:
		if r.Primary == nil {
			return "it failed without a cause"
		}
	case pullwalk.StatusOK, pullwalk.StatusDegraded, pullwalk.StatusInconclusive:
		if r.Primary != nil {
			return "it has a cause of failure and did not fail"
		}
	default:
		return "its verdict is " + quote(string(r.Verdict))
	}
	if r.Proof != nil && (r.Verdict == pullwalk.StatusFailed || r.Verdict == pullwalk.StatusInconclusive) {
		return "it claims a proof and did not succeed"
	}
	return ""
}

func nodeOf(r *pullwalk.Result) string {
	for _, l := range r.Vantage.Labels {
		if l.Key == NodeLabel {
			return l.Value
		}
	}
	return ""
}
