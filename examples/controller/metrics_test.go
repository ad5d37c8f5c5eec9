package main

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

// scrape is what Prometheus gets.
func scrape(t testing.TB, c *cluster) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	return string(body)
}

func TestMetrics(t *testing.T) {
	c := oneFailing(t)
	c.reconcile(t, "node-1")
	got := scrape(t, c)
	for _, want := range []string{
		`pullwalk_diagnoses_total{cause="route.connect-timeout",layer="route",pool="blue",verdict="failed"} 1`,
		`pullwalk_failing_pods{cause="route.connect-timeout",layer="route",pool="blue",source="probe"} 1`,
		`pullwalk_diagnosis_duration_seconds_count{pool="blue"} 1`,
	} {
		require.Contains(t, got, want)
	}
	require.NotContains(t, got, appImage)
	require.NotContains(t, got, "node-1")

	c.fleet.says(refusing(500))
	c.restart(t)
	c.reconcile(t, "node-1")
	got = scrape(t, c)
	require.Contains(t, got, `pullwalk_agent_errors_total{pool="blue",reason="refused"} 1`)
	require.Contains(t, got, `pullwalk_failing_pods{cause="dns.nxdomain",layer="dns",pool="blue",source="text"} 1`)
}

// Whatever agents and nodes are called: the number of series is bounded.
func TestBoundedSeries(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := newMetrics(reg)
	require.NoError(t, err)
	var nodes []client.Object
	for i := range 3 * maxPools {
		nodes = append(nodes, nodeOfPool(fmt.Sprintf("node-%d", i), fmt.Sprintf("pool-%d", i)))
	}
	c := newCluster(t, nodes...)
	names := map[string]bool{}
	for i := range 3 * maxPools {
		pool, err := c.pools.of(t.Context(), fmt.Sprintf("node-%d", i))
		require.NoError(t, err)
		names[pool] = true
		f := classify.New(classify.Cause(fmt.Sprintf("x.made-up-%d", i)), "")
		m.result(&pullwalk.Result{Verdict: pullwalk.StatusFailed, Primary: &f}, "blue")
		f.Cause = classify.Cause(fmt.Sprintf("layer-%d.made-up", i))
		m.result(&pullwalk.Result{Verdict: pullwalk.StatusFailed, Primary: &f}, "blue")
	}
	require.Len(t, names, maxPools+1)
	require.True(t, names[otherPools])
	pool, err := c.pools.of(t.Context(), "no such node")
	require.NoError(t, err)
	require.Equal(t, unknownPool, pool)

	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 1, strings.Count(w.Body.String(), "\npullwalk_diagnoses_total{"))
	require.Contains(t, w.Body.String(), `cause="other",layer="unknown"`)
}
