package noderuntime

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing/fstest"

	"github.com/pullwalk/pullwalk/classify"
)

// roundTrip is a scripted other side.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type header map[string]string

// reply is an answer with a Content-Length, unless body is a reader of its own.
func reply(status int, h header, body any) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: status, Header: http.Header{}, Request: req, ContentLength: -1}
		for k, v := range h {
			resp.Header.Set(k, v)
		}
		switch b := body.(type) {
		case nil:
			resp.ContentLength, resp.Body = 0, http.NoBody
		case string:
			resp.ContentLength, resp.Body = int64(len(b)), io.NopCloser(strings.NewReader(b))
		case io.Reader:
			resp.Body = io.NopCloser(b)
		}
		if v := resp.Header.Get("Content-Length"); v != "" {
			_, _ = fmt.Sscan(v, &resp.ContentLength)
		}
		if req.Method == http.MethodHead {
			resp.Body = http.NoBody
		}
		return resp, nil
	}
}

func sum(body string) string {
	s := sha256.Sum256([]byte(body))
	return "sha256:" + hex.EncodeToString(s[:])
}

func causes(fs []classify.Finding) (out []classify.Cause) {
	for _, f := range fs {
		out = append(out, f.Cause)
	}
	return out
}

// treeWith is a node with one file.
func treeWith(name, text string) fstest.MapFS {
	return fstest.MapFS{name: {Data: []byte(text)}}
}
