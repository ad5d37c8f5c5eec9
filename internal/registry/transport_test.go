package registry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

func TestReuse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, dials := scripted(t, func(_ int, far peer) {
			for req, _ := far.request(); req != nil; req, _ = far.request() {
				far.say(empty)
			}
		})
		for range 3 {
			_, err := p.RoundTrip(get(t, t.Context(), http.MethodGet))
			require.NoError(t, err)
		}
		assert.EqualValues(t, 1, dials.Load())
		req := get(t, t.Context(), http.MethodGet)
		req.Close = true
		_, err := p.RoundTrip(req)
		require.NoError(t, err)
		assert.Empty(t, p.idle)
		p.Close()
		_, err = p.RoundTrip(get(t, t.Context(), http.MethodGet))
		assert.ErrorIs(t, err, errPoolClosed)
	})
}

// A waiting connection that the peer closed is replaced once, and only once.
func TestStale(t *testing.T) {
	t.Parallel()
	serve := func(far peer) { far.request(); far.say(empty) }
	for name, tt := range map[string]struct {
		script func(n int, far peer)
		put    bool // the first connection is handed on, not kept
		once   bool // the body cannot be sent again
		fails  bool
		dials  int32
	}{
		"kept, then closed":                {script: func(_ int, far peer) { serve(far) }, dials: 2},
		"kept, closed while it is written": {script: func(n int, far peer) { serve(far); _, _ = far.br.ReadByte() }, dials: 2},
		"handed on, then closed":           {script: func(n int, far peer) { map[bool]func(peer){true: func(peer) {}, false: serve}[n == 1](far) }, put: true, dials: 2},
		"closed twice": {script: func(n int, far peer) {
			map[bool]func(peer){true: serve, false: func(far peer) { far.request() }}[n == 1](far)
		}, fails: true, dials: 2},
		"half an answer":      {script: func(n int, far peer) { serve(far); far.request(); far.say("HTTP/1.1 2") }, fails: true, dials: 1},
		"no HTTP":             {script: func(n int, far peer) { serve(far); far.request(); far.say("hello\r\n") }, fails: true, dials: 1},
		"silence":             {script: func(n int, far peer) { serve(far); far.request(); far.gone() }, fails: true, dials: 1},
		"a body that is gone": {script: func(_ int, far peer) { serve(far) }, once: true, fails: true, dials: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, dials := scripted(t, func(n int, far peer) { tt.script(n, far) })
				if tt.put {
					nc, err := p.Dial(t.Context())
					require.NoError(t, err)
					p.Put(nc)
				} else {
					_, err := p.RoundTrip(get(t, t.Context(), http.MethodGet))
					require.NoError(t, err)
				}
				synctest.Wait()
				req := post(t, t.Context(), "form")
				before := req.Body
				if tt.once {
					req.GetBody = nil
				}
				_, err := p.RoundTrip(req)
				assert.Equal(t, tt.fails, err != nil, "%v", err)
				assert.Equal(t, tt.dials, dials.Load())
				assert.Equal(t, before, req.Body, "the caller's request is left alone")
				p.Close()
			})
		})
	}
}

// The second sending carries the whole body again.
func TestRewind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := make(chan string, 2)
		p, _ := scripted(t, func(n int, far peer) {
			_, body := far.request()
			got <- body
			far.say(empty)
			if n == 1 {
				_, _ = io.ReadFull(far.br, make([]byte, 80)) // part of the second request, then the end
			}
		})
		for _, body := range []string{"one", "two, which is sent twice"} {
			_, err := p.RoundTrip(post(t, t.Context(), body))
			require.NoError(t, err)
		}
		assert.Equal(t, "one", <-got)
		assert.Equal(t, "two, which is sent twice", <-got)
		p.Close()
	})
}

func TestPoolWithoutDial(t *testing.T) {
	t.Parallel()
	var p Pool
	closed := false
	req := get(t, t.Context(), http.MethodGet)
	req.Body = closer{strings.NewReader("x"), &closed}
	_, err := p.RoundTrip(req)
	assert.ErrorIs(t, err, errNoDial)
	assert.True(t, closed, "a RoundTripper closes the body also when it fails")

	boom := errors.New("boom")
	p.Dial = func(context.Context) (net.Conn, error) { return nil, boom }
	_, err = p.RoundTrip(get(t, t.Context(), http.MethodGet))
	assert.Equal(t, boom, err, "what Dial said comes back as it is")
}

type closer struct {
	io.Reader
	closed *bool
}

func (c closer) Close() error { *c.closed = true; return nil }

func TestCloseEarlyDropsTheConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, _ := scripted(t, func(_ int, far peer) {
			far.request()
			far.say("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhello")
			far.gone()
		})
		resp, err := p.RoundTrip(get(t, t.Context(), http.MethodGet))
		require.NoError(t, err)
		_, err = io.ReadFull(resp.Body, make([]byte, 5))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, resp.Body.Close())
		_, err = resp.Body.Read(make([]byte, 5))
		assert.Error(t, err)
		assert.Empty(t, p.idle)
	})
}

// A pool that was closed keeps nothing: neither what comes back nor what is put.
func TestClosedPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, _ := scripted(t, func(_ int, far peer) {
			far.request()
			far.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
			far.gone()
		})
		resp, err := p.RoundTrip(get(t, t.Context(), http.MethodGet))
		require.NoError(t, err)
		p.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "hello", string(body))
		p.Put(piped(t, 1, func(_ int, far peer) { far.gone() }))
		assert.Empty(t, p.idle)
	})
}

// drop must reach the transport: TLS says farewell first, TLS in TLS twice.
func TestDropReachesTheTransport(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	newConn(farewell{farewell{near}}).drop()
	_, err := near.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.ErrClosedPipe)
}

type farewell struct{ net.Conn }

func (f farewell) NetConn() net.Conn { return f.Conn }
func (f farewell) Close() error      { panic("would wait for the peer") }

var _ http.RoundTripper = (*Pool)(nil)
