package registry

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// Every answer that HTTP/1.1 knows, and some that it does not.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	flood := ok + strings.Repeat("X-Flood: "+strings.Repeat("a", 1000)+"\r\n", 1100)
	for name, tt := range map[string]struct {
		method string // "" = GET
		answer string
		stay   bool // the peer does not close
		status int
		body   string
		kept   bool
		stage  classify.Stage // of the error
		is     error
	}{
		"length":                     {answer: ok + "Content-Length: 5\r\n\r\nhello", stay: true, status: 200, body: "hello", kept: true},
		"length zero":                {answer: ok + "Content-Length: 0\r\n\r\n", stay: true, status: 200, kept: true},
		"chunked":                    {answer: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n", stay: true, status: 200, body: "hello", kept: true},
		"chunked with trailers":      {answer: ok + "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n", stay: true, status: 200, body: "hello", kept: true},
		"chunked and a length":       {answer: ok + "Transfer-Encoding: chunked\r\nContent-Length: 99\r\n\r\n0\r\n\r\n", stay: true, status: 200, kept: true},
		"until the end":              {answer: ok + "\r\nhello", status: 200, body: "hello"},
		"connection close":           {answer: ok + "Connection: close\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
		"HTTP/1.0":                   {answer: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
		"HTTP/1.0 keep-alive":        {answer: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", stay: true, status: 200, body: "hello", kept: true},
		"HTTP/1.0 until the end":     {answer: "HTTP/1.0 200 OK\r\n\r\nhello", status: 200, body: "hello"},
		"HEAD":                       {method: http.MethodHead, answer: ok + "Content-Length: 5\r\n\r\n", stay: true, status: 200, kept: true},
		"HEAD chunked":               {method: http.MethodHead, answer: ok + "Transfer-Encoding: chunked\r\n\r\n", stay: true, status: 200, kept: true},
		"204":                        {answer: "HTTP/1.1 204 No Content\r\n\r\n", stay: true, status: 204, kept: true},
		"204 with a length":          {answer: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", stay: true, status: 204, kept: true},
		"304 with a length":          {answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", stay: true, status: 304, kept: true},
		"interim answers":            {answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + ok + "Content-Length: 0\r\n\r\n", stay: true, status: 200, kept: true},
		"five interim answers":       {answer: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 5) + ok + "Content-Length: 0\r\n\r\n", stay: true, status: 200, kept: true},
		"a redirect is not followed": {answer: "HTTP/1.1 307 Away\r\nLocation: http://blobs.corp.test/\r\nContent-Length: 0\r\n\r\n", stay: true, status: 307, kept: true},
		"switching protocols":        {answer: "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", status: 101},
		"a bare line feed":           {answer: "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", stay: true, status: 200, body: "hi", kept: true},
		"more than the length":       {answer: ok + "Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n", stay: true, status: 200, body: "hello"},
		"more than an empty body":    {answer: "HTTP/1.1 204 No Content\r\n\r\nsurprise", stay: true, status: 204},

		"less than the length":   {answer: ok + "Content-Length: 6\r\n\r\nhello", status: 200, body: "hello", stage: classify.StageBody, is: io.ErrUnexpectedEOF},
		"chunks broken off":      {answer: ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", status: 200, body: "hello", stage: classify.StageBody, is: io.ErrUnexpectedEOF},
		"trailers broken off":    {answer: ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n", status: 200, stage: classify.StageBody},
		"chunk size no number":   {answer: ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", stay: true, status: 200, stage: classify.StageBody, is: ErrMalformed},
		"a flood of trailers":    {answer: ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: y\r\n", 20000), stay: true, status: 200, stage: classify.StageBody, is: ErrMalformed},
		"nothing":                {answer: "", stage: classify.StageHeaders, is: io.ErrUnexpectedEOF},
		"headers broken off":     {answer: ok + "Content-Le", stage: classify.StageHeaders, is: io.ErrUnexpectedEOF},
		"no HTTP":                {answer: "SSH-2.0-OpenSSH_9.9\r\n", stay: true, stage: classify.StageHeaders, is: ErrMalformed},
		"HTTP/2 frames":          {answer: "\x00\x00\x12\x04\x00\x00\x00\x00\x00\r\n", stay: true, stage: classify.StageHeaders, is: ErrMalformed},
		"a status of one digit":  {answer: "HTTP/1.1 2 OK\r\n\r\n", stay: true, stage: classify.StageHeaders, is: ErrMalformed},
		"a status below 100":     {answer: "HTTP/1.1 099 Hm\r\n\r\n", stay: true, stage: classify.StageHeaders, is: ErrMalformed},
		"a negative length":      {answer: ok + "Content-Length: -1\r\n\r\n", stay: true, stage: classify.StageHeaders, is: ErrMalformed},
		"two lengths":            {answer: ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", stay: true, stage: classify.StageHeaders, is: ErrMalformed},
		"an unknown encoding":    {answer: ok + "Transfer-Encoding: gzip\r\n\r\n", stay: true, stage: classify.StageHeaders, is: ErrMalformed},
		"a line without a colon": {answer: ok + "Authorization Bearer abc123DEF\r\n\r\n", stay: true, stage: classify.StageHeaders, is: ErrMalformed},
		"six interim answers":    {answer: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 6) + ok + "\r\n", stay: true, stage: classify.StageHeaders, is: ErrMalformed},
		"a flood of headers":     {answer: flood, stay: true, stage: classify.StageHeaders, is: errHeaderTooLarge},
		"a header without end":   {answer: ok + "X: " + strings.Repeat("a", MaxHeader), stay: true, stage: classify.StageHeaders, is: errHeaderTooLarge},
		"a flood of interim":     {answer: strings.Repeat("HTTP/1.1 103 Hints\r\nX: "+strings.Repeat("a", MaxHeader/4)+"\r\n\r\n", 5), stay: true, stage: classify.StageHeaders, is: errHeaderTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, dials := scripted(t, func(_ int, far peer) {
					far.request()
					far.say(tt.answer)
					if tt.stay {
						far.gone()
					}
				})
				method := tt.method
				if method == "" {
					method = http.MethodGet
				}
				resp, err := p.RoundTrip(get(t, t.Context(), method))
				if tt.status != 0 {
					require.NoError(t, err)
					assert.Equal(t, tt.status, resp.StatusCode)
					var body []byte
					body, err = io.ReadAll(resp.Body)
					assert.Equal(t, tt.body, string(body))
					_, again := resp.Body.Read(make([]byte, 1))
					assert.Error(t, again, "the end is the end")
					require.NoError(t, resp.Body.Close())
				}
				if tt.stage == "" {
					assert.NoError(t, err)
				} else {
					var stage *classify.StageError
					require.ErrorAs(t, err, &stage)
					assert.Equal(t, tt.stage, stage.Stage)
					assert.Equal(t, "registry.corp.test", stage.Endpoint)
					assert.Zero(t, stage.Limit, "nobody waited")
					assert.NotContains(t, err.Error(), "abc123")
					assert.Less(t, len(err.Error()), 600)
				}
				if tt.is != nil {
					assert.ErrorIs(t, err, tt.is)
				}
				synctest.Wait()
				assert.Equal(t, tt.kept, len(p.idle) == 1)
				assert.EqualValues(t, 1, dials.Load(), "nothing is repeated")
				p.Close() // synctest finds a peer that still waits for the end
			})
		})
	}
}

// The server refuses before it has read the whole request, and closes.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{}
		near := piped(t, 1, func(_ int, far peer) { far.gone() })
		// A kernel has room: the answer lies there although the writing breaks.
		p.Put(&brokenWriter{Conn: near, answer: strings.NewReader("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")})
		resp, err := p.RoundTrip(post(t, t.Context(), strings.Repeat("x", 100<<10)))
		require.NoError(t, err)
		assert.Equal(t, 413, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "no", string(body))
		assert.Empty(t, p.idle, "half a request was sent on it")

		// Without an answer the broken write is what is known.
		p.Put(&brokenWriter{Conn: piped(t, 1, func(_ int, far peer) { far.gone() }), answer: strings.NewReader("")})
		req := post(t, t.Context(), "x")
		req.GetBody = nil
		_, err = p.RoundTrip(req)
		assert.ErrorIs(t, err, errBrokenPipe)
	})
}

var errBrokenPipe = errors.New("broken pipe")

type brokenWriter struct {
	net.Conn
	answer io.Reader
}

func (b *brokenWriter) Write([]byte) (int, error)  { return 0, errBrokenPipe }
func (b *brokenWriter) Read(p []byte) (int, error) { return b.answer.Read(p) }

// A request that cannot be written is not the peer's fault and waits for nothing.
func TestUnwritableRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, dials := scripted(t, func(_ int, far peer) { far.gone() })
		req := post(t, t.Context(), "x")
		req.Body = io.NopCloser(iotestErr{})
		_, err := p.RoundTrip(req)
		assert.ErrorContains(t, err, errStop.Error())
		assert.EqualValues(t, 1, dials.Load())

		req = get(t, t.Context(), http.MethodGet)
		req.URL.Opaque = "/\x00"
		_, err = p.RoundTrip(req)
		assert.Error(t, err)
	})
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, fmt.Errorf("body: %w", errStop) }
