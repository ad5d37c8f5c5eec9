package registry

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// peer is the far end of one connection.
type peer struct {
	net.Conn
	br *bufio.Reader
}

// request reads one whole request, body included.
func (p peer) request() (*http.Request, string) {
	req, err := http.ReadRequest(p.br)
	if err != nil {
		return nil, ""
	}
	body, _ := io.ReadAll(req.Body)
	return req, string(body)
}

func (p peer) say(text string) { _, _ = io.WriteString(p, text) }

// gone waits until the near end has closed the connection.
func (p peer) gone() { _, _ = io.Copy(io.Discard, p.br) }

// scripted is a Pool whose connections are served by script, number n from 1.
// A script ends with its connection closed; the test ends with its scripts, so
// that a connection left open is a deadlock in a synctest bubble.
func scripted(t *testing.T, script func(n int, p peer)) (*Pool, *atomic.Int32) {
	var dials atomic.Int32
	return &Pool{Dial: func(context.Context) (net.Conn, error) {
		return piped(t, int(dials.Add(1)), script), nil
	}}, &dials
}

func piped(t *testing.T, n int, script func(n int, p peer)) net.Conn {
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer far.Close()
		script(n, peer{far, bufio.NewReader(far)})
	}()
	t.Cleanup(func() { <-done })
	return near
}

func get(t *testing.T, ctx context.Context, method string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://registry.corp.test/v2/", nil)
	require.NoError(t, err)
	return req
}

func post(t *testing.T, ctx context.Context, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://registry.corp.test/token", strings.NewReader(body))
	require.NoError(t, err)
	return req
}

func mustURL(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u
}

var errStop = errors.New("the caller has seen enough")
