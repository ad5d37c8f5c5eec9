package registry

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/pullwalk/pullwalk/classify"
)

// CompareRange holds a request with a Range ([Ranged64K]) that failed against the
// same without one. Where that held, only the Range is refused: a warning, because
// runtimes send one when they resume.
func CompareRange(ranged, plain *Report) []classify.Finding {
	if ranged == nil || plain == nil || ranged.asked.ranged == "" || plain.asked.ranged != "" || ranged.Outcome != OutcomeFailed || !plain.Held() {
		return nil
	}
	f := rangeRefused(ranged, classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(ranged.Status)})
	if ranged.Status == 0 {
		f.Summary = ranged.Endpoint + " gives no answer to a request for a part of a blob, and serves the whole"
	}
	f.Severity, f.Endpoint, f.Operation = classify.SeverityWarn, ranged.Endpoint, ranged.Operation
	return []classify.Finding{f}
}

// TouchModes returns how to ask for the first bytes of each of [Manifest.Blobs],
// in the same order: the config and the largest layer as the runtime does
// ([First64K]), and the others with a Range, which spares a new connection and
// handshake for each. Layers of one image differ in size and digest, not in how
// they are served; the largest is the one most likely to meet a limit.
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

// Head asks for a blob by HEAD. No runtime needs it for a pull: hold a refusal
// against a GET with [CompareHead]. It shows a box that lets one method through
// only.
func (w *Walk) Head(ctx context.Context, rt http.RoundTripper, d Descriptor) *Report {
	a := blobAsk(d, First64K)
	a.method = http.MethodHead
	return w.blob(ctx, rt, w.url("blobs", d.Digest), d, a, 1)
}

// CompareHead holds the HEAD of a blob against its GET: a HEAD that is refused
// where GET is served gives endpoint.method-blocked, a warning; after a redirect
// for information only, because signed addresses often hold for one method. A HEAD
// without an answer gives nothing.
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
