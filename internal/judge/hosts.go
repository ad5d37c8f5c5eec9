package judge

import (
	"slices"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// noWayToAnyNameserver lets the routes to the nameservers decide when a name could
// not be looked up and there is a way to none of them: DNS was never asked.
func noWayToAnyNameserver(r *run) {
	failed := false
	var resolvers []*pull.Endpoint
	ways := 0
	for e, st := range r.steps() {
		switch {
		case pull.IsOwn(st.ID):
		case st.ID == pull.StepDNS && st.Status == pull.StatusFailed && !e.Expected:
			failed = true
		case e.Scheme == pull.SchemeDNS:
			resolvers = append(resolvers, e)
			if st.Status != pull.StatusFailed {
				ways++
			}
		}
	}
	if !failed || ways > 0 {
		return
	}
	for _, e := range resolvers {
		r.decide("nameserver "+e.HostPort(), "expected", "needed", "a name could not be looked up, and there is a way to no nameserver")
		e.Expected = false
	}
}

// namesOfOnePullContradict adds what only the names of one pull together show to the
// lookups that it is about.
func namesOfOnePullContradict(r *run) {
	r.eachSource(func(s *pull.Source) {
		var reports []*dnscheck.Report
		for _, st := range stepsOf(s) {
			if rep, ok := st.Report.(*dnscheck.Report); ok {
				reports = append(reports, rep)
			}
		}
		for _, f := range dnscheck.CompareHosts(reports) {
			for e, st := range stepsOf(s) {
				if _, ok := st.Report.(*dnscheck.Report); !ok || e.Host != f.Endpoint {
					continue
				}
				st.Findings = append(slices.Clone(st.Findings), f)
				if st.Status == pull.StatusOK {
					r.become(e, st, pull.StatusDegraded, f.Summary)
				}
			}
		}
	})
}

// hintOnlyWarns makes warnings of what failed where the pull was not seen to come.
func hintOnlyWarns(r *run) {
	r.eachSource(func(s *pull.Source) {
		for e, st := range stepsOf(s) {
			if e.Expected && !unneeded(s, e) {
				r.lower(e, st, classify.SeverityWarn, "the pull was not seen to come here")
			}
		}
	})
}

// hintWasNotNeeded makes notes of what failed at a host that is only usual, once the
// pull came to its end without it.
func hintWasNotNeeded(r *run) {
	r.eachSource(func(s *pull.Source) {
		for e, st := range stepsOf(s) {
			if e.Expected && unneeded(s, e) {
				r.lower(e, st, classify.SeverityInfo, "the pull did without this host")
			}
		}
	})
}

// unneeded says that nothing is lacking where a host is not reached.
func unneeded(s *pull.Source, e *pull.Endpoint) bool { return e.Aside || e.Known && sawAll(s) }

// sawAll says that every host of the pull was met.
func sawAll(s *pull.Source) bool { return s.Finished && !s.Partial }

// Hint reports whether the pull was only said to touch an endpoint, by the caller or
// by what is known, and was not seen to.
func Hint(e pull.Endpoint) bool {
	return e.Expected && (e.Known || len(e.Roles) > 0 && e.Roles[0] == registry.RoleExpected)
}
