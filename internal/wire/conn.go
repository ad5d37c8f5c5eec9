package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// conn is one HTTP/1.1 connection. It serves one request at a time.
type conn struct {
	net.Conn
	src   *gate
	br    *bufio.Reader
	bw    *bufio.Writer
	used  bool // a request was answered on it before
	stale bool // the peer had closed it before it answered anything: safe to ask again
}

// gate limits what may be read while headers are parsed: a flood of header
// lines must not fill the memory. It also counts, to tell "closed before a byte
// came" from "broken in the middle".
type gate struct {
	r    io.Reader
	left int64 // < 0: no limit
	got  int64
}

var (
	errHeaderTooLarge = errors.New("response headers over the limit")
	// ErrMalformed marks an answer that is no HTTP.
	ErrMalformed = errors.New("malformed HTTP response")
)

func (g *gate) Read(p []byte) (int, error) {
	if g.left == 0 {
		return 0, errHeaderTooLarge
	}
	if g.left > 0 && int64(len(p)) > g.left {
		p = p[:g.left]
	}
	n, err := g.r.Read(p)
	g.got += int64(n)
	if g.left > 0 {
		g.left -= int64(n)
	}
	return n, err
}

const bufferSize = 32 << 10

func newConn(c net.Conn) *conn {
	src := &gate{r: c, left: -1}
	return &conn{Conn: c, src: src, br: bufio.NewReaderSize(src, bufferSize), bw: bufio.NewWriterSize(c, 4<<10)}
}

// drop closes the transport without the TLS farewell, which would wait for a
// peer that does not read.
func (c *conn) drop() {
	if t, ok := c.Conn.(*tls.Conn); ok {
		_ = t.NetConn().Close()
		return
	}
	_ = c.Conn.Close()
}

// roundTrip sends req and reads the headers of its answer. The connection goes
// back to p when the body was read to its end.
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
		c.stale = c.used && c.src.got == before && !isTimeout(err)
		return nil, stageError(classify.StageHeaders, req, limit, err)
	}
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return fail(err)
	}
	if err := req.Write(c.bw); err != nil {
		return fail(err)
	}
	if err := c.bw.Flush(); err != nil {
		return fail(err)
	}
	resp, err := c.readHeaders(req)
	if err != nil {
		return fail(err)
	}
	c.used = true
	keep := !resp.Close && !req.Close && resp.StatusCode != http.StatusSwitchingProtocols
	resp.Body = &body{ReadCloser: resp.Body, c: c, p: p, req: req, stop: stop, keep: keep, limit: orDefault(p.Idle, DefaultIdle)}
	if req.Method == http.MethodHead || resp.ContentLength == 0 && req.Method != http.MethodConnect {
		_, _ = resp.Body.Read(make([]byte, 1)) // nothing to come: give the connection back now
	}
	return resp, nil
}

// readHeaders reads one answer, passing over at most five interim ones.
func (c *conn) readHeaders(req *http.Request) (*http.Response, error) {
	c.src.left = MaxHeader
	defer func() { c.src.left = -1 }()
	for range 6 {
		resp, err := http.ReadResponse(c.br, req)
		if err != nil {
			return nil, malformed(err)
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
	}
	return nil, fmt.Errorf("%w: too many interim answers", ErrMalformed)
}

// malformed marks the parser's own errors, which are untyped in net/http; a
// transport error stays as it is.
func malformed(err error) error {
	var ne net.Error
	var op *net.OpError
	switch {
	case errors.Is(err, errHeaderTooLarge), errors.As(err, &ne), errors.As(err, &op):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		return err
	}
	var rec tls.RecordHeaderError
	var alert tls.AlertError
	if errors.As(err, &rec) || errors.As(err, &alert) {
		return err
	}
	return fmt.Errorf("%w: %s", ErrMalformed, strings.TrimSpace(classify.Redact(err.Error(), 200)))
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// body watches over a response body: each read has its own limit, and the end
// gives the connection back.
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
	if err := b.c.SetReadDeadline(time.Now().Add(b.limit)); err != nil {
		return 0, b.end(err)
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		return n, b.end(err)
	}
	return n, nil
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
		b.err = errors.New("wire: read after close")
	}
	return nil
}
