package agentclient

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

const image = "registry.corp.test/team/app:v1"

// good is what an honest agent of node-7 says about image.
func good() *pullwalk.Result {
	return &pullwalk.Result{
		Schema: pullwalk.Schema, Image: pullwalk.ImageRef{Given: image}, Pull: pullwalk.Touch, Verdict: pullwalk.StatusOK,
		Vantage: pullwalk.Vantage{Labels: []pullwalk.Label{{Key: NodeLabel, Value: "node-7"}}},
	}
}

func document(t *testing.T, change func(*pullwalk.Result)) string {
	t.Helper()
	r := good()
	change(r)
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	return string(raw) + "\n"
}

// agentSaying serves one answer, whatever it is asked.
func agentSaying(t *testing.T, answer http.HandlerFunc) netip.AddrPort {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

// An agent is believed about its node and about nothing else.
func TestAnswersThatAreNone(t *testing.T) {
	failed := func(r *pullwalk.Result) {
		f := classify.New(classify.DNSNXDOMAIN, "no such name")
		r.Verdict, r.Primary = pullwalk.StatusFailed, &f
	}
	honest := document(t, func(*pullwalk.Result) {})
	tests := []struct {
		name string
		body string
		want string // "" = it is an answer
	}{
		{"honest", honest, ""},
		{"a failure", document(t, failed), ""},
		{"unknown fields, as a later agent may send", strings.Replace(honest, "{", `{"later":{"x":[1]},`, 1), ""},
		{"nothing", "", "EOF"},
		{"half", honest[:len(honest)/2], "unexpected EOF"},
		{"no JSON", "<html>", "invalid character"},
		{"null", "null", `its schema is ""`},
		{"another type", `{"schema":7}`, "cannot unmarshal"},
		{"another version", document(t, func(r *pullwalk.Result) { r.Schema = "pullwalk.result/v2" }), `its schema is "pullwalk.result/v2"`},
		{"another image", document(t, func(r *pullwalk.Result) { r.Image.Given = "registry.corp.test/team/other:v1" }), "about the image"},
		{"another node", document(t, func(r *pullwalk.Result) { r.Vantage.Labels[0].Value = "node-8" }), `about the node "node-8"`},
		{"no node", document(t, func(r *pullwalk.Result) { r.Vantage.Labels = nil }), "about the node"},
		{"another mode", document(t, func(r *pullwalk.Result) { r.Pull = pullwalk.Complete }), "its mode"},
		{"a proof of nothing", document(t, func(r *pullwalk.Result) { r.Proof = &pullwalk.Proof{Layers: 3} }), "claims a proof"},
		{"a failure without cause", document(t, func(r *pullwalk.Result) { r.Verdict = pullwalk.StatusFailed }), "without a cause"},
		{"a cause without failure", document(t, func(r *pullwalk.Result) { failed(r); r.Verdict = pullwalk.StatusOK }), "did not fail"},
		{"an unknown verdict", document(t, func(r *pullwalk.Result) { r.Verdict = "splendid" }), `its verdict is "splendid"`},
		{"two for one", honest + honest, "more follows"},
		{"a long name", `{"schema":"` + strings.Repeat("x", 3<<20) + `"}`, "its schema"},
		{"more than is read", `{"schema":"` + strings.Repeat("x", maxResult) + `"}`, "more than 4194304 bytes"},
		{"little that becomes much", `{"findings":[` + strings.Repeat("{},", 1<<20) + `{}]}`, "more than 20000 objects"},
		{"deep", strings.Repeat("[", 1<<20), "max depth"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr := agentSaying(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tt.body) })
			got, err := NewLocal().Diagnose(t.Context(), addr, Request{Node: "node-7", Images: []string{image}})
			if tt.want == "" {
				require.NoError(t, err)
				require.Equal(t, image, got[0].Image.Given)
				return
			}
			require.ErrorIs(t, err, ErrAnswer)
			require.ErrorContains(t, err, tt.want)
			require.Less(t, len(err.Error()), 600, "what a liar writes goes into no log at length")
		})
	}
}

// With a complete download asked for, a proof stands only beside a success.
func TestProofOfAFailure(t *testing.T) {
	doc := document(t, func(r *pullwalk.Result) {
		r.Pull, r.Verdict, r.Proof = pullwalk.Complete, pullwalk.StatusInconclusive, &pullwalk.Proof{Layers: 3}
	})
	addr := agentSaying(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, doc) })
	_, err := NewLocal().Diagnose(t.Context(), addr, Request{Images: []string{image}, Pull: pullwalk.Complete})
	require.ErrorContains(t, err, "did not succeed")
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name          string
		answer        http.HandlerFunc
		code          int
		message       string
		after         time.Duration
		busy, invalid bool
	}{
		{"busy", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "10")
			w.WriteHeader(429)
			fmt.Fprint(w, `{"error":"full"}`)
		}, 429, "full", 10 * time.Second, true, false},
		{"busy for ever", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "99999999999")
			w.WriteHeader(503)
		}, 503, "", time.Hour, true, false},
		{"a date", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.WriteHeader(503)
		}, 503, "", 0, true, false},
		{"invalid", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":"no such thing"}`)
		}, 400, "no such thing", 0, false, true},
		{"sent elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		}, 307, "", 0, false, false},
		{"long, with a secret and control characters", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			fmt.Fprint(w, "\x1b[31mhttps://user:hunter2@host/?sig=hunter2 ", strings.Repeat("y", 1<<20))
		}, 500, "https://", 0, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewLocal().Diagnose(t.Context(), agentSaying(t, tt.answer), Request{Images: []string{image}})
			var refused *StatusError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, tt.code, refused.Code)
			require.Equal(t, tt.after, refused.RetryAfter)
			require.Equal(t, tt.busy, refused.Busy())
			require.Equal(t, tt.invalid, refused.Invalid())
			require.Contains(t, err.Error(), tt.message)
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), "\x1b")
			require.Less(t, len(err.Error()), 500)
		})
	}
}

// An agent that does not answer is left when the caller wants to go.
func TestSilence(t *testing.T) {
	for name, begin := range map[string]string{"no header": "", "half a body": `{"schema":`} {
		t.Run(name, func(t *testing.T) {
			released := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			addr := agentSaying(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // net/http listens for the end only then
				if begin != "" {
					fmt.Fprint(w, begin)
					w.(http.Flusher).Flush()
				}
				cancel()
				<-r.Context().Done() // the agent hears of it
				close(released)
			})
			_, err := NewLocal().Diagnose(ctx, addr, Request{Images: []string{image}})
			require.ErrorIs(t, err, context.Canceled)
			<-released
		})
	}
}

// The token goes over TLS, to the name that all agents share, or nowhere.
func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { t.Error("somebody of another name got a request") }))
	t.Cleanup(s.Close)
	addr := netip.MustParseAddrPort(s.Listener.Addr().String())
	var authority bytes.Buffer
	require.NoError(t, pem.Encode(&authority, &pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))

	c, err := New(authority.Bytes(), func() ([]byte, error) { return []byte("a"), nil })
	require.NoError(t, err)
	_, err = c.Diagnose(t.Context(), addr, Request{Images: []string{image}})
	require.ErrorContains(t, err, ServerName)

	c, err = New(authority.Bytes(), func() ([]byte, error) { return nil, errors.New("gone") })
	require.NoError(t, err)
	_, err = c.Diagnose(t.Context(), addr, Request{Images: []string{image}})
	require.ErrorContains(t, err, "the token: gone")

	_, err = NewLocal().Diagnose(t.Context(), netip.MustParseAddrPort("192.0.2.1:9741"), Request{Images: []string{image}})
	require.ErrorContains(t, err, "over TLS only")

	_, err = New([]byte("no PEM"), func() ([]byte, error) { return nil, nil })
	require.Error(t, err)
	_, err = New(authority.Bytes(), nil)
	require.Error(t, err)
}

func TestInvalidRequests(t *testing.T) {
	tests := map[string]Request{
		"no image":     {},
		"images":       {Images: make([]string, MaxImages+1)},
		"events":       {Images: []string{image}, Events: make([]classify.EventRecord, MaxEvents+1)},
		"pull secrets": {Images: []string{image}, PullSecrets: make([]PullSecret, MaxPullSecrets+1)},
		"budget of":    {Images: []string{image}, BudgetMS: -1},
		"a budget":     {Images: []string{image}, BudgetMS: MaxBudget.Milliseconds() + 1},
		"pull is none": {Images: []string{image}, Pull: "gently"},
	}
	for want, req := range tests {
		_, err := NewLocal().Diagnose(t.Context(), netip.MustParseAddrPort("127.0.0.1:1"), req)
		require.ErrorContains(t, err, want)
	}
}

// A request that is printed shows no secret.
func TestPrinted(t *testing.T) {
	req := Request{PullSecrets: []PullSecret{{Name: "regcred", Data: []byte("hunter2")}}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		got := fmt.Sprintf(format, req)
		require.Contains(t, got, "regcred")
		require.NotContains(t, got, "hunter2")
		require.NotContains(t, got, "104") // its first byte
		require.NotContains(t, got, "0x68")
	}
}

func FuzzDecode(f *testing.F) {
	honest, _ := json.Marshal(good())
	f.Add(honest)
	f.Add([]byte(`{"schema":"pullwalk.result/v1","verdict":"failed"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		req := Request{Node: "node-7", Images: []string{image}}
		got, err := decode(bytes.NewReader(data), req)
		if err != nil {
			require.ErrorIs(t, err, ErrAnswer)
			return
		}
		require.Len(t, got, 1)
		_ = got[0].String() // whatever it holds, it can be printed
		_ = got[0].Markdown()
	})
}
