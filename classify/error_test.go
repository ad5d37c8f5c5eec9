package classify_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// sameFault checks that the text of a live error gives the same code, or the
// coarser one that the catalogue says a text alone can show.
func sameFault(t *testing.T, err error, live classify.Finding) {
	t.Helper()
	r := classify.Text(err.Error())
	require.Equal(t, classify.KindFailure, r.Kind, "as text: %v", err)
	if info, ok := classify.Lookup(live.Cause); ok && info.Refines != "" && r.Best.Cause == info.Refines {
		return
	}
	assert.Equal(t, live.Cause, r.Best.Cause, "as text: %v", err)
	assert.Equal(t, classify.CertaintyPossible, r.Best.Certainty)
}

// serve listens on loopback and hands each connection to handle.
func serve(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				handle(c)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return l.Addr().String()
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// readRequest reads one request's head, so that a close is no reset.
func readRequest(c net.Conn) { _, _ = http.ReadRequest(bufio.NewReader(c)) }

// wait blocks until the peer goes away.
func wait(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func get(t *testing.T, client *http.Client, rawURL string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, rawURL, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func client(tr *http.Transport) *http.Client {
	tr.DisableKeepAlives = true
	return &http.Client{Transport: tr}
}

func TestErrorNothing(t *testing.T) {
	assert.Equal(t, classify.Finding{}, classify.Error(nil))

	f := classify.New(classify.DNSNoData, "no address records")
	assert.Equal(t, f, classify.Error(fmt.Errorf("while looking: %w", f)))
	assert.Equal(t, f, classify.Error(fmt.Errorf("while looking: %w", &f)))
}

func TestErrorUnknownIsNotGuessed(t *testing.T) {
	err := errors.New("the frobnicator at https://u:p@registry.corp.test/x?sig=abc is upset")
	f := classify.Error(err)
	assert.Equal(t, classify.UnknownUnclassified, f.Cause)
	assert.Equal(t, "the frobnicator at https://registry.corp.test/x is upset", f.Summary)
	assert.ErrorIs(t, f, err)
}

// TestErrorOfSockets takes its errors from real sockets on loopback.
func TestErrorOfSockets(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		addr := closedPort(t)
		_, err := net.Dial("tcp", addr)
		f := classify.Error(err)
		assert.Equal(t, classify.EndpointConnectionRefused, f.Cause)
		assert.Equal(t, "ECONNREFUSED", f.Fact(classify.FactErrno))
		assert.Equal(t, addr, f.Fact(classify.FactAddress))
		assert.Equal(t, classify.CertaintyProven, f.Certainty)
		sameFault(t, err, f)

		staged := classify.Error(&classify.StageError{
			Stage: classify.StageConnect, Operation: classify.OperationFetchBlob, Endpoint: "blobs.corp.test:443", Address: addr, Err: err,
		})
		assert.Equal(t, classify.EndpointConnectionRefused, staged.Cause)
		assert.Equal(t, "blobs.corp.test:443", staged.Endpoint)
		assert.Equal(t, classify.OperationFetchBlob, staged.Operation)
		assert.Equal(t, "blobs.corp.test:443 at "+addr+" refused the connection (ECONNREFUSED)", staged.Summary)
	})

	t.Run("dial timeout", func(t *testing.T) {
		_, err := (&net.Dialer{Deadline: time.Unix(1, 0)}).Dial("tcp", "10.20.0.4:443")
		f := classify.Error(err)
		assert.Equal(t, classify.RouteConnectTimeout, f.Cause)
		assert.Equal(t, "10.20.0.4:443", f.Fact(classify.FactAddress))
		sameFault(t, err, f)
	})

	t.Run("reset", func(t *testing.T) {
		addr := serve(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1))
			_ = c.(*net.TCPConn).SetLinger(0)
		})
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Write([]byte("x"))
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1))
		f := classify.Error(err)
		assert.Equal(t, classify.EndpointConnectionReset, f.Cause)
		assert.Equal(t, "ECONNRESET", f.Fact(classify.FactErrno))
		sameFault(t, err, f)
	})

	t.Run("read deadline", func(t *testing.T) {
		c, err := net.Dial("tcp", serve(t, wait))
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetReadDeadline(time.Unix(1, 0)))
		_, err = c.Read(make([]byte, 1))
		f := classify.Error(err)
		assert.Equal(t, classify.EndpointReadTimeout, f.Cause)
		sameFault(t, err, f)

		for stage, want := range map[classify.Stage]classify.Cause{
			classify.StageLookup:       classify.DNSResolverTimeout,
			classify.StageProxyConnect: classify.EndpointProxyRefusedConnect,
			classify.StageHandshake:    classify.EndpointTLSHandshakeTimeout,
			classify.StageHeaders:      classify.EndpointResponseHeaderTimeout,
			classify.StageBody:         classify.EndpointDownloadStalled,
		} {
			staged := classify.Error(&classify.StageError{Stage: stage, Endpoint: "registry.corp.test:443", Limit: 5 * time.Second, Err: err})
			assert.Equal(t, want, staged.Cause, stage)
			assert.Equal(t, "5s", staged.Fact(classify.FactLimit))
		}
	})

	t.Run("no runtime at its socket", func(t *testing.T) {
		_, err := net.Dial("unix", t.TempDir()+"/none.sock")
		require.Error(t, err)
		sameFault(t, fmt.Errorf("rpc error: code = Unavailable desc = %w", err),
			classify.Finding{Cause: classify.NodeRuntimeUnavailable})
	})
}

// TestErrorOfStages pins what the stage makes of errors that say nothing.
func TestErrorOfStages(t *testing.T) {
	for _, c := range []struct {
		stage classify.Stage
		err   error
		want  classify.Cause
	}{
		{classify.StageLookup, context.DeadlineExceeded, classify.DNSResolverTimeout},
		{classify.StageConnect, context.DeadlineExceeded, classify.RouteConnectTimeout},
		{classify.StageProxyConnect, context.DeadlineExceeded, classify.EndpointProxyRefusedConnect},
		{classify.StageHandshake, context.DeadlineExceeded, classify.EndpointTLSHandshakeTimeout},
		{classify.StageHeaders, context.DeadlineExceeded, classify.EndpointResponseHeaderTimeout},
		{classify.StageBody, context.DeadlineExceeded, classify.EndpointDownloadStalled},
		{"", context.DeadlineExceeded, classify.UnknownRequestDeadlineNoStage},
		{classify.StageHeaders, context.Canceled, classify.UnknownCanceledNoCause},
		{"", context.Canceled, classify.UnknownCanceledNoCause},
		{classify.StageHandshake, io.EOF, classify.EndpointConnectionClosedEOF},
		{classify.StageHeaders, io.EOF, classify.EndpointConnectionClosedEOF},
		{classify.StageHeaders, io.ErrUnexpectedEOF, classify.EndpointConnectionClosedEOF},
		{classify.StageBody, io.ErrUnexpectedEOF, classify.EndpointDownloadInterrupted},
		{classify.StageBody, io.EOF, classify.EndpointDownloadInterrupted},
		{classify.StageProxyConnect, io.EOF, classify.EndpointProxyRefusedConnect},
		{classify.StageLookup, io.EOF, classify.DNSAnswerMalformed},
		{"", io.ErrUnexpectedEOF, classify.EndpointDownloadInterrupted},
		{"", io.EOF, classify.EndpointConnectionClosedEOF},
	} {
		f := classify.Error(fmt.Errorf("wrapped: %w", &classify.StageError{Stage: c.stage, Endpoint: "registry.corp.test:443", Err: c.err}))
		assert.Equal(t, c.want, f.Cause, "%s %v", c.stage, c.err)
		assert.Equal(t, "registry.corp.test:443", f.Endpoint)
		assert.NotEmpty(t, f.Summary)
	}

	// The step's own limit may end it by a cancellation or by closing the socket.
	for _, err := range []error{context.Canceled, net.ErrClosed} {
		f := classify.Error(&classify.StageError{Stage: classify.StageBody, Limit: time.Second, Err: err})
		assert.Equal(t, classify.EndpointDownloadStalled, f.Cause)
	}
	// The inner stage is nearer to what happened.
	f := classify.Error(&classify.StageError{Stage: classify.StageHeaders, Operation: classify.OperationFetchToken, Endpoint: "auth.corp.test:443", Err: &url.Error{
		Op: "Post", URL: "https://auth.corp.test/token?password=x", Err: &classify.StageError{Stage: classify.StageConnect, Address: "10.20.0.5:443", Err: context.DeadlineExceeded},
	}})
	assert.Equal(t, classify.RouteConnectTimeout, f.Cause)
	assert.Equal(t, classify.OperationFetchToken, f.Operation)
	assert.Equal(t, "10.20.0.5:443", f.Fact(classify.FactAddress))
}

// TestErrorOfHTTP takes its errors from net/http against servers on loopback.
func TestErrorOfHTTP(t *testing.T) {
	silent := serve(t, wait)
	quiet := serve(t, func(c net.Conn) { readRequest(c); wait(c) })
	cases := map[string]struct {
		err  func(t *testing.T) error
		want classify.Cause
	}{
		"handshake timeout": {func(t *testing.T) error {
			return get(t, client(&http.Transport{TLSHandshakeTimeout: time.Millisecond}), "https://"+silent+"/v2/")
		}, classify.EndpointTLSHandshakeTimeout},
		"header timeout": {func(t *testing.T) error {
			return get(t, client(&http.Transport{ResponseHeaderTimeout: time.Millisecond}), "http://"+quiet+"/v2/")
		}, classify.EndpointResponseHeaderTimeout},
		"client timeout": {func(t *testing.T) error {
			c := client(&http.Transport{})
			c.Timeout = 10 * time.Millisecond
			return get(t, c, "http://"+quiet+"/v2/")
		}, classify.UnknownRequestDeadlineNoStage},
		"closed before an answer": {func(t *testing.T) error {
			return get(t, client(&http.Transport{}), "http://"+serve(t, readRequest)+"/v2/")
		}, classify.EndpointConnectionClosedEOF},
		"short body": {func(t *testing.T) error {
			return get(t, client(&http.Transport{}), "http://"+serve(t, func(c net.Conn) {
				readRequest(c)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
			})+"/v2/team/app/blobs/sha256:00")
		}, classify.EndpointDownloadInterrupted},
		"redirects without end": {func(t *testing.T) error {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
			}))
			t.Cleanup(s.Close)
			return get(t, s.Client(), s.URL+"/v2/team/app/blobs/sha256:00")
		}, classify.EndpointHTTPRedirectLoop},
		"clear HTTP on the TLS port": {func(t *testing.T) error {
			s := httptest.NewServer(http.NotFoundHandler())
			t.Cleanup(s.Close)
			return get(t, s.Client(), strings.Replace(s.URL, "http:", "https:", 1)+"/v2/")
		}, classify.TLSHTTPResponseToHTTPSClient},
		"TLS on the clear port": {func(t *testing.T) error {
			return get(t, client(&http.Transport{}), "http://"+serve(t, func(c net.Conn) {
				readRequest(c)
				_, _ = io.WriteString(c, "\x15\x03\x01\x00\x02\x02\x46") // the alert that OpenSSL sends, protocol version
			})+"/v2/")
		}, classify.TLSHTTPSResponseToHTTPClient},
		"no HTTP at all": {func(t *testing.T) error {
			return get(t, client(&http.Transport{}), "http://"+serve(t, func(c net.Conn) { readRequest(c); _, _ = io.WriteString(c, "220 mail ready\r\n"); wait(c) })+"/v2/")
		}, classify.EndpointMalformedResponse},
		"HTTP/2 stream": {func(t *testing.T) error {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}))
			s.EnableHTTP2 = true
			s.StartTLS()
			t.Cleanup(s.Close)
			return get(t, s.Client(), s.URL+"/v2/team/app/blobs/sha256:00")
		}, classify.EndpointHTTP2StreamError},
		"proxy refuses": {func(t *testing.T) error { return viaProxy(t, "403 Forbidden") }, classify.EndpointProxyRefusedConnect},
		"proxy wants a login": {func(t *testing.T) error {
			return viaProxy(t, "407 Proxy Authentication Required")
		}, classify.EndpointProxyAuthRequired},
		"proxy gone": {func(t *testing.T) error {
			return get(t, client(&http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: closedPort(t)})}), "https://registry.corp.test/v2/")
		}, classify.EndpointProxyUnreachable},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.err(t)
			require.Error(t, err)
			f := classify.Error(err)
			assert.Equal(t, c.want, f.Cause, "%v", err)
			assert.ErrorIs(t, f, err)
			sameFault(t, err, f)
		})
	}
}

func viaProxy(t *testing.T, status string) error {
	t.Helper()
	proxy := serve(t, func(c net.Conn) {
		readRequest(c)
		_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n")
	})
	err := get(t, client(&http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}), "https://registry.corp.test/v2/")
	f := classify.Error(err)
	assert.Equal(t, "registry.corp.test", f.Endpoint)
	assert.Equal(t, classify.OperationResolveManifest, f.Operation)
	return err
}
