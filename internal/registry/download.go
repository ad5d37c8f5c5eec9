package registry

import (
	"bytes"
	"context"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Mode says how much of a blob is read.
type Mode int

// The modes.
const (
	// First64K reads the first 64 KiB and closes. The request is the runtime's
	// own, without a Range, so that it is allowed or refused like the runtime's.
	// A blob that fits is read whole and its digest is checked.
	First64K Mode = iota
	// Whole reads every byte and checks the digest. Memory does not grow with
	// the blob.
	Whole
	// Ranged64K asks for the first 64 KiB with a Range, which leaves the connection
	// free for the next request. Runtimes ask so only when they resume, so it is
	// for what is like a blob that First64K has been tried on; see
	// [Manifest.TouchModes].
	Ranged64K
)

const (
	firstBytes = 64 << 10
	// copyBuffer is what one read may bring. A smaller one costs a tenth more time
	// in wake-ups, a larger one no less, measured at 1 GiB over loopback.
	copyBuffer = 512 << 10
	// maxUnsized bounds a blob whose descriptor says no size.
	maxUnsized = 1 << 30
)

// Blob asks the source for a blob. On 200 the bytes come from here; a redirect
// is reported and not followed, see [Report.Redirect] and [Walk.Follow].
func (w *Walk) Blob(ctx context.Context, rt http.RoundTripper, d Descriptor, mode Mode) *Report {
	return w.blob(ctx, rt, w.url("blobs", d.Digest), d, blobAsk(d, mode), 1)
}

// Follow takes the next hop of a blob to where prev was redirected, without
// Authorization: a signed URL grants by itself, and a credential has no business
// at another host. Where the runtime would have sent one and the answer is 401
// or 403, the report is inconclusive. After [MaxRequests] requests in all, the
// last report is a failure instead of a redirect.
//
// A request for a part (Ranged64K, [Walk.Resume]) and a HEAD stay what they were,
// whatever mode says.
func (w *Walk) Follow(ctx context.Context, rt http.RoundTripper, prev *Report, d Descriptor, mode Mode) *Report {
	if prev != nil && prev.redirect != nil && prev.asked.kind != askBlob {
		r, _ := w.FollowManifest(ctx, rt, prev)
		return r
	}
	if prev == nil || prev.redirect == nil {
		return notRedirected(ask{kind: askBlob, method: http.MethodGet})
	}
	a := prev.asked
	if a.method != http.MethodHead && a.mode != Ranged64K && a.part == nil {
		a.mode = mode
	}
	return w.blob(ctx, rt, prev.redirect, d, a, prev.Hop+1)
}

func blobAsk(d Descriptor, mode Mode) ask {
	a := ask{kind: askBlob, method: http.MethodGet, accept: "*/*", digest: d.Digest, mode: mode}
	if d.MediaType != "" {
		a.accept = d.MediaType + ", */*"
	}
	if mode == Ranged64K {
		a.ranged = fmt.Sprintf("bytes=0-%d", firstBytes-1)
	}
	return a
}

func (w *Walk) blob(ctx context.Context, rt http.RoundTripper, u *url.URL, d Descriptor, a ask, hop int) *Report {
	return w.foreignRefused(w.fetch(ctx, rt, u, d, a, hop))
}

func (w *Walk) fetch(ctx context.Context, rt http.RoundTripper, u *url.URL, d Descriptor, a ask, hop int) *Report {
	want, err := ParseDigest(d.Digest)
	if err != nil || d.Size < 0 {
		r := notRedirected(a)
		r.Unknown("not asked: the descriptor has no usable digest and size")
		return r
	}
	start := time.Now()
	r, resp := w.send(ctx, rt, u, a, hop)
	r.Size = d.Size
	if a.part != nil {
		r.Offset, r.Bytes = a.part.n, a.part.n
	}
	if resp == nil {
		w.partRefused(r)
		return r
	}
	defer func() { r.ElapsedMS = time.Since(start).Milliseconds() }()
	if isPage(r.MediaType, nil) && r.MediaType != d.MediaType {
		r.page(resp)
		return r
	}
	defer resp.Body.Close()
	if r.coded(resp) {
		return r
	}
	whole, ok := r.ranged(resp)
	if !ok {
		return r
	}
	if n := resp.ContentLength; whole && n >= 0 && d.Size > 0 && n != d.Size {
		r.wrongSize(d, fmt.Sprintf("%d bytes", n))
		return r
	}
	if a.method == http.MethodHead {
		r.Outcome = OutcomeHeld
		return r
	}
	dl := download{want: want, d: d, client: w.Client, mode: a.mode, part: a.part, onBytes: w.OnBytes, start: start}
	if whole && a.part != nil {
		dl.skip = a.part.n // the whole blob once more: what is in hand is passed over
	}
	dl.read(ctx, r, resp)
	return r
}

// part is a blob of which the first n bytes were read and hashed.
type part struct {
	h     hash.Hash
	n     int64
	tries int // how often it was resumed
}

// download streams one blob through its hash.
type download struct {
	want    Digest
	d       Descriptor
	client  Client
	mode    Mode
	part    *part // nil = from the start
	skip    int64
	onBytes func(int64)
	start   time.Time
	last    time.Time // when the last bytes came; zero = none did
}

// limit is how many bytes are read before the blob is judged. Whole blobs are
// read to one byte beyond their size, which shows a body that does not end.
func (dl download) limit() int64 {
	size := dl.d.Size
	switch {
	case dl.mode != Whole && (size == 0 || size > firstBytes):
		return firstBytes
	case size == 0:
		return maxUnsized
	}
	return size + 1
}

func (dl download) read(ctx context.Context, r *Report, resp *http.Response) {
	p := dl.part
	if p == nil {
		p = &part{h: dl.want.hash()}
	}
	limit := dl.limit()
	buf := make([]byte, min(limit, copyBuffer))
	skip := dl.skip
	var err error
	for err == nil && r.Bytes < limit {
		if ctx.Err() != nil { // a body need not know the context
			err = context.Cause(ctx)
			break
		}
		var n int
		n, err = resp.Body.Read(buf[:min(limit-r.Bytes+skip, int64(len(buf)))])
		if n <= 0 {
			continue
		}
		if r.Bytes == 0 && isPage("", buf[:n]) && !isPage(dl.d.MediaType, nil) {
			resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(slices.Clone(buf[:n])), resp.Body))
			r.page(resp)
			return
		}
		dl.last = time.Now()
		fresh := buf[:n]
		if skip > 0 {
			cut := min(skip, int64(n))
			fresh, skip = fresh[cut:], skip-cut
		}
		r.Bytes += int64(len(fresh))
		p.h.Write(fresh)
		if dl.onBytes != nil {
			dl.onBytes(int64(n))
		}
	}
	dl.judge(ctx, r, resp, p, err)
}

func (dl download) judge(ctx context.Context, r *Report, resp *http.Response, p *part, err error) {
	size := dl.d.Size
	defer dl.rate(r)
	switch {
	case err != nil && err != io.EOF:
		r.Broken(ctx, classify.StageBody, err, dl.facts(r)...)
		dl.keep(r, p, err)
	case size > 0 && r.Bytes > size:
		r.wrongSize(dl.d, "more")
	case err == nil && dl.mode != Whole: // the limit was reached first
		r.Outcome = OutcomeHeld
		if dl.mode == Ranged64K && r.Status == http.StatusPartialContent {
			drain(resp) // the connection is worth more than the look for one byte too many
		}
	case err == nil:
		r.Unknown("the blob's size is not known and the blob is larger than 1 GiB")
	case dl.mode == Ranged64K && r.Status == http.StatusPartialContent && r.Bytes == firstBytes:
		r.Outcome = OutcomeHeld
	case size > 0 && r.Bytes < size && len(resp.TransferEncoding) > 0:
		// Chunked coding has an end of its own: the sender meant to stop here.
		r.wrongSize(dl.d, fmt.Sprintf("%d bytes", r.Bytes))
	case size > 0 && r.Bytes < size:
		r.Broken(ctx, classify.StageBody, io.ErrUnexpectedEOF, dl.facts(r)...)
		dl.keep(r, p, io.ErrUnexpectedEOF)
	default:
		got, ok := dl.want.verify(p.h)
		if !ok {
			r.Fail(mismatch("blob", r.Endpoint, dl.d.Digest, got, r.Bytes))
			return
		}
		r.Complete, r.Outcome = true, OutcomeHeld
		dl.interrupted(r)
	}
}

// drain reads the end of a body that is known to have ended, so that the
// connection is used again.
func drain(resp *http.Response) { _, _ = resp.Body.Read(make([]byte, 1)) }

func (dl download) facts(r *Report) []classify.Fact {
	facts := []classify.Fact{
		{Key: classify.FactDigest, Value: dl.d.Digest},
		{Key: classify.FactGot, Value: strconv.FormatInt(r.Bytes, 10) + " bytes"},
	}
	if dl.d.Size > 0 {
		facts = append(facts, classify.Fact{Key: classify.FactSize, Value: strconv.FormatInt(dl.d.Size, 10)})
	}
	// Until the last byte: the wait for more is no part of a rate.
	if n, took := r.Bytes-r.Offset, dl.last.Sub(dl.start); n > 0 && !dl.last.IsZero() && took >= time.Millisecond {
		facts = append(facts, classify.Fact{Key: classify.FactRate, Value: strconv.FormatInt(int64(float64(n)/took.Seconds()), 10)})
	}
	return facts
}

func (r *Report) wrongSize(d Descriptor, got string) {
	r.Fail(classify.New(classify.ImageSizeMismatch,
		fmt.Sprintf("the manifest says that %s has %d bytes, %s sends %s", d.Digest, d.Size, r.Endpoint, got),
		classify.Fact{Key: classify.FactDigest, Value: d.Digest},
		classify.Fact{Key: classify.FactSize, Value: strconv.FormatInt(d.Size, 10)},
		classify.Fact{Key: classify.FactGot, Value: got}))
}
