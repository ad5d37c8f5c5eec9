package registry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkRequest is one healthy request over a kept connection.
func BenchmarkRequest(b *testing.B) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "{}") }))
	b.Cleanup(s.Close)
	p := overTLS(b, s)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := askOf(b, p, http.MethodGet, "/v2/")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBody is the throughput of a blob over loopback TLS.
func BenchmarkBody(b *testing.B) {
	const size = 64 << 20
	s := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(rw, io.LimitReader(endlessZeros{}, size))
	}))
	b.Cleanup(s.Close)
	p := overTLS(b, s)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := askOf(b, p, http.MethodGet, "/blob")
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
			b.Fatal(n, err)
		}
	}
}
