package registry

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// store serves one blob with Range, and breaks off after so many bytes of each
// answer; 0 = never.
type store struct {
	body     string
	cut      int
	err      error // how it breaks off; nil = an end
	noRange  bool  // answers 200 with everything
	refuse   int   // status for requests with a Range
	offBy    int
	requests []string
}

func (s *store) RoundTrip(req *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, req.Method+" "+req.URL.Host+" "+req.Header.Get("Range"))
	body, h, status := s.body, header{}, 200
	if rng := req.Header.Get("Range"); rng != "" && !s.noRange {
		if s.refuse != 0 {
			return reply(s.refuse, nil, nil)(req)
		}
		var from, to int
		to = len(body) - 1
		_, _ = fmt.Sscanf(rng, "bytes=%d-%d", &from, &to)
		to = min(to, len(body)-1)
		h["Content-Range"] = fmt.Sprintf("bytes %d-%d/%d", from+s.offBy, to, len(body))
		body, status = body[from:to+1], 206
	}
	h["Content-Length"] = fmt.Sprint(len(body))
	if s.cut > 0 && len(body) > s.cut {
		end := s.err
		if end == nil {
			end = io.ErrUnexpectedEOF
		}
		return reply(status, h, io.MultiReader(strings.NewReader(body[:s.cut]), failing{end}))(req)
	}
	return reply(status, h, io.Reader(strings.NewReader(body)))(req)
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

func TestResume(t *testing.T) {
	t.Parallel()
	body := string(bytes.Repeat([]byte("pullwalk"), 10_000))
	d := Descriptor{Digest: sum(body), Size: int64(len(body))}
	for _, tt := range []struct {
		name     string
		store    *store
		runtime  Client
		requests int
		complete bool
		causes   []classify.Cause
		sev      classify.Severity
	}{
		{"never broken", &store{body: body}, containerd, 1, true, nil, ""},
		{"resumed", &store{body: body, cut: 30_000}, containerd, 3, true, []classify.Cause{classify.EndpointDownloadInterrupted}, classify.SeverityWarn},
		{"reset, containerd gives up", &store{body: body, cut: 30_000, err: syscall.ECONNRESET}, containerd, 1, false, []classify.Cause{classify.EndpointConnectionReset}, classify.SeverityFail},
		{"reset, CRI-O resumes", &store{body: body, cut: 30_000, err: syscall.ECONNRESET}, crio, 3, true, []classify.Cause{classify.EndpointDownloadInterrupted}, classify.SeverityWarn},
		{"broken for ever", &store{body: body, cut: 100}, containerd, 1 + maxResumes, false, []classify.Cause{classify.EndpointDownloadInterrupted}, classify.SeverityFail},
		{"without Range, no progress", &store{body: body, cut: 50_000, noRange: true}, containerd, 1 + maxResumes, false, []classify.Cause{classify.EndpointDownloadInterrupted}, classify.SeverityFail},
		{"the rest refused", &store{body: body, cut: 100, refuse: 416}, containerd, 2, false, []classify.Cause{classify.EndpointDownloadInterrupted, classify.EndpointRangeRefused}, classify.SeverityFail},
		{"another part", &store{body: body, cut: 100, offBy: 1}, containerd, 2, false, []classify.Cause{classify.EndpointRangeRefused}, classify.SeverityFail},
	} {
		w := newWalk(t, image)
		w.Client = tt.runtime
		var told int64
		w.OnBytes = func(n int64) { told += n }
		r := w.Blob(t.Context(), tt.store, d, Whole)
		for r.Resumable() {
			r = w.Resume(t.Context(), tt.store, r, d)
		}
		assert.Equal(t, tt.requests, len(tt.store.requests), tt.name)
		assert.Equal(t, tt.complete, r.Complete, tt.name)
		assert.Equal(t, tt.causes, causes(r.Findings()), tt.name)
		if len(tt.causes) > 0 {
			assert.Equal(t, tt.sev, r.Findings()[0].Severity, tt.name)
		}
		if tt.complete {
			assert.Equal(t, d.Size, r.Bytes, tt.name)
			assert.Equal(t, d.Size, told, tt.name)
		}
	}
	w := newWalk(t, image)
	assert.Equal(t, OutcomeInconclusive, w.Resume(t.Context(), &store{}, nil, d).Outcome)
}

// A body that is changed on the runtime is not mended by its resumption.
func TestResumeChecksTheWhole(t *testing.T) {
	t.Parallel()
	w := newWalk(t, image)
	good := strings.Repeat("a", 1000)
	d := Descriptor{Digest: sum(good), Size: 1000}
	r := w.Blob(t.Context(), &store{body: good, cut: 400}, d, Whole)
	require.True(t, r.Resumable())
	r = w.Resume(t.Context(), reply(307, header{"Location": "https://blobs.corp.test/x"}, nil), r, d)
	r = w.Follow(t.Context(), &store{body: strings.Repeat("b", 1000)}, r, d, Whole)
	assert.Equal(t, []classify.Cause{classify.ImageDigestMismatch}, causes(r.Findings()))
	assert.Equal(t, int64(400), r.Offset)
}

func TestRangedTouch(t *testing.T) {
	t.Parallel()
	w := newWalk(t, image)
	body := strings.Repeat("x", 200_000)
	d := Descriptor{Digest: sum(body), Size: int64(len(body))}
	s := &store{body: body}
	r := w.Blob(t.Context(), reply(307, header{"Location": "https://blobs.corp.test/x"}, nil), d, Ranged64K)
	r = w.Follow(t.Context(), s, r, d, First64K)
	assert.Equal(t, []string{"GET blobs.corp.test bytes=0-65535"}, s.requests, "a redirect keeps the Range")
	assert.Equal(t, OutcomeHeld, r.Outcome)
	assert.EqualValues(t, firstBytes, r.Bytes)
	assert.False(t, r.Complete)

	assert.Equal(t, OutcomeHeld, w.Blob(t.Context(), &store{body: body, noRange: true}, d, Ranged64K).Outcome, "200 is a right answer to a Range")
	refused := w.Blob(t.Context(), &store{body: body, refuse: 403}, d, Ranged64K)
	assert.Equal(t, OutcomeFailed, refused.Outcome)
	plain := w.Blob(t.Context(), s, d, First64K)
	assert.Equal(t, []classify.Cause{classify.EndpointRangeRefused}, causes(CompareRange(refused, plain)))
	assert.Empty(t, CompareRange(plain, refused))
	assert.Empty(t, CompareRange(refused, refused))
	assert.Equal(t, []classify.Cause{classify.EndpointRangeRefused}, causes(w.Blob(t.Context(), &store{body: body, offBy: 7}, d, Ranged64K).Findings()))

	head := w.Head(t.Context(), s, d)
	assert.Equal(t, OutcomeHeld, head.Outcome)
	assert.Empty(t, CompareHead(head, plain))
	assert.Equal(t, []classify.Cause{classify.EndpointMethodBlocked}, causes(CompareHead(w.Head(t.Context(), reply(403, nil, nil), d), plain)))
}

func TestTouchModes(t *testing.T) {
	t.Parallel()
	m := &Manifest{Config: Descriptor{Digest: "c", Size: 1 << 20}, Layers: []Descriptor{{Digest: "a", Size: 1 << 20}, {Digest: "b", Size: 2 << 20}, {Digest: "a", Size: 1 << 20}, {Digest: "d", Size: 100}}}
	assert.Equal(t, []Mode{First64K, Ranged64K, First64K, First64K}, m.TouchModes())
	assert.Equal(t, []Mode{First64K}, (&Manifest{}).TouchModes())
	assert.Empty(t, (&Manifest{Index: true}).TouchModes())
}

// drip gives a few bytes a second.
type drip struct{ left int }

func (d *drip) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Second)
	n := min(1000, d.left, len(p))
	d.left -= n
	return n, nil
}

func TestSlowIsAWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWalk(t, image)
		d := Descriptor{Digest: sum(string(make([]byte, 20_000))), Size: 20_000}
		r := w.Blob(t.Context(), reply(200, nil, &drip{20_000}), d, Whole)
		assert.True(t, r.Complete)
		assert.Contains(t, causes(r.Findings()), classify.EndpointDownloadSlow)
		assert.EqualValues(t, 1000, r.BytesPerSecond)
	})
}
