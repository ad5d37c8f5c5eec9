package registry

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// Whatever way a peer is slow, the header phase ends at its limit.
func TestHeaderLimit(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(_ int, far peer){
		"silence": func(_ int, far peer) { far.request(); far.gone() },
		"the request is not read": func(int, peer) {
			time.Sleep(time.Minute)
		},
		"a byte a second": func(_ int, far peer) {
			far.request()
			for _, b := range "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" {
				time.Sleep(time.Second)
				far.say(string(b))
			}
		},
		"interim answers": func(_ int, far peer) {
			far.request()
			for range 5 {
				time.Sleep(4 * time.Second)
				far.say("HTTP/1.1 102 Processing\r\n\r\n")
			}
		},
	} {
		for limit, want := range map[time.Duration]time.Duration{0: DefaultHeader, 3 * time.Second: 3 * time.Second} {
			t.Run(name+" "+want.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					p, dials := scripted(t, script)
					p.Header = limit
					start := time.Now()
					_, err := p.RoundTrip(get(t, t.Context(), http.MethodGet))
					assert.Equal(t, want, time.Since(start))
					var stage *classify.StageError
					require.ErrorAs(t, err, &stage)
					assert.Equal(t, classify.StageHeaders, stage.Stage)
					assert.Equal(t, want, stage.Limit)
					assert.Equal(t, classify.EndpointResponseHeaderTimeout, classify.Error(err).Cause)
					assert.EqualValues(t, 1, dials.Load())
				})
			})
		}
	}
}

func TestIdleLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, _ := scripted(t, func(_ int, far peer) {
			far.request()
			far.say("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n")
			for range 10 { // slow, but alive
				time.Sleep(10 * time.Second)
				far.say("x")
			}
			far.gone()
		})
		resp, err := p.RoundTrip(get(t, t.Context(), http.MethodGet))
		require.NoError(t, err)
		time.Sleep(time.Hour) // the reader's own slowness is not the peer's
		start := time.Now()
		body, err := io.ReadAll(resp.Body)
		assert.Equal(t, "xxxxxxxxxx", string(body))
		assert.Equal(t, 9*10*time.Second+DefaultIdle, time.Since(start))
		var stage *classify.StageError
		require.ErrorAs(t, err, &stage)
		assert.Equal(t, classify.StageBody, stage.Stage)
		assert.Equal(t, DefaultIdle, stage.Limit)
		assert.Equal(t, classify.EndpointDownloadStalled, classify.Error(err).Cause)
		require.NoError(t, resp.Body.Close())
	})
}

// The kernel gives up by itself with a timeout that is none of our limits.
func TestKernelTimeoutIsNoLimit(t *testing.T) {
	t.Parallel()
	err := stageError(classify.StageBody, get(t, t.Context(), http.MethodGet), time.Second, &net.OpError{Op: "read", Err: kernelTimeout{}})
	var stage *classify.StageError
	require.ErrorAs(t, err, &stage)
	assert.Zero(t, stage.Limit)
	err = stageError(classify.StageBody, get(t, t.Context(), http.MethodGet), time.Second, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded})
	require.ErrorAs(t, err, &stage)
	assert.Equal(t, time.Second, stage.Limit)
}

type kernelTimeout struct{}

func (kernelTimeout) Error() string   { return "connection timed out" }
func (kernelTimeout) Timeout() bool   { return true }
func (kernelTimeout) Temporary() bool { return true }

// The end of the caller's context interrupts at once, with its cause, and leaves
// no connection: synctest waits for the peer, which waits for the end.
func TestCancel(t *testing.T) {
	t.Parallel()
	answer := func(text string) func(int, peer) {
		return func(_ int, far peer) { far.request(); far.say(text); far.gone() }
	}
	for name, tt := range map[string]struct {
		script func(int, peer)
		dial   func(ctx context.Context) (net.Conn, error)
		body   bool // the answer comes, its body does not
	}{
		"dial":    {dial: func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, context.Cause(ctx) }},
		"write":   {script: func(_ int, far peer) { time.Sleep(time.Hour) }},
		"silence": {script: answer("")},
		"headers": {script: answer("HTTP/1.1 200 OK\r\nContent-")},
		"body":    {script: answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"), body: true},
		"chunk":   {script: answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhell"), body: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				p, _ := scripted(t, tt.script)
				if tt.dial != nil {
					p.Dial = tt.dial
				}
				time.AfterFunc(time.Second, func() { cancel(errStop) })
				start := time.Now()
				resp, err := p.RoundTrip(post(t, ctx, "x"))
				if tt.body {
					require.NoError(t, err)
					_, err = io.ReadAll(resp.Body)
				}
				assert.ErrorIs(t, err, errStop)
				assert.Equal(t, time.Second, time.Since(start))
				assert.Empty(t, p.idle)
				_, err = p.RoundTrip(post(t, ctx, "x"))
				assert.Equal(t, errStop, err)
			})
		})
	}
}

// A context that ends after the last byte spoils nothing but the connection.
func TestCancelAfterTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		p, _ := scripted(t, func(_ int, far peer) {
			far.request()
			far.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
			far.gone()
		})
		resp, err := p.RoundTrip(get(t, ctx, http.MethodGet))
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		cancel(errStop)
		synctest.Wait()
		assert.Len(t, p.idle, 1, "the connection is the pool's again")
		p.Close()
	})
}

// An error's words that drip in do not hold the pull.
func TestReadAnswerDrip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, _ := scripted(t, func(_ int, far peer) {
			far.request()
			far.say("HTTP/1.1 500 Hm\r\nContent-Length: 60000\r\n\r\n")
			for {
				time.Sleep(time.Second)
				if _, err := io.WriteString(far, "x"); err != nil {
					return
				}
			}
		})
		resp, err := p.RoundTrip(get(t, t.Context(), http.MethodGet))
		require.NoError(t, err)
		start := time.Now()
		a := ReadAnswer(resp, classify.OperationResolveManifest)
		assert.Equal(t, maxAnswerTime, time.Since(start))
		assert.Equal(t, strings.Repeat("x", 5), a.Message)
	})
}
