package agentclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/internal/lab"
)

const mib = 1 << 20

// allocated returns how many bytes f takes from the heap, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// fill is a document of less than limit bytes that repeats one element.
func fill(begin, element, end string, limit int) string {
	n := (limit - len(begin) - len(end) - 1) / (len(element) + 1)
	return begin + strings.Repeat(element+",", n-1) + element + end
}

// What an agent may cost who asks it.
func TestHostileAnswers(t *testing.T) {
	tests := map[string]string{
		"zeros":           fill(`{"steps":[`, `0`, `]}`, maxResult),
		"nulls":           fill(`{"steps":[`, `null`, `]}`, maxResult),
		"steps":           fill(`{"steps":[`, `{}`, `]}`, maxResult),
		"lists":           fill(`{"steps":[`, `[]`, `]}`, maxResult),
		"strings":         fill(`{"steps":[{"addresses":[`, `""`, `]}]}`, maxResult),
		"findings":        fill(`{"findings":[`, `{"evidence":[0]}`, `]}`, maxResult),
		"labels":          fill(`{"vantage":{"labels":[`, `{}`, `]}}`, maxResult),
		"unknown keys":    fill(`{`, `"a":0`, `}`, maxResult),
		"as many as may":  fill(`{"findings":[`, `{}`, `]}`, 3*(maxObjects/2-8)),
		"braces in texts": `{"schema":"` + strings.Repeat(`{\"`, 1<<20) + `"}`,
	}
	for name, doc := range tests {
		t.Run(name, func(t *testing.T) {
			var err error
			got := allocated(func() { _, err = decode(strings.NewReader(doc), Request{Images: []string{image}}) })
			require.ErrorIs(t, err, ErrAnswer)
			t.Logf("%d KiB of answer, %.1f MiB allocated: %v", len(doc)>>10, float64(got)/mib, err)
			require.Less(t, got, uint64(64*mib))
		})
	}
}

// What a request may cost the agent.
func TestHostileRequests(t *testing.T) {
	tests := map[string]string{
		"images":       fill(`{"images":[`, `""`, `]}`, MaxRequest),
		"zeros":        fill(`{"images":[`, `0`, `]}`, MaxRequest),
		"events":       fill(`{"events":[`, `{}`, `]}`, MaxRequest),
		"nulls":        fill(`{"events":[`, `null`, `]}`, MaxRequest),
		"pull secrets": fill(`{"pullSecrets":[`, `{}`, `]}`, MaxRequest),
		"keys":         fill(`{`, `"node":""`, `}`, MaxRequest),
	}
	for name, doc := range tests {
		t.Run(name, func(t *testing.T) {
			var err error
			got := allocated(func() { _, err = DecodeRequest(strings.NewReader(doc)) })
			require.ErrorContains(t, err, "more than")
			t.Logf("%d KiB of request, %.1f MiB allocated: %v", len(doc)>>10, float64(got)/mib, err)
			require.Less(t, got, uint64(32*mib))
		})
	}
	big := Request{Images: []string{image}, PullSecrets: []PullSecret{{Name: "big", Data: []byte(fill(`{"auths":{`, `"a":{}`, `}}`, mib))}}}
	require.ErrorContains(t, big.Check(), "want at most 1024 entries")
	big.PullSecrets[0].Data = []byte(fill(`{"auths":{`, `"registry.corp.test/team":{"auth":"dTpw"}`, `}}`, 40*MaxAuths))
	require.NoError(t, big.Check())
}

// What is counted is what encoding/json makes of it.
func FuzzBounds(f *testing.F) {
	for _, doc := range []string{`{"a":[1,2,{"b":[]}],"c":"x,\"[{:"}`, `[[],[0,[1]],{}]`, `"\\"`, `[]`, `{"a":{"b":{}}}`} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var value any
		if json.Unmarshal(doc, &value) != nil {
			_ = bounds{}.check(doc)
			return
		}
		elements, objects := 0, 0
		var walk func(any)
		walk = func(v any) {
			switch v := v.(type) {
			case []any:
				elements += len(v)
				for _, e := range v {
					walk(e)
				}
			case map[string]any:
				objects++
				for _, e := range v {
					walk(e)
				}
			}
		}
		walk(value)
		if elements > 0 { // repeated keys hide some from encoding/json, never the other way
			require.Error(t, bounds{elements: elements - 1, objects: len(doc), keys: len(doc)}.check(doc))
		}
		if objects > 0 {
			require.Error(t, bounds{elements: len(doc) + 1, objects: objects - 1, keys: len(doc)}.check(doc))
		}
	})
}

// Whoever speaks before being asked, or without end, reaches neither the program's
// log nor its memory. It counts one connection and no Referer.
func TestHostileConnections(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	t.Cleanup(func() { log.SetOutput(io.Discard) })
	tests := map[string]string{
		"unasked":        "SSH-2.0-evil\r\n",
		"endless header": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*mib),
		"many headers":   "HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", mib/6),
		"informational":  strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000),
		"redirect":       "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
	}
	for name, says := range tests {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			heard := make(chan string, 1)
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.WriteString(c, says) }()
				all, _ := io.ReadAll(c)
				heard <- string(all)
			}()
			t.Cleanup(func() { l.Close() })
			before := runtime.NumGoroutine()
			got := allocated(func() {
				_, err = NewLocal().Diagnose(t.Context(), netip.MustParseAddrPort(l.Addr().String()), Request{Images: []string{image}})
			})
			require.Error(t, err)
			require.Less(t, len(err.Error()), 600)
			require.Less(t, got, uint64(4*mib))
			require.NotContains(t, <-heard, "Referer")
			require.LessOrEqual(t, runtime.NumGoroutine(), before)
			require.Empty(t, logged.String())
		})
	}
}

// With a certificate for each node, an agent answers for its own node alone, and the
// token that it gets is for no other.
func TestPerNode(t *testing.T) {
	w, err := lab.New(lab.Options{})
	require.NoError(t, err)
	asked := 0
	agent := func(name string) netip.AddrPort {
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{w.Certificate(name)}})
		require.NoError(t, err)
		s := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			asked++
			require.Equal(t, "Bearer for node-7", r.Header.Get("Authorization"))
			fmt.Fprint(rw, document(t, func(*pullwalk.Result) {}))
		})}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { s.Close() })
		return netip.MustParseAddrPort(l.Addr().String())
	}
	c, err := NewPerNode(w.AuthorityPEM(), func(_ context.Context, node string) ([]byte, error) { return []byte("for " + node), nil })
	require.NoError(t, err)
	req := Request{Node: "node-7", Images: []string{image}}
	_, err = c.Diagnose(t.Context(), agent(NodeServerName("node-7")), req)
	require.NoError(t, err)
	for _, other := range []string{NodeServerName("node-8"), ServerName, "node-7"} {
		_, err = c.Diagnose(t.Context(), agent(other), req)
		require.ErrorContains(t, err, NodeServerName("node-7"))
	}
	require.Equal(t, 1, asked)
	_, err = c.Diagnose(t.Context(), agent(NodeServerName("node-7")), Request{Images: []string{image}})
	require.ErrorContains(t, err, "names its node")
	_, err = NewPerNode(w.AuthorityPEM(), nil)
	require.Error(t, err)
}
