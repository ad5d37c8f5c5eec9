package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

func newWalk(t testing.TB, image string) *Walk {
	ref, err := ParseReference(image)
	require.NoError(t, err)
	return &Walk{Reference: ref}
}

const image = "registry.corp.test/team/app:1"

// oneLayer is a manifest with a config and a layer.
var oneLayer = `{"schemaVersion":2,"mediaType":"` + typeOCIManifest + `","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"` +
	sum("{}") + `","size":2},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"` + sum("layer") + `","size":5}]}`

func causes(fs []classify.Finding) (out []classify.Cause) {
	for _, f := range fs {
		out = append(out, f.Cause)
	}
	return out
}

func TestResolveByHead(t *testing.T) {
	t.Parallel()
	good := header{"Content-Type": typeOCIManifest, "Docker-Content-Digest": someDigest, "Content-Length": "512"}
	with := func(k, v string) header {
		h := header{k: v}
		for k, v := range good {
			if _, ok := h[k]; !ok {
				h[k] = v
			}
		}
		return h
	}
	bearer := header{"Www-Authenticate": `Bearer realm="https://auth.corp.test/token?secret=1",service="registry.corp.test",scope="repository:team/app:pull"`}
	for _, tt := range []struct {
		name    string
		rt      roundTrip
		outcome Outcome
		causes  []classify.Cause
		get     bool
	}{
		{"described", reply(200, good, nil), OutcomeHeld, nil, false},
		{"no digest", reply(200, with("Docker-Content-Digest", ""), nil), OutcomeNeedsGet, nil, true},
		{"no length", reply(200, header{"Content-Type": typeOCIManifest, "Docker-Content-Digest": someDigest, "Content-Length": "-1"}, nil), OutcomeNeedsGet, nil, true},
		{"digest that is none", reply(200, with("Docker-Content-Digest", "sha256:../x"), nil), OutcomeFailed, []classify.Cause{classify.EndpointMalformedResponse}, false},
		{"portal", reply(200, with("Content-Type", "text/html; charset=utf-8"), nil), OutcomeFailed, []classify.Cause{classify.EndpointHTMLInsteadOfRegistry}, false},
		{"schema 1", reply(200, with("Content-Type", typeSchema1Signed), nil), OutcomeFailed, []classify.Cause{classify.ImageUnsupportedMediaType}, false},
		{"no manifest", reply(200, with("Content-Type", "application/octet-stream"), nil), OutcomeFailed, []classify.Cause{classify.ImageUnsupportedMediaType}, false},
		{"huge", reply(200, with("Content-Length", "9000000"), nil), OutcomeInconclusive, []classify.Cause{classify.EndpointResponseTooLarge}, false},
		{"challenge", reply(401, bearer, nil), OutcomeNeedsToken, nil, false},
		{"challenge nobody answers", reply(401, header{"Www-Authenticate": "Negotiate"}, nil), OutcomeFailed, []classify.Cause{classify.IdentityChallengeUnsupported}, false},
		{"no HEAD", reply(405, nil, nil), OutcomeNeedsGet, []classify.Cause{classify.EndpointMethodBlocked}, true},
		{"no such tag", reply(404, nil, nil), OutcomeFailed, []classify.Cause{classify.ImageManifestUnknown}, true},
		{"too many", reply(429, nil, nil), OutcomeFailed, []classify.Cause{classify.RegistryRateLimited}, false},
		{"sent away", reply(307, header{"Location": "https://other.corp.test/v2/x"}, nil), OutcomeRedirect, []classify.Cause{classify.EndpointRedirectedAway}, false},
		{"moved at home", reply(301, header{"Location": "/v2/moved"}, nil), OutcomeRedirect, nil, false},
	} {
		r := newWalk(t, image).Resolve(t.Context(), tt.rt, "HEAD")
		assert.Equal(t, tt.outcome, r.Outcome, tt.name)
		if tt.name == "no such tag" {
			assert.Len(t, r.Findings(), 1) // which code a bare 404 means is not for this package
		} else {
			assert.Equal(t, tt.causes, causes(r.Findings()), tt.name)
		}
		assert.Equal(t, tt.get, r.NeedsGet(), tt.name)
		assert.Equal(t, tt.outcome == OutcomeHeld || tt.outcome == OutcomeRedirect, r.Held(), tt.name)
		assert.Equal(t, "https://registry.corp.test/v2/team/app/manifests/1", r.URL)
		assert.Equal(t, "registry.corp.test:443", r.Host)
		for _, f := range r.Findings() {
			assert.Equal(t, "registry.corp.test", f.Endpoint, tt.name)
			assert.Equal(t, classify.OperationResolveManifest, f.Operation, tt.name)
		}
	}
	r := newWalk(t, image).Resolve(t.Context(), reply(401, bearer, nil), "HEAD")
	require.Len(t, r.Challenge(), 1)
	assert.Equal(t, "https://auth.corp.test/token?secret=1", r.Challenge()[0].Realm)
	assert.Equal(t, []classify.Challenge{{Scheme: "bearer", Realm: "https://auth.corp.test/token", Service: "registry.corp.test", Scope: "repository:team/app:pull"}}, r.Challenges)
}

func TestRequestIsTheRuntimes(t *testing.T) {
	t.Parallel()
	w := newWalk(t, image)
	w.Base = &url.URL{Scheme: "https", Host: "mirror.corp.test:8443", Path: "/prefix/v2"}
	w.Namespace, w.UserAgent = "registry.corp.test", "test/1"
	var got *http.Request
	r := w.Resolve(t.Context(), roundTrip(func(req *http.Request) (*http.Response, error) {
		got = req
		return reply(404, nil, nil)(req)
	}), "HEAD")
	assert.Equal(t, "https://mirror.corp.test:8443/prefix/v2/team/app/manifests/1?ns=registry.corp.test", got.URL.String())
	assert.Equal(t, "https://mirror.corp.test:8443/prefix/v2/team/app/manifests/1", r.URL)
	assert.Equal(t, manifestAccept, got.Header.Get("Accept"))
	assert.Equal(t, "test/1", got.Header.Get("User-Agent"))
	assert.Empty(t, got.Header.Get("Range"))
	assert.Empty(t, got.Header.Get("Authorization"))
}

func TestManifest(t *testing.T) {
	t.Parallel()
	digest := sum(oneLayer)
	many := strings.Replace(oneLayer, `"layers":[`, `"layers":[`+strings.Repeat(`{"digest":"`+someDigest+`","size":1},`, 200), 1)
	foreign := strings.Replace(oneLayer, `"size":5}`, `"size":5,"urls":["https://foreign.corp.test/l?sig=secret"]}`, 1)
	for _, tt := range []struct {
		name, digest string
		rt           roundTrip
		outcome      Outcome
		causes       []classify.Cause
		usable       bool
	}{
		{"good", digest, reply(200, header{"Content-Type": typeOCIManifest}, oneLayer), OutcomeHeld, nil, true},
		{"type only in the body", digest, reply(200, header{"Content-Type": "application/json"}, oneLayer), OutcomeHeld, nil, true},
		{"chunked", digest, reply(200, nil, strings.NewReader(oneLayer)), OutcomeHeld, nil, true},
		{"wrong digest", someDigest, reply(200, nil, oneLayer), OutcomeFailed, []classify.Cause{classify.ImageDigestMismatch}, false},
		{"page", digest, reply(200, nil, "<!DOCTYPE html><title>Sign in</title>"), OutcomeFailed, []classify.Cause{classify.EndpointHTMLInsteadOfRegistry}, false},
		{"not JSON", sum("hello"), reply(200, nil, "hello"), OutcomeFailed, []classify.Cause{classify.ImageManifestInvalid}, false},
		{"schema 1", sum(`{"schemaVersion":1}`), reply(200, nil, `{"schemaVersion":1}`), OutcomeFailed, []classify.Cause{classify.ImageUnsupportedMediaType}, false},
		{"huge by its length", digest, reply(200, header{"Content-Length": "5000000"}, endless{}), OutcomeInconclusive, []classify.Cause{classify.EndpointResponseTooLarge}, false},
		{"huge without length", digest, reply(200, nil, endless{}), OutcomeInconclusive, []classify.Cause{classify.EndpointResponseTooLarge}, false},
		{"cut off", digest, reply(200, nil, io.MultiReader(strings.NewReader("{"), broken{io.ErrUnexpectedEOF})), OutcomeFailed, []classify.Cause{classify.EndpointDownloadInterrupted}, false},
		{"encoded", digest, reply(200, header{"Content-Encoding": "gzip"}, oneLayer), OutcomeInconclusive, nil, false},
		{"200 layers", sum(many), reply(200, nil, many), OutcomeInconclusive, []classify.Cause{classify.ImageTooManyLayers}, true},
		{"foreign layer", sum(foreign), reply(200, nil, foreign), OutcomeHeld, []classify.Cause{classify.EndpointForeignLayerURL}, true},
		{"argument", "sha256:x", nil, OutcomeInconclusive, nil, false},
	} {
		r, m := newWalk(t, image).Manifest(t.Context(), tt.rt, tt.digest, "")
		assert.Equal(t, tt.outcome, r.Outcome, tt.name)
		assert.Equal(t, tt.causes, causes(r.Findings()), tt.name)
		require.Equal(t, tt.usable, m != nil, tt.name)
		assert.LessOrEqual(t, r.Bytes, int64(4<<20+1), tt.name)
		assert.NotContains(t, fmt.Sprintf("%+v", r.Findings()), "secret", tt.name)
		if m != nil {
			assert.True(t, r.Complete, tt.name)
			assert.Equal(t, tt.digest, m.Digest, tt.name)
			assert.LessOrEqual(t, len(m.Layers), 128, tt.name)
		}
	}
}

func TestResolveByGet(t *testing.T) {
	t.Parallel()
	r := newWalk(t, image).Resolve(t.Context(), reply(200, header{"Content-Type": typeOCIManifest}, oneLayer), "GET")
	assert.Equal(t, OutcomeHeld, r.Outcome)
	assert.Equal(t, sum(oneLayer), r.Digest, "without an announced digest it is computed")
	r = newWalk(t, image).Resolve(t.Context(), reply(200, header{"Content-Type": typeOCIManifest, "Docker-Content-Digest": someDigest}, oneLayer), "GET")
	assert.Equal(t, []classify.Cause{classify.ImageDigestMismatch}, causes(r.Findings()))
	r = newWalk(t, image).Resolve(t.Context(), reply(200, header{"Content-Type": "text/plain"}, oneLayer), "GET")
	assert.Equal(t, []classify.Cause{classify.ImageUnsupportedMediaType}, causes(r.Findings()), "containerd goes by the header")
}

// No credential may leave the source's own origin, whoever is at the end of a redirect.
func TestAuthorizationStaysAtHome(t *testing.T) {
	t.Parallel()
	const secret = "Bearer s3cr3t"
	for target, home := range map[string]bool{
		"https://blobs.corp.test/x?sig=1": false, "https://sub.registry.corp.test/x": false, "https://registry.corp.test:8443/x": false,
		"http://registry.corp.test/x": false, "//evil.corp.test/x": false, "/v2/elsewhere": true, "https://registry.corp.test:443/v2/x": true,
	} {
		w := newWalk(t, image)
		w.Authorization = secret
		d := Descriptor{Digest: sum("layer"), Size: 5}
		sent := map[string]bool{}
		rt := roundTrip(func(req *http.Request) (*http.Response, error) {
			sent[req.URL.String()] = req.Header.Get("Authorization") != ""
			for _, v := range req.Header {
				if !home && !strings.Contains(req.URL.Path, "/team/app/") {
					assert.NotContains(t, strings.Join(v, " "), "s3cr3t", target)
				}
			}
			if strings.Contains(req.URL.Path, "/team/app/") {
				return reply(307, header{"Location": target}, nil)(req)
			}
			return reply(403, nil, "denied")(req)
		})
		r := w.Blob(t.Context(), rt, d, Whole)
		require.Equal(t, OutcomeRedirect, r.Outcome, target)
		assert.True(t, r.Credentialed)
		assert.NotContains(t, r.Location, "sig")
		next := w.Follow(t.Context(), rt, r, d, Whole)
		assert.Equal(t, home, next.Credentialed, target)
		assert.Equal(t, 2, next.Hop)
		if !home && keepsAuthorization(w.Origin(), r.Redirect()) {
			assert.Equal(t, "credential withheld: after a redirect", next.Inconclusive, target)
		} else {
			assert.Equal(t, OutcomeFailed, next.Outcome, target)
		}
		m := w.Resolve(t.Context(), rt, "HEAD")
		after, _ := w.FollowManifest(t.Context(), rt, m)
		assert.Equal(t, home, after.Credentialed, target)
		assert.NotContains(t, fmt.Sprintf("%+v", []any{r.Findings(), next.Findings()}), "s3cr3t")
	}
	w := newWalk(t, "registry.corp.test:5000/app")
	w.Base, w.Authorization = &url.URL{Scheme: "http", Host: "registry.corp.test:5000"}, secret
	r := w.Resolve(t.Context(), roundTrip(func(req *http.Request) (*http.Response, error) {
		assert.Empty(t, req.Header.Get("Authorization"))
		return reply(401, header{"Www-Authenticate": `Basic realm="x"`}, nil)(req)
	}), "HEAD")
	assert.Equal(t, "credential withheld: plain http", r.Inconclusive)
}

func TestRedirectsEnd(t *testing.T) {
	t.Parallel()
	n := 0
	rt := roundTrip(func(req *http.Request) (*http.Response, error) {
		n++
		return reply(302, header{"Location": fmt.Sprintf("https://blobs.corp.test/%d?sig=secret", n)}, nil)(req)
	})
	w, d := newWalk(t, image), Descriptor{Digest: someDigest, Size: 5}
	r := w.Blob(t.Context(), rt, d, Whole)
	for r.Redirect() != nil {
		r = w.Follow(t.Context(), rt, r, d, Whole)
	}
	assert.Equal(t, MaxRequests, n)
	assert.Equal(t, []classify.Cause{classify.EndpointHTTPRedirectLoop}, causes(r.Findings()))
	assert.Equal(t, "blobs.corp.test", r.Findings()[0].Endpoint)
	assert.NotContains(t, r.Findings()[0].Error(), "secret")
	assert.Equal(t, OutcomeInconclusive, w.Follow(t.Context(), rt, r, d, Whole).Outcome)
	assert.Equal(t, OutcomeInconclusive, w.Follow(t.Context(), rt, nil, d, Whole).Outcome)
}

func TestBadLocation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		location string
		cause    classify.Cause
		outcome  Outcome
	}{
		{"", classify.EndpointBadLocation, OutcomeFailed},
		{"ftp://blobs.corp.test/x", classify.EndpointBadLocation, OutcomeFailed},
		{"https://", classify.EndpointBadLocation, OutcomeFailed},
		{"https:blobs", classify.EndpointBadLocation, OutcomeFailed},
		{"https://user:secret@blobs.corp.test/", classify.EndpointBadLocation, OutcomeFailed},
		{"https://blobs.corp.test:port/", classify.EndpointBadLocation, OutcomeFailed},
		{"https://" + strings.Repeat("a", 20000), classify.EndpointBadLocation, OutcomeFailed},
		{"http://blobs.corp.test/x", classify.EndpointBadLocation, OutcomeRedirect}, // the runtime follows: a warning
	} {
		r := newWalk(t, image).Blob(t.Context(), reply(307, header{"Location": tt.location}, nil), Descriptor{Digest: someDigest}, First64K)
		assert.Equal(t, tt.outcome, r.Outcome, tt.location)
		require.Equal(t, []classify.Cause{tt.cause}, causes(r.Findings()), tt.location)
		assert.NotContains(t, r.Findings()[0].Error(), "secret")
		if tt.outcome == OutcomeRedirect {
			assert.Equal(t, classify.SeverityWarn, r.Findings()[0].Severity)
		}
	}
}

func TestCallerEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("budget ended")
	cancelling := roundTrip(func(req *http.Request) (*http.Response, error) {
		cancel(gone)
		return nil, context.Cause(req.Context())
	})
	r := newWalk(t, image).Resolve(ctx, cancelling, "HEAD")
	assert.Equal(t, OutcomeInconclusive, r.Outcome)
	assert.Contains(t, r.Inconclusive, "budget ended")
	assert.Empty(t, r.Findings())
	r = newWalk(t, image).Resolve(ctx, nil, "HEAD")
	assert.Equal(t, OutcomeInconclusive, r.Outcome)

	// A limit of the step itself stays a finding.
	own := roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, &classify.StageError{Stage: classify.StageHeaders, Limit: 15e9, Err: context.DeadlineExceeded}
	})
	r = newWalk(t, image).Resolve(t.Context(), own, "HEAD")
	assert.Equal(t, []classify.Cause{classify.EndpointResponseHeaderTimeout}, causes(r.Findings()))
}

func TestZeroWalk(t *testing.T) {
	t.Parallel()
	r := (&Walk{}).Resolve(t.Context(), reply(200, nil, nil), "HEAD")
	assert.Equal(t, "no image reference was given", r.Inconclusive)
	r = newWalk(t, image).Resolve(t.Context(), nil, "HEAD")
	assert.Equal(t, "no transport was given", r.Inconclusive)
}

func TestReportJSON(t *testing.T) {
	t.Parallel()
	r := newWalk(t, image).Resolve(t.Context(), reply(403, nil, `{"errors":[{"code":"DENIED","message":"token=abc"}]}`), "GET")
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.NewDecoder(bytes.NewReader(raw)).Decode(&back))
	again, err := json.Marshal(&back)
	require.NoError(t, err)
	assert.JSONEq(t, string(raw), string(again))
	assert.Equal(t, []string{"DENIED"}, r.Codes)
}

func FuzzParseLocation(f *testing.F) {
	for _, s := range []string{"/x", "https://blobs.corp.test/?a=b#f", "//h/x", "https://u:p@h/", "ftp://x", "?q", "https:opaque", "http://[::1]:1/", "//::"} {
		f.Add(s)
	}
	asked := &url.URL{Scheme: "https", Host: "registry.corp.test", Path: "/v2/x"}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := parseLocation(asked, s)
		if err != nil {
			return
		}
		if u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
			t.Fatalf("%q leads to %s", s, u)
		}
		if _, err := http.NewRequest("GET", u.String(), nil); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
	})
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// broken is a body that breaks off.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }
