package judge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// A limit that passes while this process does not run, or that a small budget cut
// short, is nobody's failure.
func TestALimitThatSaysNothing(t *testing.T) {
	t.Parallel()
	silent := fail(classify.RouteConnectTimeout, classify.FactLimit, "5s")
	note := finding(classify.RouteConnectTimeout, classify.SeverityInfo, classify.FactLimit, "5s")
	for name, tt := range map[string]struct {
		findings []classify.Finding
		stalled  time.Duration
		hurried  bool
		want     pull.Status
		reason   string
		rule     string
	}{
		"it ran":                         {[]classify.Finding{silent}, 0, false, pull.StatusFailed, "", ""},
		"it ran a little late":           {[]classify.Finding{silent}, time.Second, false, pull.StatusFailed, "", ""},
		"it did not run":                 {[]classify.Finding{silent}, time.Second + 1, false, pull.StatusInconclusive, "this machine was too busy to judge it: for up to 1s nothing ran here that was due", "machine-stalled"},
		"a small budget":                 {[]classify.Finding{silent}, 0, true, pull.StatusInconclusive, "the budget left no more than 5s for this step", "limit-cut-by-budget"},
		"both":                           {[]classify.Finding{silent}, time.Minute, true, pull.StatusInconclusive, "this machine was too busy to judge it: for up to 1m0s nothing ran here that was due", "machine-stalled"},
		"a late answer":                  {[]classify.Finding{fail(classify.DNSResolverTimeout, classify.FactElapsed, "5.2s")}, 0, true, pull.StatusInconclusive, "the budget left no more than 5.2s for this step", "limit-cut-by-budget"},
		"an answer":                      {[]classify.Finding{fail(classify.DNSNXDOMAIN, classify.FactElapsed, "1s")}, time.Minute, true, pull.StatusFailed, "", ""},
		"a size":                         {[]classify.Finding{fail(classify.EndpointResponseTooLarge, classify.FactLimit, "4194304")}, time.Minute, true, pull.StatusFailed, "", ""},
		"only a note is about time":      {[]classify.Finding{note, fail(classify.EndpointConnectionRefused)}, time.Minute, true, pull.StatusFailed, "", ""},
		"what is left without an answer": {[]classify.Finding{finding(classify.DNSResolverTimeout, classify.SeverityWarn, classify.FactLimit, "5s"), fail(classify.DNSNoData)}, 0, true, pull.StatusInconclusive, "the budget left no more than 5s for this step", "limit-cut-by-budget"},
		"a warning":                      {[]classify.Finding{finding(classify.RouteConnectTimeout, classify.SeverityWarn, classify.FactLimit, "5s")}, time.Minute, true, pull.StatusDegraded, "", ""},
	} {
		st := step(pull.StepConnect, tt.findings...)
		st.Stalled, st.Hurried = tt.stalled, tt.hurried
		got := Step(at("a"), st)
		require.Equal(t, tt.want, got.Status, name)
		require.Equal(t, tt.reason, got.Reason, name)
		res := judged(t, broken(registryAt(st)))
		if tt.rule == "" {
			require.Equal(t, tt.findings, got.Findings, name)
			require.Empty(t, of(res.Decisions, "machine-stalled"), name)
			require.Empty(t, of(res.Decisions, "limit-cut-by-budget"), name)
			continue
		}
		last := tt.findings[len(tt.findings)-1]
		require.Equal(t, [][4]string{
			{tt.rule, string(last.Cause) + " in connect@a:443", "fail", "warn"},
			{tt.rule, "connect@a:443", "failed", "inconclusive"},
		}, told(res.Decisions), name)
		require.Equal(t, tt.reason, res.Decisions[0].Why, name)
		for _, f := range got.Findings {
			require.Equal(t, classify.SeverityWarn, f.Severity, name)
			require.Equal(t, pull.Waited(f) > 0, f.Certainty == classify.CertaintyPossible, name)
		}
	}
}

// What a small budget has not let end keeps its own word for it.
func TestALimitInAStepThatIsOpenAnyway(t *testing.T) {
	t.Parallel()
	st := step(pull.StepLayer, fail(classify.EndpointReadTimeout, classify.FactLimit, "5s"))
	st.Hurried, st.Status, st.Reason = true, pull.StatusInconclusive, "the budget ended"
	got := Step(at("a"), st)
	require.Equal(t, pull.StatusInconclusive, got.Status)
	require.Equal(t, "the budget ended", got.Reason)
	require.Equal(t, []string{"warn endpoint.read-timeout"}, codes(got.Findings))
}

func TestCallersCodePanicked(t *testing.T) {
	t.Parallel()
	st := step(pull.StepDNS, fail(classify.DNSServFail))
	require.Equal(t, pull.StatusFailed, Step(at("a"), st).Status)
	st.Panicked = "the caller's DNS panicked: oh"
	res := judged(t, broken(registryAt(st)))
	require.Equal(t, [][4]string{
		{"callers-code-panicked", "dns.servfail in dns@a:443", "fail", "warn"},
		{"callers-code-panicked", "dns@a:443", "failed", "inconclusive"},
	}, told(res.Decisions))
	require.Equal(t, pull.StatusInconclusive, res.Verdict)
	require.Equal(t, "dns@a:443: the caller's DNS panicked: oh", res.Inconclusive)

	held := step(pull.StepDNS, warn(classify.DNSServFail))
	held.Panicked = st.Panicked
	require.Equal(t, pull.StatusDegraded, Step(at("a"), held).Status, "what holds was not made by a panic")
}

func TestProxyMayHaveAnswered(t *testing.T) {
	t.Parallel()
	const proxy = classify.EndpointProxyRefusedConnect
	answer := func(status string) classify.Finding {
		return fail(classify.RegistryServerError, classify.FactStatus, status)
	}
	warned := answer("503")
	warned.Severity = classify.SeverityWarn
	for name, tt := range map[string]struct {
		finding   classify.Finding
		forwarded bool
		want      []classify.Cause
	}{
		"forbidden":        {answer("403"), true, []classify.Cause{proxy}},
		"bad gateway":      {answer("502"), true, []classify.Cause{proxy}},
		"unavailable":      {answer("503"), true, []classify.Cause{proxy}},
		"timeout":          {answer("504"), true, []classify.Cause{proxy}},
		"another status":   {answer("500"), true, nil},
		"through a tunnel": {answer("503"), false, nil},
		"only a warning":   {warned, true, nil},
		"it is the proxy":  {fail(proxy, classify.FactStatus, "503"), true, nil},
	} {
		e := registryAt()
		e.Forwarded = tt.forwarded
		got := Step(e, step(pull.StepResolve, tt.finding))
		require.Equal(t, tt.want, got.Findings[0].Alternatives, name)
		require.Equal(t, tt.want, Step(e, got).Findings[0].Alternatives, "%s: once", name)
	}
}
