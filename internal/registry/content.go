package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// manifest makes one manifest request and judges what came.
func (w *Walk) manifest(ctx context.Context, rt http.RoundTripper, u *url.URL, a ask, hop int) (*Report, *Manifest) {
	if a.digest != "" {
		if _, err := ParseDigest(a.digest); err != nil {
			r := notRedirected(a)
			r.Unknown("not asked: " + err.Error())
			return r, nil
		}
	}
	start := time.Now()
	r, resp := w.send(ctx, rt, u, a, hop)
	if resp == nil {
		return r, nil
	}
	defer func() { r.ElapsedMS = time.Since(start).Milliseconds() }()
	if isPage(r.MediaType, nil) {
		r.page(resp)
		return r, nil
	}
	defer resp.Body.Close()
	announced := resp.Header.Get("Docker-Content-Digest")
	if a.digest == "" && announced != "" {
		if _, err := ParseDigest(announced); err != nil {
			r.Fail(classify.New(classify.EndpointMalformedResponse,
				fmt.Sprintf("%s announces a digest that is none: %s", u.Host, err), classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(r.Status)}))
			return r, nil
		}
		r.Digest = announced
	}
	r.Size = max(resp.ContentLength, 0)
	if resp.ContentLength > MaxManifest {
		r.tooLarge(fmt.Sprintf("%d bytes", resp.ContentLength))
		return r, nil
	}
	if r.Method == http.MethodHead {
		r.described(resp)
		return r, nil
	}
	body, ok := r.readManifest(ctx, resp)
	if !ok {
		return r, nil
	}
	return r, w.judgeManifest(r, resp, body)
}

// described judges the answer to a HEAD.
func (r *Report) described(resp *http.Response) {
	switch {
	case r.Digest == "" || resp.ContentLength < 0:
		r.Outcome = OutcomeNeedsGet // containerd gets the manifest then (resolver.go, Resolve)
	case !isManifestType(r.MediaType):
		r.unsupported(announcedType(r.MediaType))
	default:
		r.Outcome = OutcomeHeld
	}
}

// announcedType is how containerd reads a Content-Type: plain text is what some
// old registries called schema 1.
func announcedType(mediaType string) *unsupportedTypeError {
	if mediaType == "text/plain" {
		mediaType = typeSchema1
	}
	return &unsupportedTypeError{mediaType}
}

func (r *Report) unsupported(err *unsupportedTypeError) {
	r.Fail(classify.New(classify.ImageUnsupportedMediaType, fmt.Sprintf("what %s has under this name cannot be pulled: %s", r.Endpoint, err),
		classify.Fact{Key: classify.FactGot, Value: classify.Redact(err.mediaType, 128)}))
}

// tooLarge ends a report about a manifest that containerd would refuse too, at
// a limit close to ours.
func (r *Report) tooLarge(what string) {
	r.warn(classify.New(classify.EndpointResponseTooLarge, fmt.Sprintf("%s offers a manifest of %s; more than 4 MiB are not read", r.Endpoint, what),
		classify.Fact{Key: classify.FactLimit, Value: strconv.Itoa(MaxManifest)}))
	r.Unknown("the manifest is larger than 4 MiB")
}

// readManifest reads a manifest's body, at most 4 MiB of it.
func (r *Report) readManifest(ctx context.Context, resp *http.Response) ([]byte, bool) {
	if r.coded(resp) {
		return nil, false
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxManifest+1))
	r.Bytes = int64(len(body))
	switch {
	case err != nil:
		r.Broken(ctx, classify.StageBody, err)
		return nil, false
	case len(body) > MaxManifest:
		r.tooLarge("more than 4 MiB")
		return nil, false
	}
	return body, true
}

// coded ends a report whose content is encoded although identity was asked for:
// some runtimes decode it, some do not, and the bytes in hand prove nothing.
func (r *Report) coded(resp *http.Response) bool {
	coding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding")))
	if coding == "" || coding == "identity" {
		return false
	}
	r.Unknown("the content came with the encoding " + classify.Redact(coding, 32) + ", so its digest cannot be checked")
	return true
}

// judgeManifest checks digest, syntax and kind, in this order: nothing is
// believed of a body whose digest is wrong.
func (w *Walk) judgeManifest(r *Report, resp *http.Response, body []byte) *Manifest {
	if isPage("", body) {
		resp.Body = io.NopCloser(bytes.NewReader(body))
		r.page(resp)
		return nil
	}
	r.Size = int64(len(body))
	if r.Digest == "" {
		r.Digest = sha256Of(body).String()
	}
	want, err := ParseDigest(r.Digest)
	if err != nil {
		r.Unknown("not checked: " + err.Error())
		return nil
	}
	h := want.hash()
	h.Write(body)
	got, ok := want.verify(h)
	if !ok {
		r.Fail(mismatch("manifest", r.Endpoint, r.Digest, got, r.Bytes))
		return nil
	}
	r.Complete = true
	m, err := parseManifest(body, r.asked.expect, r.MediaType)
	var unsupported *unsupportedTypeError
	switch {
	case errors.As(err, &unsupported):
		r.unsupported(unsupported)
		return nil
	case err != nil:
		r.Fail(classify.New(classify.ImageManifestInvalid, fmt.Sprintf("the manifest %s at %s is broken: %s", r.Digest, r.Endpoint, err),
			classify.Fact{Key: classify.FactDigest, Value: r.Digest}))
		return nil
	case r.asked.kind == askResolve && !isManifestType(r.MediaType):
		// Containerd goes by the header alone when it resolves a tag, and would
		// look for this manifest among the blobs.
		r.unsupported(announcedType(r.MediaType))
		return nil
	}
	m.Digest = r.Digest
	r.Outcome = OutcomeHeld
	w.sane(r, m)
	return m
}

// sane notes what is odd in a manifest that is valid.
func (w *Walk) sane(r *Report, m *Manifest) {
	limit := w.MaxLayers
	if limit <= 0 {
		limit = defaultMaxLayers
	}
	if n := len(m.Layers); n > limit {
		m.Layers = m.Layers[:limit]
		r.warn(classify.New(classify.ImageTooManyLayers, fmt.Sprintf("the image has %d layers, of which %d are looked at; overlay file systems do not stack more than 128", n, limit),
			classify.Fact{Key: classify.FactDigest, Value: m.Digest}, classify.Fact{Key: classify.FactLimit, Value: strconv.Itoa(limit)}))
		r.Unknown(fmt.Sprintf("only %d of %d layers are looked at", limit, n))
	}
	for _, l := range m.Layers {
		if len(l.URLs) > 0 {
			f := classify.New(classify.EndpointForeignLayerURL, fmt.Sprintf("layer %s names a place of its own, %s, which is asked before the registry", l.Digest, l.URLs[0]),
				classify.Fact{Key: classify.FactURL, Value: l.URLs[0]}, classify.Fact{Key: classify.FactDigest, Value: l.Digest})
			f.Severity = classify.SeverityInfo
			r.add(f)
		}
	}
}

func mismatch(what, endpoint, want, got string, n int64) classify.Finding {
	return classify.New(classify.ImageDigestMismatch,
		fmt.Sprintf("the %s that %s sent is not the one asked for: %s was expected, the %d bytes are %s", what, endpoint, want, n, got),
		classify.Fact{Key: classify.FactDigest, Value: want}, classify.Fact{Key: classify.FactGot, Value: got})
}

// isPage recognises a web page by its type or by how it begins.
func isPage(mediaType string, body []byte) bool {
	if mediaType == "text/html" || mediaType == "application/xhtml+xml" {
		return true
	}
	start := bytes.ToLower(bytes.TrimSpace(body[:min(len(body), 256)]))
	return bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html"))
}

// page judges a web page in the place of content; it closes the body.
func (r *Report) page(resp *http.Response) {
	answer := ReadAnswer(resp, r.Operation)
	r.Answerer, r.Message = AnswererHTML, answer.Message
	words := ""
	if r.Message != "" {
		words = fmt.Sprintf(" titled %q", r.Message)
	}
	r.Fail(classify.New(classify.EndpointHTMLInsteadOfRegistry,
		fmt.Sprintf("%s answered %d with a web page%s: a portal, a proxy's block page or a login form stands where content was expected", r.Endpoint, r.Status, words),
		classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(r.Status)},
		classify.Fact{Key: classify.FactAnswerer, Value: AnswererHTML},
		classify.Fact{Key: classify.FactMessage, Value: r.Message}))
}
