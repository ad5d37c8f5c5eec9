package pullwalk

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// tokenHops are the hosts that one token exchange is redirected to. Each is an
// endpoint of its own, whose ladder is climbed before it is asked.
type tokenHops struct {
	s         *source
	at        *endpoint // the last one
	blockedBy string    // what stands in the way to it
}

var errHopBlocked = errors.New("the host that the token server redirects to cannot be asked")

// next climbs to a host and returns the way to ask it.
func (h *tokenHops) next(ctx context.Context, u *url.URL) (http.RoundTripper, error) {
	t, err := targetOf(u, endpoints.RoleToken, "a redirect of "+h.at.hostPort())
	if err != nil {
		return nil, err
	}
	e := h.s.endpoint(ctx, t)
	if e == nil {
		return nil, errors.New("more hosts than are followed")
	}
	h.at = e
	select {
	case <-e.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if e.through == nil {
		h.blockedBy = e.blockedBy
		return nil, errHopBlocked
	}
	return &e.pool, nil
}

// recordToken records a token exchange where it ended, and where it began that it
// was sent on.
func (e *endpoint) recordToken(out outcome, index int) {
	if out.at != nil && out.at != e {
		e.record(pull.Step{ID: StepToken, Status: StatusSkipped, Reason: "it redirects to " + out.at.hostPort()}, index)
		e = out.at
	}
	e.src.noteSilence(e, e.record(out.Step, index), index)
}
