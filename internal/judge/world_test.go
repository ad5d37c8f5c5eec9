package judge

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// finding is one of a cause with a severity, in words of its own.
func finding(c classify.Cause, s classify.Severity, facts ...string) classify.Finding {
	f := classify.New(c, "it is "+string(c))
	f.Severity, f.Endpoint = s, "a:443"
	for i := 0; i+1 < len(facts); i += 2 {
		f.Facts = append(f.Facts, classify.Fact{Key: facts[i], Value: facts[i+1]})
	}
	return f
}

func fail(c classify.Cause, facts ...string) classify.Finding {
	return finding(c, classify.SeverityFail, facts...)
}

func warn(c classify.Cause) classify.Finding { return finding(c, classify.SeverityWarn) }

// step is one with the status that its findings give it.
func step(id pull.StepID, findings ...classify.Finding) pull.Step {
	return pull.StatusOf(pull.Step{ID: id}, true, "", findings)
}

func unknown(id pull.StepID, why string) pull.Step {
	return pull.StatusOf(pull.Step{ID: id}, false, why, nil)
}

func (w one) at(addr string, index int) pull.Step {
	w.Addr, w.Index = netip.MustParseAddr(addr), index
	return pull.Step(w)
}

func (w one) nth(index int) pull.Step {
	w.Index = index
	return pull.Step(w)
}

// one is a step of one address, or the nth of its kind.
type one pull.Step

func sumOf(id pull.StepID) pull.Step { return pull.Step{ID: id, Sum: true} }

// at is an endpoint of the pull, https and port 443.
func at(host string, steps ...pull.Step) pull.Endpoint {
	return pull.Endpoint{Scheme: "https", Host: host, Port: 443, Roles: []registry.Role{registry.RoleManifest}, Steps: steps}
}

// registryAt is the endpoint of the source itself.
func registryAt(steps ...pull.Step) pull.Endpoint {
	e := at("a", steps...)
	e.Registry = true
	return e
}

// whole is a source whose walk came to its end.
func whole(list ...pull.Endpoint) pull.Source {
	return pull.Source{Host: list[0].Host, Kind: "upstream", Finished: true, Endpoints: list}
}

// broken is a source whose walk did not.
func broken(list ...pull.Endpoint) pull.Source {
	s := whole(list...)
	s.Finished = false
	return s
}

func judged(t *testing.T, sources ...pull.Source) Result {
	t.Helper()
	log := pull.Log{Sources: sources}
	before := pull.CopyOf(sources)
	got := Judge(log)
	require.Equal(t, before, log.Sources, "the log is left alone")
	require.Equal(t, got, Judge(log), "judged again")
	return got
}

// told are the decisions in short: rule, subject, from and to.
func told(list []Decision) [][4]string {
	var out [][4]string
	for _, d := range list {
		out = append(out, [4]string{d.Rule, d.Subject, d.From, d.To})
	}
	return out
}

// of are those of one rule.
func of(list []Decision, rule string) [][4]string {
	return told(slices.DeleteFunc(slices.Clone(list), func(d Decision) bool { return d.Rule != rule }))
}

func codes(findings []classify.Finding) (out []string) {
	for _, f := range findings {
		out = append(out, string(f.Severity)+" "+string(f.Cause))
	}
	return out
}
