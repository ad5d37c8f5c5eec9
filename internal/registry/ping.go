package registry

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Ping asks for /v2/ itself, without Authorization, as CRI-O and docker do first
// and containerd never does. 200 and a 401 whose challenge can be answered are
// what these runtimes accept (OutcomeHeld, OutcomeNeedsToken; a redirect is
// followed by [Walk.FollowManifest]).
//
// Anything else is a finding: it fails where [Walk].Client needs the ping, and is a
// warning, with OutcomeNotNeeded, where it does not. Nothing is proved about
// manifests or blobs in either case.
func (w *Walk) Ping(ctx context.Context, rt http.RoundTripper) *Report {
	u := *w.Origin()
	if u.Path == "" {
		u.Path = "/v2"
	}
	u.Path, u.RawQuery = strings.TrimSuffix(u.Path, "/")+"/", ""
	return w.ping(ctx, rt, &u, 1)
}

func (w *Walk) ping(ctx context.Context, rt http.RoundTripper, u *url.URL, hop int) *Report {
	bare := *w
	bare.Authorization = ""
	r, resp := bare.send(ctx, rt, u, ask{kind: askPing, method: http.MethodGet, accept: "*/*"}, hop)
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
		r.Outcome = OutcomeNotNeeded
		for i := range r.Found {
			r.Found[i].Severity = classify.SeverityWarn
		}
	}
	return r
}

// pingRefused judges a status of the ping that CRI-O and docker stop at.
func (w *Walk) pingRefused(r *Report, answer *classify.HTTPAnswer) {
	switch {
	case r.Status >= 500, r.Status == http.StatusTooManyRequests, r.Status == http.StatusProxyAuthRequired:
		r.Refused(answer)
		return
	}
	r.Answerer, r.Codes, r.Message = answer.Answerer, answer.Codes, answer.Message
	what := "so the pull ends here, whatever manifests and blobs would do"
	if !w.Client.Pings {
		what = "which CRI-O, podman and docker stop at; containerd never asks"
	}
	facts := []classify.Fact{
		{Key: classify.FactMethod, Value: r.Method},
		{Key: classify.FactStatus, Value: strconv.Itoa(r.Status)},
		{Key: classify.FactURL, Value: r.URL},
		{Key: classify.FactAnswerer, Value: answer.Answerer},
	}
	if answer.Message != "" {
		facts = append(facts, classify.Fact{Key: classify.FactMessage, Value: answer.Message})
	}
	f := classify.New(classify.EndpointMethodBlocked, fmt.Sprintf("%s answered %d to the first question, GET of /v2/, %s", r.Endpoint, r.Status, what), facts...)
	r.Fail(f)
}

// Compare holds a ping against the anonymous request for the manifest. CRI-O and
// docker take the challenge of the ping for everything: where the ping asks for
// nothing and the manifest does, or names another token server, they fail or get
// the wrong token, while containerd pulls. The findings fail only where
// [Walk].Client needs the ping. Reports of other steps give none.
func (w *Walk) Compare(ping, manifest *Report) []classify.Finding {
	if ping == nil || manifest == nil || ping.asked.kind != askPing || !manifest.NeedsToken() {
		return nil
	}
	var f classify.Finding
	switch {
	case ping.Outcome == OutcomeHeld:
		f = classify.New(classify.IdentityUnauthenticatedRequest,
			fmt.Sprintf("%s lets anyone read /v2/ and wants a token for the manifest: CRI-O, podman and docker learn of the token from /v2/ only, and ask without one", manifest.Endpoint),
			classify.Fact{Key: classify.FactURL, Value: ping.URL})
	case ping.NeedsToken() && !slices.Equal(realms(ping), realms(manifest)):
		f = classify.New(classify.EndpointBadRealm,
			fmt.Sprintf("%s names one token server at /v2/ (%s) and another for the manifest (%s)", manifest.Endpoint, strings.Join(realms(ping), ", "), strings.Join(realms(manifest), ", ")),
			classify.Fact{Key: classify.FactRealm, Value: strings.Join(realms(ping), ", ")})
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
	for _, c := range r.Challenges {
		out = append(out, c.Scheme+" "+c.Realm)
	}
	return out
}
