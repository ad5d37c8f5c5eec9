package registry

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pullwalk/pullwalk/classify"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// silent is a connection that takes everything and says nothing.
type silent struct{ closed *bool }

func (silent) Read([]byte) (int, error)         { return 0, io.EOF }
func (silent) Write(p []byte) (int, error)      { return len(p), nil }
func (silent) LocalAddr() net.Addr              { return nil }
func (silent) RemoteAddr() net.Addr             { return nil }
func (silent) SetDeadline(time.Time) error      { return nil }
func (silent) SetReadDeadline(time.Time) error  { return nil }
func (silent) SetWriteDeadline(time.Time) error { return nil }
func (s silent) Close() error {
	if s.closed != nil {
		*s.closed = true
	}
	return nil
}

type recorded struct {
	silent
	r io.Reader
}

func (r *recorded) Read(p []byte) (int, error) { return r.r.Read(p) }

func FuzzReadHeaders(f *testing.F) {
	for _, seed := range []string{
		"", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nx", "HTTP/1.1 099 x\r\n\r\n", "\x15\x03\x01\x00\x02\x02\x28",
		"HTTP/1.1 401 No\r\nWww-Authenticate: Bearer realm=\"x\"\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nab", "HTTP/1.1 101 x\r\n\r\n",
	} {
		for method := range uint8(4) {
			f.Add([]byte(seed), method)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, m uint8) {
		method := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodConnect}[m%4]
		closed := false
		p := &Pool{}
		p.Put(&recorded{silent{&closed}, bytes.NewReader(raw)})
		req, err := http.NewRequestWithContext(t.Context(), method, "http://registry.corp.test/v2/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := p.RoundTrip(req)
		if err == nil {
			var n int64
			n, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if n > int64(len(raw)) {
				t.Fatalf("%d bytes of %d", n, len(raw))
			}
		}
		if kept := len(p.idle) == 1; kept == closed || err != nil && kept {
			t.Fatalf("kept %v, closed %v, error %v", kept, closed, err)
		}
		if err != nil && (len(err.Error()) > 1000 || !utf8.ValidString(err.Error())) {
			t.Fatalf("error %q", err)
		}
	})
}

func FuzzParseChallenges(f *testing.F) {
	for _, seed := range []string{
		`Bearer realm="https://auth.corp.test/token",service="registry",scope="repository:a/b:pull"`, `Basic realm="x", Negotiate abc==, Bearer realm=https://a/b`,
		`Basic realm="a\"b`, `,,,`, `"`, `a=b`, `Bearer realm = "x" , , ,error="invalid_token"`, "\xff\x00", `a b c d e f`,
	} {
		f.Add(seed, "")
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		out := ParseChallenges([]string{a, b})
		if len(out) > maxChallenges {
			t.Fatalf("%d challenges", len(out))
		}
		for _, c := range out {
			if c.Scheme == "" || len(c.Scheme) > maxWord || c.Scheme != strings.ToLower(c.Scheme) || len(c.Error) > maxWord {
				t.Fatalf("%#v", c)
			}
			if len(c.Realm)+len(c.Service)+len(c.Scope) > maxChallengeBytes {
				t.Fatal("more than was sent")
			}
			u, err := RealmURL(c)
			if err == nil && (u.Hostname() == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https") {
				t.Fatalf("%q is no realm", c.Realm)
			}
		}
	})
}

func FuzzFingerprint(f *testing.F) {
	for _, seed := range []string{
		`{"errors":[{"code":"DENIED","message":"x"}]}`, `{"details":"x"}`, bom + `<?xml version="1.0"?><Error><Code>A</Code><Message>b</Message></Error>`,
		"<html><title>x</title>", "\xff\xff<TITLE a=b>İ</tItLe>", "<title", "<", "", "{", `{"errors":null}`,
	} {
		f.Add([]byte(seed), "text/html", uint16(403))
		f.Add([]byte(seed), "application/json; x", uint16(407))
	}
	f.Fuzz(func(t *testing.T, raw []byte, kind string, status uint16) {
		h := http.Header{"Content-Type": {kind}}
		answerer, codes, message := fingerprint(int(status), h, raw)
		switch answerer {
		case AnswererHTML, AnswererObjectStore, AnswererProxy, AnswererRegistry, AnswererUnknown:
		default:
			t.Fatalf("answerer %q", answerer)
		}
		if len(codes) > maxCodes || len(message) > maxMessage || !utf8.ValidString(message) || strings.ContainsAny(message, "\r\n\x00\x1b") {
			t.Fatalf("%q %q", codes, message)
		}
		if classify.Redact(message, maxMessage) != message {
			t.Fatalf("not redacted: %q", message)
		}
		for _, c := range codes {
			if len(c) > 64 {
				t.Fatalf("code %q", c)
			}
		}
		title(raw)
	})
}

func FuzzTokenAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"token":"abc"}`, `{"access_token":"abc","expires_in":300,"issued_at":"2030-01-01T00:00:00Z"}`, `{"token":"a.eyJhY2Nlc3MiOltdfQ.c"}`,
		`{"token":"a\nb"}`, `<html>`, ``, `null`, `{"expires_in":-1}`, `{"token":"x","expires_in":9223372036854775807}`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, post bool) {
		in := TokenRequest{Challenge: corp, Repository: "team/app"}
		if post {
			in.Credential = Credential{Username: "joe", Password: "hunter2"}
		}
		res := FetchToken(t.Context(), roundTripFunc(func(*http.Request) (*http.Response, error) {
			return answer(200, "", string(raw)), nil
		}), in)
		if res.HasToken == (res.Err != nil) {
			t.Fatalf("token %v, error %v", res.HasToken, res.Err)
		}
		if res.ExpiresIn < 0 || len(res.Granted) > maxActions || res.Granted != nil && !res.Readable {
			t.Fatalf("%+v", res)
		}
		if res.HasToken {
			if v := res.Token.Authorization(); v == "Bearer " || strings.ContainsAny(v, "\r\n\x00") {
				t.Fatalf("%q", v)
			}
		} else if strings.Contains(res.Err.Error(), "hunter2") || len(res.Err.Error()) > 400 {
			t.Fatal(res.Err)
		}
	})
}
