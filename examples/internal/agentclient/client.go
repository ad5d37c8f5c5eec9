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
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

// Limits of one question.
const (
	maxResult  = 4 << 20          // bytes of one result; an ordinary one has 10 to 100 KiB
	maxAnswer  = 32 << 20         // of all results of one request
	maxObjects = 20_000           // in one result: three bytes of JSON would be hundreds in memory; an ordinary one has some hundreds
	maxMessage = 4 << 10          // of a refusal
	grace      = 15 * time.Second // for connection, TLS and body, beside the budget
)

// ServerName is the name that the certificate of every agent is for. One
// certificate serves all nodes: they are asked by address, and come and go.
const ServerName = "pullwalk-agent"

// Client asks agents. Make one with New; it keeps no connection open.
type Client struct {
	token  func() ([]byte, error)
	scheme string
	http   *http.Client
}

// New returns a client for agents that listen beyond loopback. authority is the
// PEM of what signed their certificate (or that certificate itself, if it is
// self-signed). token gives the bearer token anew for each request, so that it
// can be rotated.
func New(authority []byte, token func() ([]byte, error)) (*Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("agentclient: no certificate in the PEM of the authority")
	}
	if token == nil {
		return nil, errors.New("agentclient: no token")
	}
	c := client("https", &tls.Config{RootCAs: roots, ServerName: ServerName, MinVersion: tls.VersionTLS13})
	c.token = token
	return c, nil
}

// NewLocal returns a client for an agent on this machine's loopback interface,
// or behind a port-forward to it. It asks no other address.
func NewLocal() *Client { return client("http", nil) }

func client(scheme string, config *tls.Config) *Client {
	return &Client{scheme: scheme, http: &http.Client{
		Transport: &http.Transport{
			Proxy:               nil, // the nodes are asked, not what an environment names
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSClientConfig:     config,
			TLSHandshakeTimeout: 5 * time.Second,
			DisableKeepAlives:   true, // 5,000 nodes are asked seldom
			DisableCompression:  true, // a few bytes must not become many
		},
		// An agent has no reason to send anybody elsewhere, least of all with the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
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

// Diagnose asks the agent at addr. The results are those of req.Images, in their
// order. The error is a *StatusError where the agent refuses, wraps ErrAnswer
// where what it says cannot be used, and else is about the way to the agent.
//
// What is checked makes a result one about this node, these images and this
// mode. Whether it is true is the agent's word.
func (c *Client) Diagnose(ctx context.Context, addr netip.AddrPort, req Request) ([]*pullwalk.Result, error) {
	if err := req.Check(); err != nil {
		return nil, fmt.Errorf("agentclient: %w", err)
	}
	if c.scheme == "http" && !addr.Addr().Unmap().IsLoopback() {
		return nil, fmt.Errorf("agentclient: %s is not loopback, and is asked over TLS only", addr)
	}
	body, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("agentclient: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, req.Budget()+grace)
	defer cancel()
	where := url.URL{Scheme: c.scheme, Host: addr.String(), Path: Path}
	hr, err := http.NewRequestWithContext(ctx, http.MethodPost, where.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("agentclient: %w", err)
	}
	hr.Header.Set("Content-Type", "application/json")
	if c.token != nil {
		token, err := c.token()
		if err != nil {
			return nil, fmt.Errorf("agentclient: the token: %w", err)
		}
		hr.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	}
	resp, err := c.http.Do(hr)
	if err != nil {
		return nil, fmt.Errorf("agentclient: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(resp)
	}
	results, err := decode(resp.Body, req)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("agentclient: %w", context.Cause(ctx))
	}
	return results, err
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
		if bytes.Count(raw, []byte{'{'}) > maxObjects {
			return nil, fmt.Errorf("agentclient: %w: more than %d objects", ErrAnswer, maxObjects)
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
