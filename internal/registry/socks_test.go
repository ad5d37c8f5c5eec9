package registry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// read returns exactly n bytes of what the near end says.
func (p peer) read(n int) string {
	b := make([]byte, n)
	_, _ = io.ReadFull(p.br, b)
	return string(b)
}

const (
	proxyOpen = "socks5://proxy.corp.test:1080"
	loginURL  = "socks5h://joe:hunter2@proxy.corp.test:1080"
	askName   = "\x05\x01\x00\x03\x12registry.corp.test\x01\xbb"
	bound     = "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
)

func TestSOCKS(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		proxy, target string
		say           []string // what the proxy answers, each to one message
		hear          []string
	}{
		"open":               {proxyOpen, "registry.corp.test:443", []string{"\x05\x00", bound}, []string{"\x05\x01\x00", askName}},
		"login not asked":    {loginURL, "registry.corp.test:443", []string{"\x05\x00", bound}, []string{"\x05\x02\x00\x02", askName}},
		"login":              {loginURL, "registry.corp.test:443", []string{"\x05\x02", "\x01\x00", bound}, []string{"\x05\x02\x00\x02", "\x01\x03joe\x07hunter2", askName}},
		"IPv4":               {proxyOpen, "192.0.2.7:5000", []string{"\x05\x00", bound}, []string{"\x05\x01\x00", "\x05\x01\x00\x01\xc0\x00\x02\x07\x13\x88"}},
		"IPv6":               {proxyOpen, "[2001:db8::1]:443", []string{"\x05\x00", bound}, []string{"\x05\x01\x00", "\x05\x01\x00\x04\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01\xbb"}},
		"bound to IPv6":      {proxyOpen, "registry.corp.test:443", []string{"\x05\x00", "\x05\x00\x00\x04" + strings.Repeat("\x00", 18)}, []string{"\x05\x01\x00", askName}},
		"bound to some name": {proxyOpen, "registry.corp.test:443", []string{"\x05\x00", "\x05\x00\x00\x03\x04here\x00\x00"}, []string{"\x05\x01\x00", askName}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				near := piped(t, 1, func(_ int, far peer) {
					for i, say := range tt.say {
						assert.Equal(t, tt.hear[i], far.read(len(tt.hear[i])))
						if i == len(tt.say)-1 {
							say += "220 the target speaks first\n" // not a byte of it may be lost
						}
						far.say(say)
					}
					far.gone()
				})
				c, err := SOCKS(t.Context(), near, mustURL(t, tt.proxy), tt.target, time.Second)
				require.NoError(t, err)
				time.Sleep(time.Hour) // no deadline is left on it
				got := make([]byte, 28)
				_, err = io.ReadFull(c, got)
				require.NoError(t, err)
				assert.Equal(t, "220 the target speaks first\n", string(got))
				require.NoError(t, c.Close())
			})
		})
	}
}

func TestSOCKSRefused(t *testing.T) {
	t.Parallel()
	const name = "registry.corp.test:443"
	for title, tt := range map[string]struct {
		proxy string
		say   []string
		cause classify.Cause
		words string
	}{
		"no method":       {proxyOpen, []string{"\x05\xff"}, classify.EndpointProxyAuthRequired, "none of the ways"},
		"wrong password":  {loginURL, []string{"\x05\x02", "\x01\x01"}, classify.EndpointProxyAuthRequired, "does not accept"},
		"no user":         {"socks5://:x@proxy.corp.test:1080", []string{"\x05\x02"}, classify.EndpointProxyAuthRequired, "255 bytes"},
		"by its rules":    {proxyOpen, []string{"\x05\x00", "\x05\x02\x00\x01"}, classify.EndpointProxyRefusedConnect, "not allowed by its rules"},
		"no such host":    {proxyOpen, []string{"\x05\x00", "\x05\x04\x00\x01"}, classify.EndpointProxyRefusedConnect, "host unreachable"},
		"target refuses":  {proxyOpen, []string{"\x05\x00", "\x05\x05\x00\x01"}, classify.EndpointProxyRefusedConnect, "connection refused"},
		"unknown code":    {proxyOpen, []string{"\x05\x00", "\x05\x63\x00\x01"}, classify.EndpointProxyRefusedConnect, "code 99"},
		"silence":         {proxyOpen, nil, classify.EndpointProxyRefusedConnect, ""},
		"late silence":    {proxyOpen, []string{"\x05\x00"}, classify.EndpointProxyRefusedConnect, ""},
		"an HTTP proxy":   {proxyOpen, []string{"HTTP/1.1 400 Bad Request\r\n\r\n"}, classify.EndpointMalformedResponse, ""},
		"other method":    {proxyOpen, []string{"\x05\x02"}, classify.EndpointMalformedResponse, ""},
		"HTTP to a login": {loginURL, []string{"\x05\x02", "HT"}, classify.EndpointMalformedResponse, ""},
		"SOCKS 4 reply":   {proxyOpen, []string{"\x05\x00", "\x04\x00\x00\x01"}, classify.EndpointMalformedResponse, ""},
		"strange address": {proxyOpen, []string{"\x05\x00", "\x05\x00\x00\x09"}, classify.EndpointMalformedResponse, ""},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				near := piped(t, 1, func(_ int, far peer) {
					buf := make([]byte, 512)
					for _, say := range tt.say {
						_, _ = far.br.Read(buf)
						far.say(say)
					}
					far.gone()
				})
				c, err := SOCKS(t.Context(), near, mustURL(t, tt.proxy), name, time.Second)
				require.Nil(t, c)
				require.Error(t, err)
				f := classify.Error(err)
				assert.Equal(t, tt.cause, f.Cause)
				assert.Contains(t, f.Summary, tt.words)
				for _, text := range []string{err.Error(), fmt.Sprintf("%#v", err), f.Summary} {
					assert.NotContains(t, text, "hunter2")
					assert.NotContains(t, text, "joe")
				}
			})
		})
	}
}

// What a live refusal is called and what the runtime's own text of it is read as
// must be the same.
func TestSOCKSAgreesWithTheRuntimesWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]classify.Cause{
		"socks connect tcp proxy.corp.test:1080->registry.corp.test:443: no acceptable authentication methods":    classify.EndpointProxyAuthRequired,
		"socks connect tcp proxy.corp.test:1080->registry.corp.test:443: username/password authentication failed": classify.EndpointProxyAuthRequired,
		"socks connect tcp proxy.corp.test:1080->registry.corp.test:443: unknown error host unreachable":          classify.EndpointProxyRefusedConnect,
	} {
		assert.Equal(t, want, classify.Text(`failed to do request: Head "https://registry.corp.test/v2/team/app/manifests/v1": `+text).Best.Cause, text)
	}
}

func TestSOCKSCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		near := piped(t, 1, func(_ int, far peer) { far.gone() })
		time.AfterFunc(time.Second, func() { cancel(errStop) })
		start := time.Now()
		_, err := SOCKS(ctx, near, mustURL(t, proxyOpen), "registry.corp.test:443", 0)
		assert.ErrorIs(t, err, errStop)
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func FuzzSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x00"+bound), "registry.corp.test:443")
	f.Add([]byte("\x05\x02\x01\x00\x05\x00\x00\x03\xff"), "[::1%25eth0]:1")
	f.Fuzz(func(t *testing.T, answer []byte, target string) {
		closed := false
		c := &recorded{silent{&closed}, bytes.NewReader(answer)}
		got, err := SOCKS(t.Context(), c, mustURL(t, loginURL), target, time.Second)
		if (got == nil) != (err != nil) || closed != (err != nil) {
			t.Fatalf("%v, closed %v: %v", got, closed, err)
		}
		if err != nil && strings.Contains(classify.Error(err).Summary, "hunter2") {
			t.Fatal(err)
		}
	})
}
