package registry

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Pool keeps the connections to one endpoint, that is one scheme, host and port, and is an
// [http.RoundTripper] over them: HTTP/1.1 as the runtimes speak it, one request at a time
// per connection.
//
// Redirects are returned, not followed. Nothing is repeated, with one exception: a waiting
// connection (kept, or handed on with Put) that the peer closed before a byte of the answer
// came is replaced once, as every HTTP client does: its keep-alive had run out. A TLS alert
// is an answer and is not asked past.
//
// For https, Dial must return a connection whose certificate was verified. That contract is
// what allows the callers to send credentials. It must return when its context ends.
//
// A response body is for one goroutine. The context of the request is what ends a read from
// outside.
type Pool struct {
	Dial   func(ctx context.Context) (net.Conn, error) // nil = only what Put brings
	Header time.Duration                               // limit for response headers; 0 = DefaultHeader
	Idle   time.Duration                               // limit for a body without a byte; 0 = DefaultIdle
	// Proxy is set where the connections lead to a forward proxy that is asked for plain
	// http in the absolute form (RFC 9112, section 3.2.2); see [Forward]. nil = to the
	// server.
	Proxy *url.URL

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

var (
	errPoolClosed = errors.New("registry: the pool is closed")
	errNoDial     = errors.New("registry: no connection is waiting and none can be opened")
)

// Put hands a verified connection on, so that the next request needs no handshake of its
// own.
func (p *Pool) Put(c net.Conn) { p.keep(newConn(c)) }

// Close drops the idle connections; connections in use end with their request, and later
// requests fail.
func (p *Pool) Close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range idle {
		c.drop()
	}
}

// RoundTrip sends req once. Errors are a [*classify.StageError], or what Dial returned;
// when the request's context ended, its cause is wrapped.
func (p *Pool) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := p.roundTrip(req)
	if err == nil && p.Proxy != nil {
		return p.forwarded(resp)
	}
	return resp, err
}

func (p *Pool) roundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if ctx.Err() != nil {
		return nil, unsent(req, context.Cause(ctx))
	}
	c, err := p.take()
	if err != nil {
		return nil, unsent(req, err)
	}
	if c != nil {
		resp, err := c.roundTrip(req, p)
		if err == nil || !c.stale || ctx.Err() != nil {
			return resp, err
		}
		again, ok := rewound(req)
		if !ok {
			return nil, err
		}
		req = again
	}
	if p.Dial == nil {
		return nil, unsent(req, errNoDial)
	}
	nc, err := p.Dial(ctx)
	if err != nil {
		return nil, unsent(req, err)
	}
	return newConn(nc).roundTrip(req, p)
}

// unsent closes the body, as a RoundTripper must also when it fails.
func unsent(req *http.Request, err error) error {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return err
}

// take returns a waiting connection, nil if there is none.
func (p *Pool) take() (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPoolClosed
	}
	if len(p.idle) == 0 {
		return nil, nil
	}
	c := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return c, nil
}

func (p *Pool) keep(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.drop()
		return
	}
	c.waited = true
	p.idle = append(p.idle, c)
}

// rewound returns req as it can be sent again; false if its body cannot be. The request of
// the caller is left alone, as a RoundTripper must.
func rewound(req *http.Request) (*http.Request, bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	again := *req
	again.Body = body
	return &again, true
}

func orDefault(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}
