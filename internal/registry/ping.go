package registry

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Ping asks for /v2/ itself, without Authorization, as CRI-O and docker do first and
// containerd never does. They accept 200 (OutcomeHeld) and a 401 whose challenge can be
// answered (OutcomeNeedsToken); a redirect is followed by [Walk.FollowManifest].
//
// Anything else is a finding: it fails where Client pings, and is a warning, with
// OutcomeNotNeeded, where it does not. Nothing is proved about manifests or blobs.
func (w *Walk) Ping(ctx context.Context, rt http.RoundTripper) *Report {
	return w.ping(ctx, rt, w.url(""), 1)
}

func (w *Walk) ping(ctx context.Context, rt http.RoundTripper, u *url.URL, hop int) *Report {
	bare := *w
	bare.Authorization = ""
	r, resp := bare.send(ctx, rt, u, spec{kind: kindPing, method: http.MethodGet, accept: "*/*"}, hop)
	if resp != nil {
		switch {
		case resp.StatusCode != http.StatusOK:
			w.pingRefused(r, ReadAnswer(resp, r.Operation))
		case isPage(r.MediaType, nil):
			r.page(resp)
		default:
			discard(resp)
			r.Outcome = OutcomeHeld
		}
	}
	if r.Outcome == OutcomeFailed && !w.Client.Pings {
		r.notNeeded()
	}
	return r
}

// ComparePing compares a ping with the anonymous request for the manifest. CRI-O and docker
// take the challenge of the ping for everything: where the ping asks for nothing and the
// manifest does, or names another token server, they fail or get the wrong token, while
// containerd pulls. The finding fails only where Client pings. Reports of other requests
// give none.
func (w *Walk) ComparePing(ping, manifest *Report) []classify.Finding {
	if ping == nil || manifest == nil || ping.spec.kind != kindPing || !manifest.NeedsToken() {
		return nil
	}
	var f classify.Finding
	switch there, here := strings.Join(realms(ping), ", "), strings.Join(realms(manifest), ", "); {
	case ping.Outcome == OutcomeHeld:
		f = classify.New(classify.IdentityUnauthenticatedRequest,
			fmt.Sprintf("%s lets anyone read /v2/ and wants a token for the manifest: CRI-O, podman and docker learn of the token from /v2/ only, and ask without one", manifest.Endpoint),
			classify.Fact{Key: classify.FactURL, Value: ping.URL})
	case ping.NeedsToken() && !slices.Equal(realms(ping), realms(manifest)):
		f = classify.New(classify.EndpointBadRealm,
			fmt.Sprintf("%s names one token server at /v2/ (%s) and another for the manifest (%s)", manifest.Endpoint, there, here),
			classify.Fact{Key: classify.FactRealm, Value: there})
		f.Severity = classify.SeverityWarn
	default:
		return nil
	}
	f.Endpoint, f.Operation = manifest.Endpoint, classify.OperationResolveManifest
	if !w.Client.Pings {
		f.Severity = classify.SeverityWarn
	}
	return []classify.Finding{f}
}

func realms(r *Report) (out []string) {
	for _, ch := range r.Challenges {
		out = append(out, ch.Scheme+" "+ch.Realm)
	}
	return out
}
