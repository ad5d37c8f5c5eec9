package judge

import (
	"fmt"
	"slices"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// registryAsksForNoCredential takes back that it matters what the kubelet would
// offer.
func registryAsksForNoCredential(r *run) {
	const why = "the registry asks for no credential"
	r.eachSource(func(s *pull.Source) {
		if s.Accepted != pull.Anonymous {
			return
		}
		for e, st := range stepsOf(s) {
			if st.ID == pull.StepSecrets && st.Status == pull.StatusInconclusive {
				r.become(e, st, pull.StatusSkipped, why)
				st.Reason = why + "; " + st.Reason
			}
		}
	})
}

// laterCredentialWasAccepted makes warnings of what was said of earlier credentials,
// and of a token that claims too little.
func laterCredentialWasAccepted(r *run) {
	r.eachSource(func(s *pull.Source) {
		why := fmt.Sprintf("the credential tried as number %d may read", s.Accepted)
		for e, st := range stepsOf(s) {
			// The request without identity is the first of resolve.
			old := st.ID == pull.StepToken && st.Index < s.Accepted || st.ID == pull.StepResolve && e.Registry && st.Index < s.Accepted
			if old && (st.Status == pull.StatusFailed || st.Status == pull.StatusInconclusive) {
				r.lower(e, st, classify.SeverityWarn, why)
				r.become(e, st, pull.StatusDegraded, why)
			}
		}
	})
}

// kubeletOfferedNothing makes what kept the kubelet from offering a credential the
// cause of an anonymous attempt that was refused, and that refusal its consequence.
func kubeletOfferedNothing(r *run) {
	r.eachSource(func(s *pull.Source) {
		if !s.NotOffered || s.Accepted != 0 {
			return
		}
		var refusals []*pull.Step
		tried, explained := false, false
		for _, st := range stepsOf(s) {
			tried = tried || st.ID == pull.StepToken
			if refusesIdentity(st) {
				refusals = append(refusals, st)
			}
		}
		if !tried || len(refusals) == 0 {
			return
		}
		const why = "the registry refuses what asks without a credential, and this kept the kubelet from offering one"
		for e, st := range stepsOf(s) {
			if st.ID != pull.StepSecrets {
				continue
			}
			st.Findings = slices.Clone(st.Findings)
			for i, f := range st.Findings {
				if keepsCredentialBack(f.Cause) {
					if f.Severity != classify.SeverityFail {
						r.decide(string(f.Cause)+" in "+nameOf(e, st), string(f.Severity), string(classify.SeverityFail), why)
					}
					st.Findings[i].Severity, explained = classify.SeverityFail, true
				}
			}
			if explained {
				r.become(e, st, pull.StatusFailed, why)
			}
		}
		if !explained {
			return
		}
		for e, st := range stepsOf(s) {
			if slices.Contains(refusals, st) {
				r.lower(e, st, classify.SeverityWarn, "it follows from what kept the kubelet from offering a credential")
			}
		}
	})
}

func keepsCredentialBack(c classify.Cause) bool {
	switch c {
	case classify.IdentityPullSecretMissing, classify.IdentityPullSecretInvalid, classify.IdentityProviderConfigInvalid,
		classify.IdentityCredentialPluginFailed, classify.IdentitySourceUnreachable:
		return true
	}
	return false
}

func refusesIdentity(st *pull.Step) bool {
	return (st.ID == pull.StepToken || st.ID == pull.StepResolve) && slices.ContainsFunc(st.Findings, func(f classify.Finding) bool {
		return f.Layer == classify.LayerIdentity && f.Severity == classify.SeverityFail
	})
}

func (r *run) eachSource(f func(*pull.Source)) {
	for i := range r.sources {
		f(&r.sources[i])
	}
}
