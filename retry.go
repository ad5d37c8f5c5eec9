package pullwalk

import (
	"context"
	"net/http"
	"slices"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// persist makes one request, and once more where the runtime would by itself: a
// failure that one repetition mends does not show in its pull. The step says what
// the runtime does. It is not done to the full, since a probe must not add to a
// registry's load: after a rate limit nothing is repeated, and pauses are not kept.
// A mirror is not asked again, since the runtime has another source.
func (s *source) persist(ctx context.Context, e *endpoint, st pull.Step, run func(context.Context, http.RoundTripper, *watch) outcome) outcome {
	first := e.request(ctx, st, run)
	retry := s.retries(first.Request)
	if retry.Requests < 2 || first.Status != StatusFailed || s.cfg.Kind == noderuntime.KindMirror {
		return first
	}
	first.Retry = &retry
	if !mayPass(first.Request) {
		return first
	}
	second := e.request(ctx, st, run)
	if !pull.Passes(second.Status) {
		return first
	}
	second.Retry = &retry
	second.Findings = append(pull.Warned(first.Findings), second.Findings...)
	if second.Status == StatusOK {
		second.Status = StatusDegraded
	}
	return second
}

// retries is what this node's runtime does, by its release.
func (s *source) retries(r *registry.Report) registry.Retry {
	retry := s.d.profile.Client.Retry(r)
	if !retry.Done(s.d.view.runtime.Version) {
		return registry.Retry{}
	}
	return retry
}

// mayPass says whether a second request is worth a try: a limit of our own has
// waited long enough, and rate limits count what is asked in vain.
func mayPass(r *registry.Report) bool {
	switch r.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return !slices.ContainsFunc(r.Findings(), func(f classify.Finding) bool { return f.Fact(classify.FactLimit) != "" })
}
