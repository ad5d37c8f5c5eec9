package registry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// conn is one HTTP/1.1 connection. It serves one request at a time.
type conn struct {
	net.Conn
	src    *gate
	dst    *sink
	br     *bufio.Reader
	bw     *bufio.Writer
	waited bool // it lay idle in a pool, where the peer may have closed it
	stale  bool // the peer had closed it before it answered anything: safe to ask again
}

// gate limits what may be read while headers are parsed: a flood of header lines must not
// fill the memory. It counts, to tell "closed before a byte came" from "broken in the
// middle", and keeps the error that the parser would hide.
type gate struct {
	r    io.Reader
	left int64 // < 0: no limit
	got  int64
	late error // came with the last bytes
	err  error // what ended the reading; it is given after the last byte, never with it
}

var (
	errHeaderTooLarge = fmt.Errorf("headers: %w", classify.ErrResponseTooLarge)
	// ErrMalformed marks an answer that is no HTTP.
	ErrMalformed = classify.ErrMalformedResponse
)

func (g *gate) Read(p []byte) (int, error) {
	if g.late != nil {
		g.err = g.late
		return 0, g.err
	}
	if g.left == 0 {
		g.err = errHeaderTooLarge
		return 0, g.err
	}
	if g.left > 0 && int64(len(p)) > g.left {
		p = p[:g.left]
	}
	n, err := g.r.Read(p)
	g.got += int64(n)
	if g.left > 0 {
		g.left -= int64(n)
	}
	if n > 0 {
		g.late, err = err, nil
	}
	g.err = err
	return n, err
}

// sink remembers whether the connection failed, to tell that from a request that cannot be
// written.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

const bufferSize = 32 << 10

func newConn(c net.Conn) *conn {
	src, dst := &gate{r: c, left: -1}, &sink{w: c}
	return &conn{Conn: c, src: src, dst: dst, br: bufio.NewReaderSize(src, bufferSize), bw: bufio.NewWriterSize(dst, 4<<10)}
}

// drop closes the transport without the TLS farewell, which would wait for a peer that does
// not read. TLS may lie in TLS: a tunnel of an https proxy.
func (c *conn) drop() {
	inner := c.Conn
	for {
		t, ok := inner.(interface{ NetConn() net.Conn })
		if !ok {
			_ = inner.Close()
			return
		}
		inner = t.NetConn()
	}
}

// roundTrip sends req and reads the headers of its answer. The connection goes back to p
// when the body was read to its end.
func (c *conn) roundTrip(req *http.Request, p *Pool) (*http.Response, error) {
	ctx := req.Context()
	stop := context.AfterFunc(ctx, c.drop)
	limit := orDefault(p.Header, DefaultHeader)
	before := c.src.got
	fail := func(err error) (*http.Response, error) {
		stop()
		c.drop()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		c.stale = c.waited && c.src.got == before && !isAlert(err) && !errors.Is(err, os.ErrDeadlineExceeded)
		return nil, stageError(classify.StageHeaders, req, limit, err)
	}
	// One deadline for all that comes before the body: headers that drip in are not
	// answered by patience.
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return fail(unsent(req, err))
	}
	sent := p.write(req, c.bw)
	if sent == nil {
		sent = c.bw.Flush()
	}
	if sent != nil && c.dst.err == nil { // the request is at fault
		return fail(sent)
	}
	// A server may answer early and close: the answer, or the alert, says more than the
	// broken write.
	resp, err := c.readHeaders(req)
	switch {
	case err != nil && sent != nil && !isAlert(err):
		return fail(sent)
	case err != nil:
		return fail(err)
	}
	keep := sent == nil && !resp.Close && !req.Close && resp.StatusCode != http.StatusSwitchingProtocols
	resp.Body = &body{ReadCloser: resp.Body, c: c, p: p, req: req, stop: stop, keep: keep, limit: orDefault(p.Idle, DefaultIdle)}
	if req.Method == http.MethodHead || resp.ContentLength == 0 && req.Method != http.MethodConnect {
		_, _ = resp.Body.Read(make([]byte, 1)) // nothing to come: give the connection back now
	}
	return resp, nil
}

// readHeaders reads one answer, passing over at most five interim ones (RFC 9110, section
// 15.2). [MaxHeader] holds for all of them together.
func (c *conn) readHeaders(req *http.Request) (*http.Response, error) {
	c.src.left = MaxHeader
	defer func() { c.src.left = -1 }()
	for range 6 {
		resp, err := http.ReadResponse(c.br, req)
		if err != nil {
			return nil, c.readError(err)
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
		if resp.StatusCode < 100 {
			return nil, fmt.Errorf("%w: status %03d", ErrMalformed, resp.StatusCode)
		}
	}
	return nil, fmt.Errorf("%w: too many interim answers", ErrMalformed)
}

// readError says why reading failed. The parser knows only the half line that it was left
// with, so the connection's own error goes first; net/http's errors about a complete text
// are untyped and are marked.
func (c *conn) readError(err error) error {
	switch c.src.err {
	case nil:
		return fmt.Errorf("%w: %s", ErrMalformed, strings.TrimSpace(classify.Redact(err.Error(), 200)))
	case io.EOF:
		return io.ErrUnexpectedEOF
	}
	return c.src.err
}

// stageError wraps err; a deadline that we set ourselves carries its limit. The kernel's
// own ETIMEDOUT is also a timeout, but not one of ours.
func stageError(stage classify.Stage, req *http.Request, limit time.Duration, err error) error {
	e := &classify.StageError{Stage: stage, Endpoint: req.URL.Host, Err: err}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e.Limit = limit
	}
	return e
}

// isAlert tells a TLS alert of the peer. With TLS 1.3 the demand for a client certificate
// shows only here: on the first read after the handshake.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// body watches over a response body: each read has its own limit, and the end gives the
// connection back.
type body struct {
	io.ReadCloser
	c     *conn
	p     *Pool
	req   *http.Request
	stop  func() bool
	keep  bool
	limit time.Duration
	err   error // sticky: io.EOF, or what ended it
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	// A connection that is closed cannot wait, and may still hold what came before.
	if err := b.c.SetReadDeadline(time.Now().Add(b.limit)); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
		return 0, b.end(err)
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
		return n, nil
	case err != io.EOF:
		err = b.c.readError(err)
	}
	return n, b.end(err)
}

func (b *body) end(err error) error {
	running := b.stop()
	ctx := b.req.Context()
	switch {
	case err == io.EOF && running && b.keep && b.c.br.Buffered() == 0:
		b.err = io.EOF
		_ = b.c.SetDeadline(time.Time{})
		b.p.keep(b.c)
		return b.err
	case err == io.EOF:
		b.err = io.EOF
	case ctx.Err() != nil:
		b.err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	default:
		b.err = stageError(classify.StageBody, b.req, b.limit, err)
	}
	b.c.drop()
	return b.err
}

// Close drops the connection unless the body was read to its end.
func (b *body) Close() error {
	if b.err == nil {
		b.stop()
		b.c.drop()
		b.err = errors.New("registry: read after close")
	}
	return nil
}

// newRequest builds a request without parsing u again: a URL that a server gave may parse
// in one direction only, and must not end in a panic.
func newRequest(ctx context.Context, method string, u *url.URL, body, agent string) *http.Request {
	req := &http.Request{Method: method, URL: u, Host: u.Host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if body != "" {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
		req.ContentLength = int64(len(body))
	}
	if agent != "" {
		req.Header.Set("User-Agent", agent)
	}
	return req.WithContext(ctx)
}
