package judge

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

func nameserver(host string, route pull.Step) pull.Endpoint {
	return pull.Endpoint{Scheme: pull.SchemeDNS, Host: host, Port: 53, Roles: []registry.Role{registry.RoleResolver}, Expected: true, Steps: []pull.Step{one(route).at(host, 0)}}
}

func TestNoWayToAnyNameserver(t *testing.T) {
	t.Parallel()
	noRoute := step(pull.StepRoute, fail(classify.RouteNetworkUnreachable))
	lost := step(pull.StepDNS, fail(classify.DNSResolverTimeout))
	res := judged(t, broken(nameserver("10.0.0.1", noRoute), nameserver("10.0.0.2", noRoute), registryAt(lost)))
	require.Equal(t, [][4]string{
		{"no-way-to-any-nameserver", "nameserver 10.0.0.1:53", "expected", "needed"},
		{"no-way-to-any-nameserver", "nameserver 10.0.0.2:53", "expected", "needed"},
		{"lowest-layer-first", "root cause", "", "route.network-unreachable at a:443"},
	}, told(res.Decisions))
	hint := registryAt(lost)
	hint.Expected = true
	own := registryAt(step("corp/dns", fail(classify.DNSResolverTimeout)))
	withOwn := nameserver("10.0.0.1", noRoute)
	withOwn.Steps = append(withOwn.Steps, step("corp/way"))
	require.Equal(t, classify.RouteNetworkUnreachable, judged(t, broken(withOwn, registryAt(lost))).Primary.Cause, "a check of the caller's is no way")
	for name, s := range map[string]pull.Source{
		"there is a way":            broken(nameserver("10.0.0.1", noRoute), nameserver("10.0.0.2", step(pull.StepRoute)), registryAt(lost)),
		"names were found":          broken(nameserver("10.0.0.1", noRoute), registryAt(step(pull.StepDNS))),
		"no name was needed":        broken(nameserver("10.0.0.1", noRoute), hint),
		"another step of that kind": broken(nameserver("10.0.0.1", noRoute), own),
		"no nameserver is known":    broken(registryAt(lost)),
	} {
		require.Empty(t, of(judged(t, s).Decisions, "no-way-to-any-nameserver"), name)
	}
}

// Public answers beside private ones of the same zone are seen only when the names of
// one pull are held against each other.
func TestNamesOfOnePullContradict(t *testing.T) {
	t.Parallel()
	found := func(host, addr string) pull.Step {
		st := step(pull.StepDNS)
		st.Report = &dnscheck.Report{Name: host, From: "dns", Addresses: []netip.Addr{netip.MustParseAddr(addr)}}
		return st
	}
	private, public := found("a.corp.test", "10.0.0.1"), found("b.corp.test", "203.0.113.9")
	want := dnscheck.CompareHosts([]*dnscheck.Report{private.Report.(*dnscheck.Report), public.Report.(*dnscheck.Report)})
	require.NotEmpty(t, want)
	s := whole(at("a.corp.test", private), at("b.corp.test", public, step(pull.StepTLS)), at("b.corp.test", step(pull.StepDNS)))
	res := judged(t, s)
	require.Equal(t, [][4]string{{"names-of-one-pull-contradict", "dns@" + want[0].Endpoint + ":443", "ok", "degraded"}}, of(res.Decisions, "names-of-one-pull-contradict"))
	require.Equal(t, []string{"warn " + string(want[0].Cause)}, codes(res.Findings))
	require.Empty(t, judged(t, whole(at("a.corp.test", private)), whole(at("b.corp.test", public))).Findings, "of one source")
	s.Endpoints[1].Steps[0] = pull.StatusOf(public, false, "why", nil)
	require.Empty(t, of(judged(t, s).Decisions, "names-of-one-pull-contradict"), "what is open stays open")
}

func TestHints(t *testing.T) {
	t.Parallel()
	closed := step(pull.StepConnect, fail(classify.EndpointConnectionRefused), warn(classify.RouteIntermittent))
	for name, tt := range map[string]struct {
		expected, known, aside, finished, partial bool
		want                                      []string
		verdict                                   pull.Status
	}{
		"the pull came":                    {finished: true, want: []string{"fail endpoint.connection-refused", "warn route.intermittent"}, verdict: pull.StatusFailed},
		"the caller expects it":            {expected: true, finished: true, want: []string{"warn endpoint.connection-refused", "warn route.intermittent"}, verdict: pull.StatusDegraded},
		"it is usual, and was not needed":  {expected: true, known: true, finished: true, want: []string{"info endpoint.connection-refused", "info route.intermittent"}, verdict: pull.StatusOK},
		"it is usual, and may be needed":   {expected: true, known: true, want: []string{"warn endpoint.connection-refused", "warn route.intermittent"}, verdict: pull.StatusInconclusive},
		"it is usual, and blobs come last": {expected: true, known: true, finished: true, partial: true, want: []string{"warn endpoint.connection-refused", "warn route.intermittent"}, verdict: pull.StatusDegraded},
		"it is looked at beside":           {expected: true, aside: true, want: []string{"info endpoint.connection-refused", "info route.intermittent"}, verdict: pull.StatusInconclusive},
		"beside, and then the pull came":   {aside: true, known: true, finished: true, want: []string{"fail endpoint.connection-refused", "warn route.intermittent"}, verdict: pull.StatusFailed},
	} {
		e := at("b", closed)
		e.Expected, e.Known, e.Aside = tt.expected, tt.known, tt.aside
		s := broken(registryAt(step(pull.StepResolve)), e)
		s.Finished, s.Partial = tt.finished, tt.partial
		res := judged(t, s)
		got := res.Sources[0].Endpoints[1].Steps[0]
		require.Equal(t, tt.want, codes(got.Findings), name)
		require.Equal(t, pull.StatusFailed, got.Status, "%s: what was seen stays seen", name)
		require.Equal(t, tt.verdict, res.Verdict, name)
		require.Equal(t, tt.verdict, res.Sources[0].Verdict, name)
	}
	e := at("b")
	e.Expected = true
	require.Equal(t, []string{"warn endpoint.connection-refused", "warn route.intermittent"}, codes(Step(e, closed).Findings), "as it is told meanwhile")
	e.Known = true
	require.Equal(t, "warn endpoint.connection-refused", codes(Step(e, closed).Findings)[0], "nobody knows yet that it is not needed")
	e.Aside = true
	require.Equal(t, "info endpoint.connection-refused", codes(Step(e, closed).Findings)[0])
}

func TestHint(t *testing.T) {
	t.Parallel()
	also := pull.Endpoint{Roles: []registry.Role{registry.RoleExpected}, Expected: true}
	require.True(t, Hint(also))
	require.False(t, Hint(pull.Endpoint{Roles: []registry.Role{registry.RoleManifest}, Expected: true}))
	require.True(t, Hint(pull.Endpoint{Expected: true, Known: true}))
	require.False(t, Hint(pull.Endpoint{Expected: true}))
	also.Expected = false
	require.False(t, Hint(also))
}
