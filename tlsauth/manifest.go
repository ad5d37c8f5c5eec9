package tlsauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// read asks for the manifest and writes what happened into r. It returns the
// challenges of a 401 to a request without authorization, which is no finding
// yet.
func (a *access) read(ctx context.Context, r *AccessReport, authorization string) []registry.Challenge {
	resp, err := a.send(ctx, http.MethodHead, authorization)
	if err == nil && (resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusOK && !proven(resp)) {
		// containerd asks again with GET, when HEAD is not offered or says too little.
		_ = resp.Body.Close()
		resp, err = a.send(ctx, http.MethodGet, authorization)
	}
	if err != nil {
		a.broken(ctx, r, err)
		return nil
	}
	var challenges []registry.Challenge
	if resp.StatusCode == http.StatusUnauthorized {
		challenges = registry.ParseChallenges(resp.Header.Values("WWW-Authenticate"))
	}
	switch {
	case resp.StatusCode == http.StatusOK:
		a.served(ctx, r, resp)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		_ = resp.Body.Close()
		r.Inconclusive = fmt.Sprintf("%s redirects the manifest elsewhere (%d), which this check does not follow", a.host, resp.StatusCode)
	case len(challenges) > 0 && authorization == "":
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, registry.MaxErrorBody)) // so that the connection can be kept
		_ = resp.Body.Close()
		return challenges
	default:
		a.refused(r, registry.ReadAnswer(resp, classify.OperationResolveManifest), challenges)
	}
	return nil
}

// refused adds the meaning of an answer that is no manifest.
func (a *access) refused(r *AccessReport, answer *classify.HTTPAnswer, challenges []registry.Challenge) {
	f := registry.JudgeRefusal(answer, r, challenges)
	if answer.Status == http.StatusNotFound && a.defaulted {
		f.Severity = classify.SeverityWarn
		r.Inconclusive = fmt.Sprintf("%s has no tag latest of %s, and the image names no other: the access was not refused, and no read was seen", a.host, a.repository)
	}
	f.Endpoint = a.host
	r.Deny(f)
}

// proven reports whether a HEAD answer is one of a registry: containerd, too,
// needs the digest in it.
func proven(resp *http.Response) bool {
	return strings.Contains(resp.Header.Get("Docker-Content-Digest"), ":") && !isPage(resp)
}

func isPage(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind == "text/html" || kind == "application/xhtml+xml"
}

// served says that a manifest came, after a look whether it is one.
func (a *access) served(ctx context.Context, r *AccessReport, resp *http.Response) {
	if resp.Request.Method == http.MethodHead {
		_ = resp.Body.Close()
		r.Read = true
		return
	}
	if isPage(resp) {
		f := classify.Error(registry.ReadAnswer(resp, classify.OperationResolveManifest))
		f.Endpoint = a.host
		r.Add(f, a.host)
		return
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, registry.MaxManifest+1))
	_ = resp.Body.Close()
	if err != nil {
		a.broken(ctx, r, err)
		return
	}
	var doc struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	if len(raw) > registry.MaxManifest || json.Unmarshal(raw, &doc) != nil || doc.SchemaVersion == 0 {
		f := classify.New(classify.EndpointMalformedResponse, a.host+" answered 200 with something that is no manifest")
		f.Operation = classify.OperationResolveManifest
		r.Add(f, a.host)
		return
	}
	r.Read = true
}

// broken adds a request that got no answer.
func (a *access) broken(ctx context.Context, r *AccessReport, err error) {
	var trust *registry.UnreachedError
	switch {
	case ctx.Err() != nil:
		r.Inconclusive = ended(ctx)
	case errors.As(err, &trust):
		r.Take(trust, classify.OperationResolveManifest)
	default:
		var stage *classify.StageError
		if errors.As(err, &stage) && stage.Operation == "" {
			stage.Operation = classify.OperationResolveManifest
		}
		r.Found = append(r.Found, classify.Error(err))
	}
}

// send asks for the manifest once.
func (a *access) send(ctx context.Context, method, authorization string) (*http.Response, error) {
	u := &url.URL{Scheme: "https", Host: a.host, Path: "/v2/" + a.repository + "/manifests/" + a.reference}
	req := (&http.Request{Method: method, URL: u, Host: u.Host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	req.Header.Set("Accept", strings.Join([]string{
		"application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.distribution.manifest.list.v2+json",
		"application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json", "*/*",
	}, ", "))
	req.Header.Set("User-Agent", a.c.userAgent())
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return a.hosts.RoundTrip(req)
}
