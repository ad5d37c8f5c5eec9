package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// overTLS is a Pool of verified connections to s.
func overTLS(t testing.TB, s *httptest.Server) *Pool {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	d := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "example.com"}}
	p := &Pool{Dial: func(ctx context.Context) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", s.Listener.Addr().String())
	}}
	t.Cleanup(p.Close)
	return p
}

func askOf(t testing.TB, p *Pool, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(t.Context(), method, "https://registry.corp.test"+path, nil)
	require.NoError(t, err)
	return p.RoundTrip(req)
}

// A real server, real TLS: each kind of answer over one connection.
func TestOverTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Peer", r.RemoteAddr)
		switch r.URL.Path {
		case "/chunked":
			rw.Header().Set("Trailer", "X-Sum")
			for i := range 100 {
				fmt.Fprintf(rw, "%09d\n", i)
				rw.(http.Flusher).Flush()
			}
			rw.Header().Set("X-Sum", "1")
		case "/empty":
			rw.WriteHeader(http.StatusNoContent)
		case "/hints":
			rw.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(rw, "done")
		case "/large":
			_, _ = io.Copy(rw, io.LimitReader(endlessZeros{}, 1<<20))
		}
	}))
	t.Cleanup(s.Close)
	p := overTLS(t, s)
	peers := map[string]bool{}
	for range 2 {
		for path, want := range map[string]int{"/chunked": 1000, "/empty": 0, "/hints": 4, "/large": 1 << 20, "/none": 0} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				resp, err := askOf(t, p, method, path)
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				if method == http.MethodGet {
					assert.Len(t, body, want, path)
				}
				peers[resp.Header.Get("X-Peer")] = true
			}
		}
	}
	assert.Len(t, peers, 1, "one connection served everything")
	s.CloseClientConnections()
	resp, err := askOf(t, p, http.MethodGet, "/hints")
	require.NoError(t, err, "a kept connection that was closed is replaced")
	_ = resp.Body.Close()
}

type endlessZeros struct{}

func (endlessZeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// With TLS 1.3 the handshake succeeds and the demand for a certificate comes as an
// alert on the first read. It is an answer: it is named and not asked past.
func TestClientCertificateDemanded(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	for _, put := range []bool{false, true} {
		for range 20 { // the reset races with the alert
			p := overTLS(t, s)
			dials, dial := 0, p.Dial
			p.Dial = func(ctx context.Context) (net.Conn, error) { dials++; return dial(ctx) }
			if put {
				c, err := p.Dial(t.Context())
				require.NoError(t, err)
				p.Put(c)
			}
			_, err := askOf(t, p, http.MethodGet, "/v2/")
			require.Error(t, err)
			assert.True(t, isAlert(err), "%v", err)
			assert.Equal(t, classify.TLSClientCertificateRequired, classify.Error(err).Cause, "%v", err)
			assert.Equal(t, 1, dials)
		}
	}
}

// A body that ends with the connection: crypto/tls takes the end at the boundary
// of a record for the end, with or without a farewell, and so do the runtimes.
// What a length announced is still missed.
func TestTLSEnd(t *testing.T) {
	t.Parallel()
	for _, farewell := range []bool{true, false} {
		s := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			c, w, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			_, _ = w.WriteString("HTTP/1.0 200 OK\r\n" + strings.Repeat("Content-Length: 6\r\n", len(r.URL.RawQuery)) + "\r\nhello")
			_ = w.Flush()
			if !farewell {
				c = c.(*tls.Conn).NetConn()
			}
			_ = c.Close()
		}))
		resp, err := askOf(t, overTLS(t, s), http.MethodGet, "/")
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		assert.Equal(t, "hello", string(body))
		assert.NoError(t, err)
		resp, err = askOf(t, overTLS(t, s), http.MethodGet, "/?1")
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Equal(t, classify.EndpointDownloadInterrupted, classify.Error(err).Cause)
		s.Close()
	}
}

// The farewell may come with the last bytes; they still count first.
func TestMalformedWithFarewell(t *testing.T) {
	t.Parallel()
	p := &Pool{}
	p.Put(&endWithBytes{r: strings.NewReader("SSH-2.0-OpenSSH_9.9\r\n")})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://registry.corp.test/", nil)
	require.NoError(t, err)
	_, err = p.RoundTrip(req)
	assert.ErrorIs(t, err, ErrMalformed)
}

// endWithBytes gives io.EOF together with the last bytes, as crypto/tls does.
type endWithBytes struct {
	silent
	r *strings.Reader
}

func (e *endWithBytes) Read(p []byte) (int, error) {
	n, _ := e.r.Read(p)
	if e.r.Len() == 0 {
		return n, io.EOF
	}
	return n, nil
}
