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
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Resolve asks which manifest the reference means, as containerd does first: by HEAD, or by
// GET where the HEAD says that it must ([Report.NeedsGet]). The Digest of the report is
// what to ask [Walk.Manifest] for. A HEAD proves only what the server says of the manifest.
func (w *Walk) Resolve(ctx context.Context, rt http.RoundTripper, method string) *Report {
	s := spec{kind: kindResolve, method: method, accept: manifestAccept, digest: w.Reference.Digest}
	r, _ := w.manifest(ctx, rt, w.manifestURL(w.Reference.Identifier()), s, 1)
	return r
}

// Manifest gets a manifest or index by digest and believes it only after the digest was
// checked. mediaType is what its parent called it, "" if nothing did. The Manifest is nil
// unless its content can be used; it is also there when the report is inconclusive for
// having too many layers, and then holds the first of them.
func (w *Walk) Manifest(ctx context.Context, rt http.RoundTripper, digest, mediaType string) (*Report, *Manifest) {
	s := spec{kind: kindManifest, method: http.MethodGet, accept: manifestAccept, digest: digest}
	if mediaType != "" {
		s.mediaType, s.accept = mediaType, mediaType+", */*"
	}
	return w.manifest(ctx, rt, w.manifestURL(digest), s, 1)
}

// FollowManifest makes the next request of a [Walk.Ping], [Walk.Resolve] or [Walk.Manifest]
// that was redirected, with a Manifest where that one has it.
func (w *Walk) FollowManifest(ctx context.Context, rt http.RoundTripper, prev *Report) (*Report, *Manifest) {
	switch {
	case prev == nil || prev.redirect == nil || prev.spec.kind == kindBlob:
		return notAsked(spec{kind: kindManifest, method: http.MethodGet}, "the request before this one was not redirected"), nil
	case prev.spec.kind == kindPing:
		return w.ping(ctx, rt, prev.redirect, prev.Hop+1), nil
	}
	return w.manifest(ctx, rt, prev.redirect, prev.spec, prev.Hop+1)
}

// manifest makes one manifest request and judges what came.
func (w *Walk) manifest(ctx context.Context, rt http.RoundTripper, u *url.URL, s spec, hop int) (*Report, *Manifest) {
	if s.digest != "" {
		if _, err := ParseDigest(s.digest); err != nil {
			return notAsked(s, "not asked: "+err.Error()), nil
		}
	}
	start := time.Now()
	r, resp := w.send(ctx, rt, u, s, hop)
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
	if s.digest == "" && announced != "" {
		if _, err := ParseDigest(announced); err != nil {
			r.Fail(classify.New(classify.EndpointMalformedResponse,
				fmt.Sprintf("%s announces a digest that is none: %s", u.Host, err), classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(r.Status)}))
			return r, nil
		}
		r.Digest = announced
	}
	r.Size = max(resp.ContentLength, 0)
	switch {
	case resp.ContentLength > MaxManifest:
		r.tooLarge(fmt.Sprintf("%d bytes", resp.ContentLength))
	case r.Method == http.MethodHead:
		r.described(resp)
	default:
		if body, ok := r.readManifest(ctx, resp); ok {
			return r, w.judgeManifest(r, resp, body)
		}
	}
	return r, nil
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

// announcedType is how containerd reads a Content-Type: plain text is what some old
// registries called schema 1.
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

// tooLarge ends a report about a manifest that containerd would refuse too, at a limit
// close to ours.
func (r *Report) tooLarge(size string) {
	r.Warn(classify.New(classify.EndpointResponseTooLarge, fmt.Sprintf("%s offers a manifest of %s; more than 4 MiB are not read", r.Endpoint, size),
		classify.Fact{Key: classify.FactLimit, Value: strconv.Itoa(MaxManifest)}))
	r.Unknown("the manifest is larger than 4 MiB")
}

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

// judgeManifest checks digest, syntax and kind, in this order: nothing is believed of a
// body whose digest is wrong.
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
	if got, ok := want.verify(h); !ok {
		r.Fail(mismatch("manifest", r.Endpoint, r.Digest, got, r.Bytes))
		return nil
	}
	r.Complete = true
	m, more, err := parseManifest(body, r.spec.mediaType, r.MediaType)
	var unsupported *unsupportedTypeError
	switch {
	case errors.As(err, &unsupported):
		r.unsupported(unsupported)
		return nil
	case errors.Is(err, errTooManyEntries):
		r.Unknown(err.Error())
		return nil
	case err != nil:
		r.Fail(classify.New(classify.ImageManifestInvalid, fmt.Sprintf("the manifest %s at %s is broken: %s", r.Digest, r.Endpoint, err),
			classify.Fact{Key: classify.FactDigest, Value: r.Digest}))
		return nil
	case r.spec.kind == kindResolve && !isManifestType(r.MediaType):
		// Containerd goes by the header alone when it resolves a tag, and would look for
		// this manifest among the blobs.
		r.unsupported(announcedType(r.MediaType))
		return nil
	}
	m.Digest = r.Digest
	r.Outcome = OutcomeHeld
	w.limitLayers(r, m, more)
	for _, l := range m.Layers {
		if len(l.URLs) > 0 {
			f := classify.New(classify.EndpointForeignLayerURL, fmt.Sprintf("layer %s names a place of its own, %s, which is asked before the registry", l.Digest, l.URLs[0]),
				classify.Fact{Key: classify.FactURL, Value: l.URLs[0]}, classify.Fact{Key: classify.FactDigest, Value: l.Digest})
			f.Severity = classify.SeverityInfo
			r.Add(f)
		}
	}
	return m
}

// limitLayers keeps the layers that are looked at.
func (w *Walk) limitLayers(r *Report, m *Manifest, more bool) {
	limit := w.MaxLayers
	if limit <= 0 {
		limit = defaultMaxLayers
	}
	if len(m.Layers) <= limit && !more {
		return
	}
	n := strconv.Itoa(len(m.Layers))
	if more {
		n = "more than " + n
	}
	m.Layers = m.Layers[:min(limit, len(m.Layers))]
	r.Warn(classify.New(classify.ImageTooManyLayers, fmt.Sprintf("the image has %s layers, of which %d are looked at; overlay file systems do not stack more than 128", n, limit),
		classify.Fact{Key: classify.FactDigest, Value: m.Digest}, classify.Fact{Key: classify.FactLimit, Value: strconv.Itoa(limit)}))
	r.Unknown(fmt.Sprintf("only %d of %s layers are looked at", limit, n))
}
