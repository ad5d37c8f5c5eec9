package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

const (
	// copyBuffer is what one read may bring. A smaller one costs a tenth more time in
	// wake-ups, a larger one no less, measured at 1 GiB over loopback.
	copyBuffer = 512 << 10
	// maxUnsized bounds a blob whose descriptor says no size.
	maxUnsized = 1 << 30
	// maxResumes bounds how often one blob is resumed. Containerd goes on as long as
	// attempts bring bytes, and three times when they do not
	// (core/remotes/docker/httpreadseeker.go); five breaks in one blob are a finding,
	// however far it got.
	maxResumes = 5
	slowRate   = 256 << 10        // bytes per second
	slowTime   = 10 * time.Second // before a rate says anything
)

// download streams one blob through its hash.
type download struct {
	want         Digest
	d            Descriptor
	resumesReset bool // the runtime resumes after a reset
	mode         Mode
	part         *part // nil = from the start
	skip         int64
	onBytes      func(int64)
	start        time.Time
	last         time.Time // when the last bytes came; zero = none did
}

// limit is how many bytes are read before the blob is judged. Whole blobs are read to one
// byte beyond their size, which shows a body that does not end.
func (dl *download) limit() int64 {
	size := dl.d.Size
	switch {
	case dl.mode != Whole && (size == 0 || size > firstBytes):
		return firstBytes
	case size == 0:
		return maxUnsized
	}
	return size + 1
}

func (dl *download) read(ctx context.Context, r *Report, resp *http.Response) {
	p := dl.part
	if p == nil {
		p = &part{h: dl.want.hash()}
	}
	limit, skip := dl.limit(), dl.skip
	buf := make([]byte, min(limit, copyBuffer))
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
		cut := min(skip, int64(n))
		fresh := buf[cut:n]
		skip -= cut
		r.Bytes += int64(len(fresh))
		p.h.Write(fresh)
		if dl.onBytes != nil {
			dl.onBytes(int64(n))
		}
	}
	dl.judge(ctx, r, resp, p, err)
	dl.rate(r)
}

func (dl *download) judge(ctx context.Context, r *Report, resp *http.Response, p *part, err error) {
	size := dl.d.Size
	switch {
	case err != nil && err != io.EOF:
		dl.broken(ctx, r, p, err)
	case size > 0 && r.Bytes > size:
		r.wrongSize(dl.d, "more")
	case err == nil && dl.mode != Whole: // the limit was reached first
		r.Outcome = OutcomeHeld
		if dl.mode == Ranged64K && r.Status == http.StatusPartialContent {
			// The body is known to end here: read its end, so that the connection is used
			// again.
			_, _ = resp.Body.Read(make([]byte, 1))
		}
	case err == nil:
		r.Unknown("the blob's size is not known and the blob is larger than 1 GiB")
	case dl.mode == Ranged64K && r.Status == http.StatusPartialContent && r.Bytes == firstBytes:
		r.Outcome = OutcomeHeld
	case size > 0 && r.Bytes < size && len(resp.TransferEncoding) > 0:
		// Chunked coding has an end of its own: the sender meant to stop here.
		r.wrongSize(dl.d, fmt.Sprintf("%d bytes", r.Bytes))
	case size > 0 && r.Bytes < size:
		dl.broken(ctx, r, p, io.ErrUnexpectedEOF)
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

// broken judges a download that broke off, and keeps what arrived where the runtimes would
// ask for the rest: after an end that came too early, and some of them after a reset. A
// stall is waited for by all of them, not resumed.
func (dl *download) broken(ctx context.Context, r *Report, p *part, err error) {
	r.Broken(ctx, classify.StageBody, err, dl.facts(r)...)
	resumes := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) && dl.resumesReset
	if r.Outcome == OutcomeFailed && dl.mode == Whole && dl.d.Size > 0 && resumes && p.tries < maxResumes {
		r.rest = &part{h: p.h, n: r.Bytes, tries: p.tries}
	}
}

// Resumable reports whether a download in mode [Whole] broke off in a way after which the
// runtime would ask for the rest, see [Walk.Resume].
func (r *Report) Resumable() bool { return r.rest != nil }

// Superseded takes the findings of a broken download back where a later request carries
// them: the report that it ended with says what became of it.
func (r *Report) Superseded(by *Report) {
	if by.Outcome == OutcomeFailed || by.Outcome == OutcomeHeld || by.Outcome == OutcomeRedirect {
		r.Found, r.Outcome = nil, OutcomeNotNeeded
	}
}

// interrupted leaves a warning at a blob that came whole in several pieces.
func (dl *download) interrupted(r *Report) {
	if dl.part == nil {
		return
	}
	times := "once"
	if dl.part.tries > 1 {
		times = strconv.Itoa(dl.part.tries) + " times"
	}
	r.Warn(classify.New(classify.EndpointDownloadInterrupted,
		fmt.Sprintf("the download of %s broke off %s and was resumed, the last time at byte %d", dl.d.Digest, times, dl.part.n), dl.facts(r)...))
}

// rate measures a download, and warns of one that is very slow and has not failed
// otherwise. Runtimes have no lower limit as long as bytes come, so it is no failure.
func (dl *download) rate(r *Report) {
	elapsed := time.Since(dl.start)
	if r.Outcome == OutcomeFailed && !dl.last.IsZero() {
		elapsed = dl.last.Sub(dl.start)
	}
	n := r.Bytes - r.Offset
	if dl.mode != Whole || elapsed < time.Second {
		return
	}
	r.BytesPerSecond = int64(float64(n) / elapsed.Seconds())
	if elapsed < slowTime || r.BytesPerSecond >= slowRate || r.Outcome == OutcomeFailed || n == 0 {
		return
	}
	left := ""
	if rest := dl.d.Size - r.Bytes; rest > 0 && r.BytesPerSecond > 0 {
		left = fmt.Sprintf(", the rest would take %v", (time.Duration(rest/r.BytesPerSecond) * time.Second).Round(time.Second))
	}
	r.Warn(classify.New(classify.EndpointDownloadSlow,
		fmt.Sprintf("%s sends %s at %d bytes per second%s", r.Endpoint, dl.d.Digest, r.BytesPerSecond, left),
		append(dl.facts(r), classify.Fact{Key: classify.FactElapsed, Value: elapsed.Round(time.Millisecond).String()})...))
}

func (dl *download) facts(r *Report) []classify.Fact {
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
