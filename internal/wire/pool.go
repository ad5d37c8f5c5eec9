// Package wire makes one HTTP request at a time, exactly as asked: no redirect
// is followed, nothing is repeated behind the caller's back, every wait and
// every size has a limit, and what comes back is redacted before it can be
// printed. It is a package of its own because the endpoint walk and the
// identity check must speak to a registry in exactly the same way.
package wire

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// The limits of what is read from the other side.
const (
	MaxManifest  = 4 << 20   // the distribution specification asks registries to accept 4 MiB
	MaxErrorBody = 64 << 10  // enough for every error JSON seen, too little for a flood
	MaxToken     = 128 << 10 // tokens with many group claims reach some tens of KiB
	MaxHeader    = 1 << 20   // net/http's own server default
)

// The limits of waiting.
const (
	// DefaultHeader is how long response headers may take. Runtimes wait longer
	// or for ever; a registry that thinks for 15 s is named, not waited out.
	DefaultHeader = 15 * time.Second
	// DefaultIdle is how long a body may stay without a byte.
	DefaultIdle = 15 * time.Second
)

// Pool keeps the connections to one endpoint, that is one scheme, host and
// port, and is an [http.RoundTripper] over them: HTTP/1.1 as the runtimes speak
// it, one request at a time per connection.
//
// Redirects are returned, not followed. Nothing is repeated, with one exception:
// a kept connection that the peer closed before a byte of the answer came (its
// keep-alive had run out) is replaced once, as every HTTP client does.
//
// For https, Dial must return a connection whose certificate was verified. That
// contract is what allows the callers to send credentials.
type Pool struct {
	Dial   func(ctx context.Context) (net.Conn, error)
	Header time.Duration // limit for response headers; 0 = DefaultHeader
	Idle   time.Duration // limit for a body without a byte; 0 = DefaultIdle

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

var errPoolClosed = errors.New("wire: the pool is closed")

// Put hands a verified connection on, so that the next request needs no
// handshake of its own.
func (p *Pool) Put(c net.Conn) { p.keep(newConn(c)) }

// Close drops the idle connections; connections in use end with their request.
func (p *Pool) Close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range idle {
		c.drop()
	}
}

// RoundTrip sends req once. Errors are a [*classify.StageError], or what Dial
// returned; when the request's context ended, its cause is wrapped.
func (p *Pool) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	c := p.take()
	if c != nil {
		resp, err := c.roundTrip(req, p)
		if err == nil || !c.stale || ctx.Err() != nil || !rewind(req) {
			return resp, err
		}
	}
	nc, err := p.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return newConn(nc).roundTrip(req, p)
}

func (p *Pool) take() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	c := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return c
}

func (p *Pool) keep(c *conn) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		c.drop()
		return
	}
	p.idle = append(p.idle, c)
	p.mu.Unlock()
}

// rewind makes req fit to be sent again; false if its body cannot be.
func rewind(req *http.Request) bool {
	if req.Body == nil || req.Body == http.NoBody {
		return true
	}
	if req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	req.Body = body
	return true
}

func orDefault(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}

// stageError wraps err; a deadline that we set ourselves carries its limit.
func stageError(stage classify.Stage, req *http.Request, limit time.Duration, err error) error {
	e := &classify.StageError{Stage: stage, Endpoint: req.URL.Host, Err: err}
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		e.Limit = limit
	}
	return e
}
