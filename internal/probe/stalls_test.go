package probe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/node"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// settled is a step as it is recorded and judged by itself.
func settled(m *Stalls, s pull.Step) pull.Step {
	by := New(Config{View: &node.View{}, Stalls: m})
	return judge.Step(pull.Endpoint{}, by.Observe(pull.Endpoint{}.Complete(s, 0)))
}

// A limit that passes while this process does not run is nobody's failure.
func TestALimitIsJudgedByThoseWhoRan(t *testing.T) {
	t.Parallel()
	fail := func(cause classify.Cause, key, value string) pull.Step {
		return pull.Step{Status: pull.StatusFailed, Findings: []classify.Finding{classify.New(cause, "", classify.Fact{Key: key, Value: value})}}
	}
	with := func(s pull.Step, more []classify.Finding) pull.Step {
		s.Findings = append(s.Findings, more...)
		return s
	}
	for name, tt := range map[string]struct {
		lost time.Duration
		step pull.Step
		want pull.Status
	}{
		"it ran":                               {0, fail(classify.RouteConnectTimeout, classify.FactLimit, "5s"), pull.StatusFailed},
		"it ran late":                          {900 * time.Millisecond, fail(classify.RouteConnectTimeout, classify.FactLimit, "5s"), pull.StatusFailed},
		"it did not run":                       {1100 * time.Millisecond, fail(classify.RouteConnectTimeout, classify.FactLimit, "5s"), pull.StatusInconclusive},
		"a longer limit":                       {1100 * time.Millisecond, fail(classify.EndpointResponseHeaderTimeout, classify.FactLimit, "15s"), pull.StatusFailed},
		"a late answer":                        {3 * time.Second, fail(classify.DNSResolverTimeout, classify.FactElapsed, "5.2s"), pull.StatusInconclusive},
		"an answer":                            {time.Minute, fail(classify.DNSNXDOMAIN, classify.FactElapsed, "1s"), pull.StatusFailed},
		"a size":                               {time.Minute, fail(classify.EndpointResponseTooLarge, classify.FactLimit, "4194304"), pull.StatusFailed},
		"a refusal knows no time":              {time.Minute, fail(classify.EndpointConnectionRefused, classify.FactAddress, "10.20.0.4:443"), pull.StatusFailed},
		"what is left without the late answer": {3 * time.Second, with(fail(classify.DNSNoData, classify.FactElapsed, "1s"), pull.Warned(fail(classify.DNSResolverTimeout, classify.FactLimit, "5s").Findings)), pull.StatusInconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &Stalls{list: []stall{{time.Now(), tt.lost}}}
			got := settled(m, tt.step)
			require.Equal(t, tt.want, got.Status)
			if tt.want == pull.StatusInconclusive {
				require.Contains(t, got.Reason, "too busy")
				require.False(t, pull.HasSeverity(got.Findings, classify.SeverityFail))
			}
			require.True(t, pull.HasSeverity(tt.step.Findings, classify.SeverityFail), "the caller's slice is left alone")
		})
	}
}

func TestStalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p Stalls
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p.Watch(ctx)
		began := time.Now().Add(-time.Minute)
		require.Zero(t, p.longest(began), "nothing else runs in this bubble")
		time.Sleep(time.Second) // nobody beats any more: as if the process had been stopped
		require.InDelta(t, time.Second, p.longest(began), float64(watchEvery))
		p.came(time.Now())
		p.due = time.Now().Add(time.Hour)
		require.NotZero(t, p.longest(began), "what was lost stays lost")
		require.Zero(t, p.longest(time.Now()), "for what ran meanwhile, and not for what began later")
	})
}

// Of many delays the longest that reaches into a step counts, and few are kept.
func TestStallsKeepsTheLongest(t *testing.T) {
	t.Parallel()
	var p Stalls
	start := time.Now().Add(-time.Hour)
	for i, ms := range []int{3, 900, 40, 1, 200, 7, 7} {
		now := start.Add(time.Duration(i+1) * time.Minute)
		p.due = now.Add(-time.Duration(ms) * time.Millisecond)
		p.came(now)
	}
	p.due = time.Time{}
	require.Len(t, p.list, 3)
	for minute, want := range []int{900, 900, 200, 200, 200, 7, 7, 0} {
		require.Equal(t, time.Duration(want)*time.Millisecond, p.longest(start.Add(time.Duration(minute)*time.Minute)), minute)
	}
}

// A machine that was stopped once does not take back what is silent later.
func TestAStallIsOverWhenItIsOver(t *testing.T) {
	t.Parallel()
	m := &Stalls{list: []stall{{time.Now().Add(-time.Minute), 10 * time.Second}}}
	got := settled(m, pull.Step{Status: pull.StatusFailed, ElapsedMS: 5000, Findings: []classify.Finding{
		classify.New(classify.RouteConnectTimeout, "", classify.Fact{Key: classify.FactLimit, Value: "5s"})}})
	require.Equal(t, pull.StatusFailed, got.Status)
}
