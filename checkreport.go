package pullwalk

import (
	"slices"

	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// onlyOwnFailed says that a runtime would get this pull: nothing failed but checks
// of the caller's own.
func (r *Result) onlyOwnFailed() bool {
	return r.Verdict == StatusFailed && slices.ContainsFunc(r.Sources, func(s Source) bool {
		failed := false
		for _, e := range s.Endpoints {
			for _, st := range e.Steps {
				failed = failed || pull.IsOwn(st.ID) && st.Status == StatusFailed
				if !pull.IsOwn(st.ID) && !st.Addr.IsValid() && !pull.Passes(st.Status) && e.inPull() {
					return false
				}
			}
		}
		return failed && s.Verdict == StatusFailed
	})
}

// inPull says that the pull itself came here: other roles are only expected, or
// the node's own.
func (e Endpoint) inPull() bool {
	return slices.ContainsFunc(e.Roles, func(r endpoints.Role) bool {
		return r != endpoints.RoleExpected && r != endpoints.RoleCredential && r != endpoints.RoleResolver
	})
}
