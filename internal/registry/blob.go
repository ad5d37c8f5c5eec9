package registry

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// TouchModes returns how to ask for the first bytes of each of [Manifest.Blobs], in the
// same order: the config and the largest layer as the runtime does, and the others with a
// Range, which spares a connection and a handshake for each. Layers of one image differ in
// size and digest, not in how they are served; the largest is the one most likely to meet a
// limit.
func (m *Manifest) TouchModes() []Mode {
	blobs := m.Blobs()
	modes := make([]Mode, len(blobs))
	if len(blobs) < 2 {
		return modes
	}
	largest := slices.MaxFunc(blobs[1:], func(a, b Descriptor) int { return int(min(max(a.Size-b.Size, -1), 1)) })
	for i := 1; i < len(blobs); i++ {
		if blobs[i].Digest != largest.Digest && blobs[i].Size > firstBytes {
			modes[i] = Ranged64K
		}
	}
	return modes
}

// Blob asks the source for a blob. A redirect is reported and not followed, see
// [Walk.Follow].
func (w *Walk) Blob(ctx context.Context, rt http.RoundTripper, d Descriptor, mode Mode) *Report {
	return w.blob(ctx, rt, w.blobURL(d.Digest), d, blobSpec(d, mode), 1)
}

// Follow makes the next request for a blob where prev was redirected, without
// Authorization: a signed URL grants by itself, and a credential has no business at another
// host. Where the runtime would have sent one and the answer is 401 or 403, the report is
// inconclusive. After [MaxRequests] requests in all, the last report is a failure in the
// place of a redirect.
//
// A request for a part (Ranged64K, [Walk.Resume]) and a HEAD stay what they were, whatever
// mode says.
func (w *Walk) Follow(ctx context.Context, rt http.RoundTripper, prev *Report, d Descriptor, mode Mode) *Report {
	if prev == nil || prev.redirect == nil {
		return notAsked(spec{kind: kindBlob, method: http.MethodGet}, "the request before this one was not redirected")
	}
	if prev.spec.kind != kindBlob {
		r, _ := w.FollowManifest(ctx, rt, prev)
		return r
	}
	s := prev.spec
	if s.method != http.MethodHead && s.mode != Ranged64K && s.part == nil {
		s.mode = mode
	}
	return w.blob(ctx, rt, prev.redirect, d, s, prev.Hop+1)
}

// Head asks for a blob by HEAD. No runtime needs that for a pull: compare a refusal with a
// GET by [CompareHead]. It shows a box that lets one method through only.
func (w *Walk) Head(ctx context.Context, rt http.RoundTripper, d Descriptor) *Report {
	s := blobSpec(d, First64K)
	s.method = http.MethodHead
	return w.blob(ctx, rt, w.blobURL(d.Digest), d, s, 1)
}

// Resume asks the source for the rest of a blob whose download broke off, from the first
// byte that is missing. It may be redirected like a [Walk.Blob]. The report that it ends
// with takes the place of prev, see [Report.Superseded]: when it completes, the break is
// left as a warning.
func (w *Walk) Resume(ctx context.Context, rt http.RoundTripper, prev *Report, d Descriptor) *Report {
	if prev == nil || prev.rest == nil {
		return notAsked(spec{kind: kindBlob, method: http.MethodGet}, "the request before this one cannot be resumed")
	}
	p := *prev.rest
	p.tries++
	s := blobSpec(d, Whole)
	s.part = &p
	if p.n > 0 {
		s.ranged = fmt.Sprintf("bytes=%d-", p.n)
	}
	prev.rest = nil // its hash goes on from here
	return w.blob(ctx, rt, w.blobURL(d.Digest), d, s, 1)
}

// Foreign asks one of a layer's [Descriptor.ForeignURLs] for it, without any Authorization;
// redirects are followed by [Walk.Follow]. The runtimes ask these places before the
// registry. Containerd goes to the next, and then to the registry, after a 404 and after
// nothing else (core/remotes/docker/fetcher.go); CRI-O goes to the next whatever the
// failure, and never to the registry (containers/image, docker_client.go). Where the
// runtime goes on, the report is a warning with OutcomeNotNeeded; else it fails.
//
// Containerd uses its default client there: the node's roots, and nothing of the registry's
// own settings. That is for the transport to follow.
func (w *Walk) Foreign(ctx context.Context, rt http.RoundTripper, u *url.URL, d Descriptor, mode Mode) *Report {
	s := blobSpec(d, mode)
	if u == nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil {
		return notAsked(s, "the layer's own place is no URL that can be asked")
	}
	s.foreign = true
	s.last = len(d.foreign) > 0 && d.foreign[len(d.foreign)-1].String() == u.String()
	return w.blob(ctx, rt, u, d, s, 1)
}

func blobSpec(d Descriptor, mode Mode) spec {
	s := spec{kind: kindBlob, method: http.MethodGet, accept: "*/*", digest: d.Digest, mode: mode}
	if d.MediaType != "" {
		s.accept = d.MediaType + ", */*"
	}
	if mode == Ranged64K {
		s.ranged = fmt.Sprintf("bytes=0-%d", firstBytes-1)
	}
	return s
}

func (w *Walk) blob(ctx context.Context, rt http.RoundTripper, u *url.URL, d Descriptor, s spec, hop int) *Report {
	r := w.fetch(ctx, rt, u, d, s, hop)
	if s.foreign && r.Outcome == OutcomeFailed {
		w.foreignRefused(r)
	}
	return r
}

func (w *Walk) fetch(ctx context.Context, rt http.RoundTripper, u *url.URL, d Descriptor, s spec, hop int) *Report {
	want, err := ParseDigest(d.Digest)
	if err != nil || d.Size < 0 {
		return notAsked(s, "not asked: the descriptor has no usable digest and size")
	}
	start := time.Now()
	r, resp := w.send(ctx, rt, u, s, hop)
	r.Size = d.Size
	if s.part != nil {
		r.Offset, r.Bytes = s.part.n, s.part.n
	}
	if resp == nil {
		r.restRefused()
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
	if s.method == http.MethodHead {
		r.Outcome = OutcomeHeld
		return r
	}
	dl := download{want: want, d: d, resumesReset: w.Client.ResumesResets, mode: s.mode, part: s.part, onBytes: w.OnBytes, start: start}
	if whole && s.part != nil {
		dl.skip = s.part.n // the whole blob once more: what is in hand is passed over
	}
	dl.read(ctx, r, resp)
	return r
}

// ranged judges the answer to a Range, and reports whether the body is the whole blob. An
// answer without a Range is whole; so is a 200 to one with, which RFC 9110, section 14.2,
// allows.
func (r *Report) ranged(resp *http.Response) (whole, ok bool) {
	if r.Status != http.StatusPartialContent {
		return true, true
	}
	from, _, _ := strings.Cut(strings.TrimPrefix(resp.Header.Get("Content-Range"), "bytes "), "-")
	if n, err := strconv.ParseInt(from, 10, 64); r.spec.ranged != "" && err == nil && n == r.Offset {
		return false, true
	}
	r.Fail(classify.New(classify.EndpointRangeRefused, fmt.Sprintf("%s answered 206 with another part than the one asked for", r.Endpoint),
		classify.Fact{Key: classify.FactStatus, Value: "206"}))
	return false, false
}

// restRefused names a refusal of the rest of a blob for what it is: the break stays the
// failure, and the refused Range is why nothing mends it.
func (r *Report) restRefused() {
	if r.spec.part == nil || r.Outcome != OutcomeFailed || r.Status < 400 {
		return
	}
	status := classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(r.Status)}
	r.Found = nil
	r.Fail(classify.New(classify.EndpointDownloadInterrupted,
		fmt.Sprintf("the download of %s broke off at byte %d, and %s refuses the rest with %d", r.Digest, r.Offset, r.Endpoint, r.Status), status))
	r.Warn(rangeRefused(r))
}

func rangeRefused(r *Report) classify.Finding {
	return classify.New(classify.EndpointRangeRefused, fmt.Sprintf("%s answered %d to a request for a part of a blob", r.Endpoint, r.Status),
		classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(r.Status)})
}

// foreignRefused judges a failure at a layer's own place.
func (w *Walk) foreignRefused(r *Report) {
	f := classify.New(classify.EndpointForeignLayerURL, fmt.Sprintf("layer %s is asked for at %s first, where it names a place of its own, and that fails", r.Digest, r.Endpoint),
		classify.Fact{Key: classify.FactURL, Value: r.URL}, classify.Fact{Key: classify.FactDigest, Value: r.Digest})
	goesOn, then := r.Status == http.StatusNotFound, "; containerd then asks the next place, the registry last"
	if w.Client.ForeignSettings {
		goesOn, then = !r.spec.last && r.Status != http.StatusOK, "; "+w.Client.name()+" then asks the next place"
	}
	if !goesOn {
		f.Summary += "; " + w.Client.name() + " does not ask elsewhere after that"
		r.Add(f)
		return
	}
	f.Summary += then
	r.Warn(f)
	r.notNeeded()
}

// CompareRange compares a request with a Range ([Ranged64K]) that failed with the same
// without one. Where that held, only the Range is refused: a warning, because runtimes send
// one when they resume.
func CompareRange(ranged, plain *Report) []classify.Finding {
	if ranged == nil || plain == nil || ranged.spec.ranged == "" || plain.spec.ranged != "" || ranged.Outcome != OutcomeFailed || !plain.Held() {
		return nil
	}
	f := rangeRefused(ranged)
	if ranged.Status == 0 {
		f.Summary = ranged.Endpoint + " gives no answer to a request for a part of a blob, and serves the whole"
	}
	f.Severity, f.Endpoint, f.Operation = classify.SeverityWarn, ranged.Endpoint, ranged.Operation
	return []classify.Finding{f}
}

// CompareHead compares the HEAD of a blob with its GET: a HEAD that is refused where GET is
// served gives endpoint.method-blocked, a warning; after a redirect for information only,
// because signed addresses often hold for one method. A HEAD without an answer gives
// nothing.
func CompareHead(head, get *Report) []classify.Finding {
	if head == nil || get == nil || head.Method != http.MethodHead || head.Outcome != OutcomeFailed || head.Status == 0 || !get.Held() {
		return nil
	}
	f := classify.New(classify.EndpointMethodBlocked, fmt.Sprintf("%s refuses HEAD of a blob (%d) and serves GET; a pull needs GET only", head.Endpoint, head.Status),
		classify.Fact{Key: classify.FactMethod, Value: http.MethodHead}, classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(head.Status)})
	f.Severity, f.Endpoint, f.Operation = classify.SeverityWarn, head.Endpoint, head.Operation
	if head.Hop > 1 {
		f.Severity = classify.SeverityInfo
	}
	return []classify.Finding{f}
}
