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
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/wire"
)

// read asks for the manifest and writes what happened into r. It returns the
// challenges of a 401 to a request without authorization, which is no finding
// yet.
func (a *access) read(ctx context.Context, r *AccessReport, authorization string) []wire.Challenge {
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
	var challenges []wire.Challenge
	if resp.StatusCode == http.StatusUnauthorized {
		challenges = wire.ParseChallenges(resp.Header.Values("WWW-Authenticate"))
	}
	switch {
	case resp.StatusCode == http.StatusOK:
		a.served(ctx, r, resp)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		_ = resp.Body.Close()
		r.Inconclusive = fmt.Sprintf("%s redirects the manifest elsewhere (%d), which this check does not follow", a.host, resp.StatusCode)
	case len(challenges) > 0 && authorization == "":
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, wire.MaxErrorBody)) // so that the connection can be kept
		_ = resp.Body.Close()
		return challenges
	default:
		a.refused(r, wire.ReadAnswer(resp, classify.OperationResolveManifest), challenges)
	}
	return nil
}

// refused adds the meaning of an answer that is no manifest.
func (a *access) refused(r *AccessReport, answer *classify.HTTPAnswer, challenges []wire.Challenge) {
	f := classify.Error(answer)
	insufficient := slices.ContainsFunc(challenges, func(c wire.Challenge) bool { return c.Error == "insufficient_scope" })
	switch {
	case answer.Credentialed && f.Layer == classify.LayerIdentity && r.Credential.expired(time.Now()) > 0:
		f = refine(f, classify.IdentityTokenExpired, fmt.Sprintf("%s refused the credential (%s) with %d; by its own word it expired %v ago, at %s",
			a.host, r.Credential.Source, answer.Status, r.Credential.expired(time.Now()).Round(time.Second), r.Credential.ExpiresAt.Format(time.RFC3339)))
	case answer.Status == http.StatusUnauthorized && r.Challenge.Scheme == "basic":
		f = refine(f, classify.IdentityBadCredentials, fmt.Sprintf("%s refused the credential (%s) with 401", a.host, r.Credential.Source))
	case insufficient && answer.Credentialed: // RFC 6750, section 3.1
		f = refine(f, classify.IdentityInsufficientScope, fmt.Sprintf("%s says that the token does not suffice to pull %s", a.host, a.repository))
	case answer.Status == http.StatusNotFound && a.defaulted:
		f.Severity = classify.SeverityWarn
		r.Inconclusive = fmt.Sprintf("%s has no tag latest of %s, and the image names no other: the access was not refused, and no read was seen", a.host, a.repository)
	case answer.Status == http.StatusNotFound && f.Layer == classify.LayerImage && answer.Credentialed:
		// Registries answer 404 for what one may not see, too. What tells the two
		// apart is whether the token that was accepted grants pull.
		if canPull(r.Granted) {
			f.Alternatives = slices.DeleteFunc(slices.Clone(f.Alternatives), func(c classify.Cause) bool { return c == classify.IdentityAccessDeniedOrMissing })
			f.Summary += "; the token grants pull on the repository, so it is missing and not hidden"
			f.Facts = append(slices.Clone(f.Facts), classify.Fact{Key: classify.FactGranted, Value: strings.Join(r.Granted, ", ")})
			break
		}
		f.Summary += "; whether it is missing or hidden from this identity, nothing shows: an account that can list the repository would decide"
		if !slices.Contains(f.Alternatives, classify.IdentityAccessDeniedOrMissing) {
			f.Alternatives = append(slices.Clone(f.Alternatives), classify.IdentityAccessDeniedOrMissing)
		}
	}
	f.Endpoint = a.host
	r.deny(f)
}

// proven tells whether a HEAD answer is one of a registry: containerd, too,
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
		f := classify.Error(wire.ReadAnswer(resp, classify.OperationResolveManifest))
		f.Endpoint = a.host
		r.add(f, a.host)
		return
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, wire.MaxManifest+1))
	_ = resp.Body.Close()
	if err != nil {
		a.broken(ctx, r, err)
		return
	}
	var doc struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	if len(raw) > wire.MaxManifest || json.Unmarshal(raw, &doc) != nil || doc.SchemaVersion == 0 {
		f := classify.New(classify.EndpointMalformedResponse, a.host+" answered 200 with something that is no manifest")
		f.Operation = classify.OperationResolveManifest
		r.add(f, a.host)
		return
	}
	r.Read = true
}

// broken adds a request that got no answer.
func (a *access) broken(ctx context.Context, r *AccessReport, err error) {
	var trust *trustError
	switch {
	case ctx.Err() != nil:
		r.Inconclusive = ended(ctx)
	case errors.As(err, &trust):
		r.take(trust.rep, classify.OperationResolveManifest)
	default:
		var stage *classify.StageError
		if errors.As(err, &stage) && stage.Operation == "" {
			stage.Operation = classify.OperationResolveManifest
		}
		r.findings = append(r.findings, classify.Error(err))
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
