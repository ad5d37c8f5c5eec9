package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// maxResumes bounds how often one blob is resumed. Containerd goes on as long as
// attempts bring bytes, and three times when they do not
// (core/remotes/docker/httpreadseeker.go); five breaks in one blob are a finding,
// however far it got.
const maxResumes = 5

// Resumable says that a download in mode [Whole] broke off and that the runtimes
// would ask for the rest: after an end that came too early, and in the ways of
// CRI-O and docker after a reset. A stall is waited for by all of them, not resumed.
func (r *Report) Resumable() bool { return r.rest != nil }

// Resume asks the source for the rest of a blob whose download broke off, with a
// Range from the first byte that is missing. Like a [Walk.Blob] it may be
// redirected, and [Walk.Follow] takes it on. The report that it ends with takes
// the place of prev: when it completes, the break is left as a warning.
func (w *Walk) Resume(ctx context.Context, rt http.RoundTripper, prev *Report, d Descriptor) *Report {
	if prev == nil || prev.rest == nil {
		r := notRedirected(ask{kind: askBlob, method: http.MethodGet})
		r.Unknown("the request before this one cannot be resumed")
		return r
	}
	p := *prev.rest
	p.tries++
	a := blobAsk(d, Whole)
	a.part = &p
	if p.n > 0 {
		a.ranged = fmt.Sprintf("bytes=%d-", p.n)
	}
	prev.rest = nil // its hash goes on from here
	return w.blob(ctx, rt, w.url("blobs", d.Digest), d, a, 1)
}

// keep makes the report of a broken download one that can be resumed.
func (dl download) keep(r *Report, p *part, err error) {
	reset := errors.Is(err, syscall.ECONNRESET)
	cut := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
	if r.Outcome != OutcomeFailed || dl.mode != Whole || dl.d.Size == 0 || !cut && !(reset && dl.client.ResumesResets) || p.tries >= maxResumes {
		return
	}
	r.rest = &part{h: p.h, n: r.Bytes, tries: p.tries}
}

// Mended takes the findings of a broken download back where a later request
// carries them: the report that it ended with says what became of it.
func (r *Report) Mended(by *Report) {
	if by.Outcome == OutcomeFailed || by.Outcome == OutcomeHeld || by.Outcome == OutcomeRedirect {
		r.Found, r.Outcome = nil, OutcomeNotNeeded
	}
}

// interrupted leaves a warning at a blob that came whole in several pieces.
func (dl download) interrupted(r *Report) {
	if dl.part == nil {
		return
	}
	times := "once"
	if dl.part.tries > 1 {
		times = strconv.Itoa(dl.part.tries) + " times"
	}
	r.warn(classify.New(classify.EndpointDownloadInterrupted,
		fmt.Sprintf("the download of %s broke off %s and was resumed, the last time at byte %d", dl.d.Digest, times, dl.part.n), dl.facts(r)...))
}

const (
	slowRate = 256 << 10        // bytes per second
	slowTime = 10 * time.Second // before a rate says anything
)

// rate measures a download, and warns of one that is very slow and has not failed
// otherwise. Runtimes have no lower limit as long as bytes come, so it is no
// failure.
func (dl download) rate(r *Report) {
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
	left := "" // how long the rest takes at this rate
	if rest := dl.d.Size - r.Bytes; rest > 0 && r.BytesPerSecond > 0 {
		left = fmt.Sprintf(", the rest would take %v", (time.Duration(rest/r.BytesPerSecond) * time.Second).Round(time.Second))
	}
	r.warn(classify.New(classify.EndpointDownloadSlow,
		fmt.Sprintf("%s sends %s at %d bytes per second%s", r.Endpoint, dl.d.Digest, r.BytesPerSecond, left),
		append(dl.facts(r), classify.Fact{Key: classify.FactElapsed, Value: elapsed.Round(time.Millisecond).String()})...))
}

// ranged judges the answer to a Range, and says whether the body is the whole
// blob. An answer without a Range is whole; so is a 200 to one with, which RFC
// 9110, section 14.2, allows.
func (r *Report) ranged(resp *http.Response) (whole, ok bool) {
	if r.Status != http.StatusPartialContent {
		return true, true
	}
	from, _, _ := strings.Cut(strings.TrimPrefix(resp.Header.Get("Content-Range"), "bytes "), "-")
	if n, err := strconv.ParseInt(from, 10, 64); r.asked.ranged != "" && err == nil && n == r.Offset {
		return false, true
	}
	r.Fail(classify.New(classify.EndpointRangeRefused, fmt.Sprintf("%s answered 206 with another part than the one asked for", r.Endpoint),
		classify.Fact{Key: classify.FactStatus, Value: "206"}))
	return false, false
}

// partRefused names a refusal of the rest of a blob for what it is: the break
// stays the failure, and the refused Range is why nothing mends it.
func (w *Walk) partRefused(r *Report) {
	if r.asked.part == nil || r.Outcome != OutcomeFailed || r.Status < 400 {
		return
	}
	status := classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(r.Status)}
	r.Found = nil
	f := classify.New(classify.EndpointDownloadInterrupted,
		fmt.Sprintf("the download of %s broke off at byte %d, and %s refuses the rest with %d", r.Digest, r.Offset, r.Endpoint, r.Status), status)
	r.Fail(f)
	r.warn(rangeRefused(r, status))
}

func rangeRefused(r *Report, facts ...classify.Fact) classify.Finding {
	return classify.New(classify.EndpointRangeRefused, fmt.Sprintf("%s answered %d to a request for a part of a blob", r.Endpoint, r.Status), facts...)
}
