package registry

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

func TestConnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near := piped(t, 1, func(_ int, far peer) {
			req, _ := far.request()
			assert.Equal(t, "CONNECT", req.Method)
			assert.Equal(t, "registry.corp.test:443", req.RequestURI)
			assert.Equal(t, "registry.corp.test:443", req.Host)
			assert.Equal(t, "agent/1", req.Header.Get("User-Agent"))
			assert.Equal(t, Credential{Username: "joe", Password: "hunter2"}.Basic(), req.Header.Get("Proxy-Authorization"))
			far.say("HTTP/1.1 200 Connection established\r\n\r\n")
			line, _ := far.br.ReadString('\n')
			far.say("echo " + line)
			far.gone()
		})
		c, err := Connect(t.Context(), near, mustURL(t, "http://joe:hunter2@proxy.corp.test:3128"), "registry.corp.test:443", "agent/1", time.Second)
		require.NoError(t, err)
		time.Sleep(time.Hour) // no deadline is left on it
		_, err = io.WriteString(c, "hello\n")
		require.NoError(t, err)
		got := make([]byte, 11)
		_, err = io.ReadFull(c, got)
		require.NoError(t, err)
		assert.Equal(t, "echo hello\n", string(got))
		require.NoError(t, c.Close())
	})
}

func TestConnectRefused(t *testing.T) {
	t.Parallel()
	const stay = time.Hour
	for name, tt := range map[string]struct {
		answer string
		wait   time.Duration // the proxy keeps the connection open that long
		cause  classify.Cause
		status int
	}{
		"407":             {answer: "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 2\r\n\r\nno", wait: stay, status: 407},
		"407 empty":       {answer: "HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n", wait: stay, status: 407},
		"403 with a page": {answer: "HTTP/1.1 403 No\r\nContent-Type: text/html\r\n\r\n<html><title>Blocked</title>", status: 403},
		"302":             {answer: "HTTP/1.1 302 Away\r\nLocation: http://portal.corp.test/?u=joe\r\nContent-Length: 0\r\n\r\n", wait: stay, status: 302},
		"204":             {answer: "HTTP/1.1 204 Fine\r\n\r\n", wait: stay, status: 204}, // net/http wants 200 exactly
		"garbage":         {answer: "\x05\x00garbage\r\n", wait: stay},
		"bytes after 200": {answer: "HTTP/1.1 200 OK\r\n\r\n220 mail ready", wait: stay},
		"the end":         {answer: "", cause: classify.EndpointProxyRefusedConnect},
		"silence":         {answer: "", wait: stay, cause: classify.EndpointProxyRefusedConnect},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				near := piped(t, 1, func(_ int, far peer) {
					far.request()
					far.say(tt.answer)
					if tt.wait > 0 {
						far.gone() // a connection that is not closed is a deadlock here
					}
				})
				c, err := Connect(t.Context(), near, mustURL(t, "http://joe:hunter2@proxy.corp.test:3128"), "registry.corp.test:443", "", time.Second)
				require.Nil(t, c)
				require.Error(t, err)
				for _, text := range []string{err.Error(), fmt.Sprintf("%#v", err), classify.Error(err).Summary} {
					assert.NotContains(t, text, "hunter2")
					assert.NotContains(t, text, "joe")
				}
				var answer *classify.HTTPAnswer
				var stage *classify.StageError
				if tt.status != 0 {
					require.ErrorAs(t, err, &answer)
					assert.Equal(t, tt.status, answer.Status)
					assert.Equal(t, AnswererProxy, answer.Answerer)
					assert.Equal(t, "proxy.corp.test:3128", answer.Host)
					return
				}
				require.ErrorAs(t, err, &stage)
				assert.Equal(t, classify.StageProxyConnect, stage.Stage)
				assert.Equal(t, "proxy.corp.test:3128", stage.Endpoint)
				if tt.cause != "" {
					assert.Equal(t, tt.cause, classify.Error(err).Cause)
				}
			})
		})
	}
}

func TestConnectCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		near := piped(t, 1, func(_ int, far peer) { far.request(); far.gone() })
		time.AfterFunc(time.Second, func() { cancel(errStop) })
		start := time.Now()
		_, err := Connect(ctx, near, mustURL(t, "http://proxy.corp.test"), "registry.corp.test:443", "", 0)
		assert.ErrorIs(t, err, errStop)
		assert.Equal(t, time.Second, time.Since(start))
	})
}
