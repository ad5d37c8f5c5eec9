package judge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

func TestAddressesAreAlternatives(t *testing.T) {
	t.Parallel()
	const one4, two4, six = "10.0.0.1", "10.0.0.2", "fd00::1"
	refused := fail(classify.EndpointConnectionRefused)
	blocked := pull.Step{ID: pull.StepConnect, Status: pull.StatusBlocked, BlockedBy: "route@a:443[10.0.0.1]"}
	skipped := pull.Step{ID: pull.StepConnect, Status: pull.StatusSkipped, Reason: "not here"}
	for name, tt := range map[string]struct {
		steps     []pull.Step
		want      pull.Status
		findings  []string
		reason    string
		blockedBy string
		decisions [][4]string
	}{
		"all hold":            {[]pull.Step{one(step(pull.StepConnect)).at(one4, 1), one(step(pull.StepConnect)).at(two4, 2)}, pull.StatusOK, nil, "", "", nil},
		"all hold, one warns": {[]pull.Step{one(step(pull.StepConnect)).at(one4, 1), one(step(pull.StepConnect, warn(classify.RouteIntermittent))).at(two4, 2)}, pull.StatusDegraded, []string{"warn route.intermittent"}, "", "", nil},
		"none holds":          {[]pull.Step{one(step(pull.StepConnect, refused)).at(one4, 1), one(unknown(pull.StepConnect, "why")).at(two4, 2)}, pull.StatusFailed, []string{"fail endpoint.connection-refused"}, "", "", nil},
		"the same twice":      {[]pull.Step{one(step(pull.StepConnect, refused)).at(one4, 1), one(step(pull.StepConnect, refused)).at(two4, 2)}, pull.StatusFailed, []string{"fail endpoint.connection-refused"}, "", "", nil},
		"not known":           {[]pull.Step{one(unknown(pull.StepConnect, "why")).at(one4, 1), one(blocked).at(two4, 2)}, pull.StatusInconclusive, nil, "why", "", nil},
		"blocked":             {[]pull.Step{one(blocked).at(one4, 1), one(pull.Step{ID: pull.StepConnect, Status: pull.StatusBlocked, BlockedBy: "other"}).at(two4, 2)}, pull.StatusBlocked, nil, "", "route@a:443[10.0.0.1]", nil},
		"one is blocked":      {[]pull.Step{one(blocked).at(one4, 1), one(step(pull.StepConnect)).at(two4, 2)}, pull.StatusOK, nil, "", "", nil},
		"all are skipped":     {[]pull.Step{one(skipped).at(one4, 1), one(skipped).at(two4, 2)}, pull.StatusSkipped, nil, "not here", "", nil},
		"one is skipped":      {[]pull.Step{one(skipped).at(one4, 1), one(step(pull.StepConnect)).at(two4, 2)}, pull.StatusOK, nil, "", "", nil},
		"one of two": {[]pull.Step{one(step(pull.StepConnect, refused)).at(one4, 1), one(step(pull.StepConnect)).at(two4, 2)}, pull.StatusDegraded, []string{"warn endpoint.connection-refused"}, "", "", [][4]string{
			{"addresses-are-alternatives", "endpoint.connection-refused in connect@a:443", "fail", "warn"},
			{"addresses-are-alternatives", "connect@a:443", "failed", "degraded"},
		}},
		"one of two, the other is not known": {[]pull.Step{one(unknown(pull.StepConnect, "why")).at(one4, 1), one(step(pull.StepConnect)).at(two4, 2)}, pull.StatusOK, nil, "", "", [][4]string{
			{"addresses-are-alternatives", "connect@a:443", "inconclusive", "ok"},
		}},
		"no IPv6 here": {[]pull.Step{one(step(pull.StepConnect, fail(classify.RouteIPv6Unreachable))).at(six, 1), one(step(pull.StepConnect)).at(two4, 2)}, pull.StatusOK, []string{"info route.ipv6-unreachable"}, "", "", [][4]string{
			{"addresses-are-alternatives", "route.ipv6-unreachable in connect@a:443", "fail", "info"},
			{"addresses-are-alternatives", "connect@a:443", "failed", "ok"},
		}},
	} {
		e := registryAt(append(tt.steps, sumOf(pull.StepConnect))...)
		got := SourceSoFar(broken(e)).Endpoints[0].Steps[2]
		require.Equal(t, tt.want, got.Status, name)
		require.Equal(t, tt.findings, codes(got.Findings), name)
		require.Equal(t, tt.reason, got.Reason, name)
		require.Equal(t, tt.blockedBy, got.BlockedBy, name)
		require.Equal(t, tt.decisions, of(judged(t, broken(e)).Decisions, "addresses-are-alternatives"), name)
		require.Equal(t, got, Step(registryAt(tt.steps...), sumOf(pull.StepConnect)), "%s: as it is told meanwhile", name)
	}
}

// An address that connects is the one that a runtime goes on with.
func TestOneAddressIsNotTrusted(t *testing.T) {
	t.Parallel()
	slow := one(step(pull.StepTLS, fail(classify.TLSExpired))).at("10.0.0.1", 1)
	slow.ElapsedMS = 7
	e := registryAt(slow, one(step(pull.StepTLS)).at("10.0.0.2", 2), sumOf(pull.StepTLS))
	res := judged(t, broken(e))
	got := res.Sources[0].Endpoints[0].Steps[0]
	require.True(t, got.Sum)
	require.Equal(t, pull.StatusInconclusive, got.Status)
	require.Equal(t, "it depends on which of the addresses is taken", got.Reason)
	require.Equal(t, []string{"warn tls.expired"}, codes(got.Findings))
	require.EqualValues(t, 7, got.ElapsedMS)
	require.Equal(t, [][4]string{
		{"addresses-are-alternatives", "tls.expired in tls@a:443", "fail", "warn"},
		{"addresses-are-alternatives", "tls@a:443", "failed", "inconclusive"},
	}, told(res.Decisions))

	e.Steps[0] = one(unknown(pull.StepTLS, "why")).at("10.0.0.1", 1)
	require.Equal(t, pull.StatusOK, SourceSoFar(broken(e)).Endpoints[0].Steps[2].Status, "one that is not known is no obstacle")
}

// Only the steps of the same kind are summed up, in the order of the addresses.
func TestASumIsOfItsOwnKind(t *testing.T) {
	t.Parallel()
	e := registryAt(
		one(pull.Step{ID: pull.StepRoute, Status: pull.StatusBlocked, BlockedBy: "second"}).at("10.0.0.2", 2),
		one(pull.Step{ID: pull.StepRoute, Status: pull.StatusBlocked, BlockedBy: "first"}).at("10.0.0.1", 1),
		one(step(pull.StepConnect)).at("10.0.0.1", 1),
		sumOf(pull.StepRoute))
	got := EndpointSoFar(e)
	require.Equal(t, pull.StepRoute, got[0].ID)
	require.True(t, got[0].Sum)
	require.Equal(t, "first", got[0].BlockedBy)
	require.Equal(t, 1, got[1].Index, "in the order in which they are reported")
}

func TestPlainHTTPRegistry(t *testing.T) {
	t.Parallel()
	for _, cause := range []classify.Cause{classify.TLSHTTPResponseToHTTPSClient, classify.TLSNotTLS} {
		e := registryAt(one(step(pull.StepTLS, fail(cause))).at("127.0.0.1", 1), sumOf(pull.StepTLS))
		require.True(t, SpeaksPlainHTTP(e))
		require.Equal(t, pull.StatusFailed, judged(t, broken(e)).Verdict, "nothing else was to be tried")
		e.BeforePlain, e.Expected = true, true
		res := judged(t, whole(e))
		require.Equal(t, pull.StatusOK, res.Verdict)
		require.Equal(t, [][4]string{
			{"plain-http-registry", "tls@a:443", "failed", "skipped"},
			{"plain-http-registry", "tls@a:443[127.0.0.1]", "failed", "skipped"},
		}, told(res.Decisions))
		for _, st := range res.Sources[0].Endpoints[0].Steps {
			require.Equal(t, "plain http is spoken here", st.Reason)
			require.Empty(t, st.Findings)
		}
	}
	e := registryAt(step(pull.StepTLS, fail(classify.TLSExpired)))
	e.BeforePlain = true
	require.False(t, SpeaksPlainHTTP(e))
	require.Equal(t, pull.StatusFailed, judged(t, broken(e)).Verdict)
}
