package reach

import (
	"encoding/json"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answered is the answer of one hop count, after a while.
type answered struct {
	hops  int
	after time.Duration
	from  string // "" = the target itself, by TCP
	kind  string
}

// How the answers of a trace come together, on the clock of the test: when it
// ends, and what it concludes.
func TestTraceGathers(t *testing.T) {
	t.Parallel()
	const to = "10.20.0.4"
	router := func(hops int, from string) answered {
		return answered{hops, time.Duration(hops) * time.Millisecond, from, icmpTimeExceeded}
	}
	reached := func(from, until int) (list []answered) {
		for n := from; n <= until; n++ {
			list = append(list, answered{n, 10 * time.Millisecond, "", ""})
		}
		return list
	}
	for name, tc := range map[string]struct {
		answers  []answered
		others   []probe
		hops     []string
		distance int
		rejected string
		doors    int
		took     time.Duration
	}{
		"reached":                 {answers: append(reached(3, 30), router(1, "10.1.0.1"), router(2, "10.2.0.1")), hops: []string{"10.1.0.1", "10.2.0.1"}, distance: 3, took: 10 * time.Millisecond},
		"reached, a hop silent":   {answers: append(reached(3, 30), router(2, "10.2.0.1")), hops: []string{"", "10.2.0.1"}, distance: 3, took: 310 * time.Millisecond},
		"reached, a hop late":     {answers: append(reached(2, 30), answered{1, 200 * time.Millisecond, "10.1.0.1", icmpTimeExceeded}), hops: []string{"10.1.0.1"}, distance: 2, took: 200 * time.Millisecond},
		"rejected":                {answers: []answered{router(1, "10.1.0.1"), {2, 5 * time.Millisecond, "10.2.0.1", icmpAdminProhibited}, {3, 4 * time.Millisecond, "10.2.0.1", icmpAdminProhibited}}, hops: []string{"10.1.0.1"}, rejected: "10.2.0.1", took: 5 * time.Millisecond},
		"rejected by the target":  {answers: []answered{router(1, "10.1.0.1"), {2, 5 * time.Millisecond, to, icmpAdminProhibited}}, hops: []string{"10.1.0.1"}, distance: 2, rejected: to, took: 5 * time.Millisecond},
		"silent from the start":   {took: 3 * time.Second},
		"silent behind two":       {answers: []answered{router(2, "10.2.0.1"), router(1, "10.1.0.1")}, hops: []string{"10.1.0.1", "10.2.0.1"}, took: 3 * time.Second},
		"another door":            {answers: []answered{router(1, "10.1.0.1")}, others: []probe{{kind: probeTCP, answer: answerRefused, answered: true}, {kind: probeUDP, answer: icmpPortUnreachable, answered: true, icmp: &ICMP{From: netip.MustParseAddr(to)}}}, hops: []string{"10.1.0.1"}, doors: 2, took: 3 * time.Second},
		"a router at another one": {others: []probe{{kind: probeUDP, answer: icmpAdminProhibited, answered: true, icmp: &ICMP{From: netip.MustParseAddr("10.1.0.1")}}}, took: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				trace := &Trace{Target: netip.MustParseAddrPort(to + ":443")}
				all := make([]probe, 0, maxHops+len(tc.others))
				wait := map[int]time.Duration{}
				for n := 1; n <= maxHops; n++ {
					all = append(all, probe{kind: probeHop, hops: n})
					wait[n] = time.Hour
				}
				for _, a := range tc.answers {
					p := probe{kind: probeHop, hops: a.hops, answered: true, answer: answerAccepted, took: a.after}
					if a.kind != "" {
						p.icmp = &ICMP{From: netip.MustParseAddr(a.from), Kind: a.kind}
					}
					all[a.hops-1], wait[a.hops] = p, a.after
				}
				all = append(all, tc.others...)
				stopped := make(chan struct{})
				var once bool
				stop := func() {
					if !once {
						once = true
						close(stopped)
					}
				}
				answers := make(chan probe, len(all))
				for _, p := range all {
					go func() {
						select {
						case <-time.After(wait[p.hops]):
							answers <- p
						case <-stopped:
							answers <- probe{kind: p.kind, hops: p.hops}
						case <-time.After(3 * time.Second):
							answers <- probe{kind: p.kind, hops: p.hops}
						}
					}()
				}
				start := time.Now()
				trace.gather(answers, len(all), stop)
				assert.Equal(t, tc.took, time.Since(start))
				var hops []string
				for i, h := range trace.Hops {
					assert.Equal(t, i+1, h.Number)
					if h.Address.IsValid() {
						hops = append(hops, h.Address.String())
					} else {
						hops = append(hops, "")
					}
				}
				assert.Equal(t, tc.hops, hops)
				assert.Equal(t, tc.distance, trace.Distance)
				assert.Equal(t, tc.distance > 0, trace.Reached)
				assert.Len(t, trace.Others, tc.doors)
				if tc.rejected == "" {
					assert.Nil(t, trace.Rejected)
				} else {
					require.NotNil(t, trace.Rejected)
					assert.Equal(t, tc.rejected, trace.Rejected.From.String())
				}
				text, err := json.Marshal(trace)
				require.NoError(t, err)
				var back Trace
				require.NoError(t, json.Unmarshal(text, &back))
				assert.Equal(t, trace, &back)
			})
		})
	}
}

func TestTraceSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Checker{}
		for range maxTraces {
			require.True(t, c.traces.take(t.Context()))
		}
		trace := c.traces.trace(t.Context(), "", netip.MustParseAddrPort("10.20.0.4:443"), traceLimit)
		assert.Contains(t, trace.Inconclusive, "other traces")
		assert.Empty(t, trace.Hops)
		assert.Zero(t, trace.Answered())
		assert.Equal(t, Hop{}, trace.LastHop())
		c.traces.give()
		assert.True(t, c.traces.take(t.Context()))
	})
}
