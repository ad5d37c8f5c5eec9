package registry

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

func chunked(body io.Reader) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := reply(200, nil, body)(req)
		resp.TransferEncoding = []string{"chunked"}
		return resp, err
	}
}

func TestBlob(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789abcdef", 10<<10) // 160 KiB
	small := "layer"
	s512 := sha512.Sum512([]byte(small))
	bigD, smallD := Descriptor{Digest: sum(big), Size: int64(len(big))}, Descriptor{Digest: sum(small), Size: 5}
	stalled := &classify.StageError{Stage: classify.StageBody, Limit: 15e9, Err: context.DeadlineExceeded}
	for _, tt := range []struct {
		name     string
		d        Descriptor
		mode     Mode
		rt       roundTrip
		outcome  Outcome
		complete bool
		bytes    int64
		causes   []classify.Cause
	}{
		{"whole", bigD, Whole, reply(200, nil, big), OutcomeHeld, true, 160 << 10, nil},
		{"whole without length", bigD, Whole, reply(200, nil, strings.NewReader(big)), OutcomeHeld, true, 160 << 10, nil},
		{"first bytes", bigD, First64K, reply(200, nil, big), OutcomeHeld, false, 64 << 10, nil},
		{"first bytes of a small one", smallD, First64K, reply(200, nil, small), OutcomeHeld, true, 5, nil},
		{"size not said", Descriptor{Digest: sum(big)}, Whole, reply(200, nil, big), OutcomeHeld, true, 160 << 10, nil},
		{"size not said, small, first", Descriptor{Digest: sum(small)}, First64K, reply(200, nil, small), OutcomeHeld, true, 5, nil},
		{"sha512", Descriptor{Digest: "sha512:" + hex.EncodeToString(s512[:]), Size: 5}, Whole, reply(200, nil, small), OutcomeHeld, true, 5, nil},
		{"corrupt", Descriptor{Digest: sum("lazer"), Size: 5}, Whole, reply(200, nil, small), OutcomeFailed, false, 5, []classify.Cause{classify.ImageDigestMismatch}},
		{"corrupt, first bytes", Descriptor{Digest: sum("lazer"), Size: 5}, First64K, reply(200, nil, small), OutcomeFailed, false, 5, []classify.Cause{classify.ImageDigestMismatch}},
		{"length that lies", Descriptor{Digest: sum(small), Size: 4}, Whole, reply(200, nil, small), OutcomeFailed, false, 0, []classify.Cause{classify.ImageSizeMismatch}},
		{"endless", smallD, Whole, reply(200, nil, endless{}), OutcomeFailed, false, 6, []classify.Cause{classify.ImageSizeMismatch}},
		{"endless, first bytes", bigD, First64K, reply(200, nil, endless{}), OutcomeHeld, false, 64 << 10, nil},
		{"ends early", bigD, Whole, reply(200, nil, strings.NewReader(big[:100])), OutcomeFailed, false, 100, []classify.Cause{classify.EndpointDownloadInterrupted}},
		{"ends early, first bytes", bigD, First64K, reply(200, nil, strings.NewReader(big[:100])), OutcomeFailed, false, 100, []classify.Cause{classify.EndpointDownloadInterrupted}},
		{"ends early as meant", bigD, Whole, chunked(strings.NewReader(big[:100])), OutcomeFailed, false, 100, []classify.Cause{classify.ImageSizeMismatch}},
		{"breaks off", bigD, Whole, reply(200, nil, io.MultiReader(strings.NewReader(big[:100]), broken{io.ErrUnexpectedEOF})), OutcomeFailed, false, 100, []classify.Cause{classify.EndpointDownloadInterrupted}},
		{"stalls", bigD, Whole, reply(200, nil, io.MultiReader(strings.NewReader(big[:100]), broken{stalled})), OutcomeFailed, false, 100, []classify.Cause{classify.EndpointDownloadStalled}},
		{"page by type", bigD, Whole, reply(200, header{"Content-Type": "text/html"}, "<html>"), OutcomeFailed, false, 0, []classify.Cause{classify.EndpointHTMLInsteadOfRegistry}},
		{"page by content", Descriptor{Digest: someDigest}, Whole, reply(200, nil, "<html><title>Blocked</title>"), OutcomeFailed, false, 0, []classify.Cause{classify.EndpointHTMLInsteadOfRegistry}},
		{"negative size", Descriptor{Digest: someDigest, Size: -1}, Whole, nil, OutcomeInconclusive, false, 0, nil},
	} {
		w := newWalk(t, image)
		var told int64
		w.OnBytes = func(n int64) { told += n }
		r := w.Blob(t.Context(), tt.rt, tt.d, tt.mode)
		assert.Equal(t, tt.outcome, r.Outcome, tt.name)
		assert.Equal(t, tt.complete, r.Complete, tt.name)
		assert.Equal(t, tt.bytes, r.Bytes, tt.name)
		assert.Equal(t, tt.bytes, told, tt.name)
		assert.Equal(t, tt.causes, causes(r.Findings()), tt.name)
		for _, f := range r.Findings() {
			assert.Equal(t, classify.OperationFetchBlob, f.Operation, tt.name)
			assert.Equal(t, "registry.corp.test", f.Endpoint, tt.name)
		}
	}
}

// A body that ignores its context must not keep the call.
func TestDownloadEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	w := newWalk(t, image)
	w.OnBytes = func(int64) { cancel(errors.New("budget ended")) }
	r := w.Blob(ctx, reply(200, nil, endless{}), Descriptor{Digest: someDigest, Size: 1 << 40}, Whole)
	assert.Equal(t, OutcomeInconclusive, r.Outcome)
	assert.Empty(t, r.Findings())
	assert.Less(t, r.Bytes, int64(1<<20))
}

// zeros is a body of n bytes that costs no memory.
type zeros struct{ n int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.n == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.n)
	clear(p[:n])
	z.n -= n
	return int(n), nil
}

func zeroDigest(t testing.TB, n int64) string {
	d := Digest{Algorithm: "sha256"}
	h := d.hash()
	_, err := io.Copy(h, &zeros{n})
	require.NoError(t, err)
	d.Sum = h.Sum(nil)
	return d.String()
}

func TestMemoryIsFlat(t *testing.T) {
	const size = 64 << 20
	w, d := newWalk(t, image), Descriptor{Digest: zeroDigest(t, size), Size: size}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := w.Blob(t.Context(), reply(200, nil, &zeros{size}), d, Whole)
	runtime.ReadMemStats(&after)
	require.True(t, r.Complete)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "bytes allocated for 64 MiB")
}

func BenchmarkWholeBlob(b *testing.B) {
	const size = 32 << 20
	w, d := newWalk(b, image), Descriptor{Digest: zeroDigest(b, size), Size: size}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if r := w.Blob(b.Context(), reply(200, nil, &zeros{size}), d, Whole); !r.Complete {
			b.Fatal(r.Findings())
		}
	}
}
