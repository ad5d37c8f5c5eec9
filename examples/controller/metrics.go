package main

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

// metrics has no label that a tenant can fill: not images, not nodes, and of causes
// only those of the catalogue.
type metrics struct {
	diagnoses *prometheus.CounterVec
	failed    *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	pods      *podCount
}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		diagnoses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pullwalk_diagnoses_total", Help: "Results of agents, one per image and request.",
		}, []string{"verdict", "layer", "cause", "pool"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pullwalk_agent_errors_total", Help: "Requests to agents without a usable answer.",
		}, []string{"reason", "pool"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pullwalk_diagnosis_duration_seconds", Help: "Time that agents took to answer a request, of up to four images.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 180},
		}, []string{"pool"}),
		pods: &podCount{of: map[string]map[podLabels]int{}, desc: prometheus.NewDesc("pullwalk_failing_pods",
			"Pods that wait for an image, by what is known of the cause. source is probe, text or kubelet.",
			[]string{"layer", "cause", "pool", "source"}, nil)},
	}
	for _, c := range []prometheus.Collector{m.diagnoses, m.failed, m.seconds, m.pods} {
		if err := to.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) result(r *pullwalk.Result, pool string) {
	layer, cause := "none", "none" // did not fail
	if r.Primary != nil {
		layer, cause = bounded(r.Primary.Cause)
	}
	m.diagnoses.WithLabelValues(string(r.Verdict), layer, cause, pool).Inc() // the verdict was checked by the client
}

// bounded are labels for a cause, whoever says it.
func bounded(c classify.Cause) (layer, cause string) {
	layer = string(classify.LayerUnknown)
	if l := classify.LayerOf(c); slices.Contains(classify.Order(), l) {
		layer = string(l)
	}
	switch _, known := classify.Lookup(c); {
	case known:
		return layer, string(c)
	case c == "":
		return layer, "unknown"
	}
	return layer, "other"
}

type podLabels struct{ layer, cause, pool, source string }

// podCount counts Pods when it is asked, so that nothing stays of what has gone.
type podCount struct {
	desc *prometheus.Desc
	mu   sync.Mutex
	of   map[string]map[podLabels]int // by node
}

func (p *podCount) set(node string, counts map[podLabels]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(counts) == 0 {
		delete(p.of, node)
		return
	}
	p.of[node] = counts
}

func (p *podCount) Describe(to chan<- *prometheus.Desc) { to <- p.desc }

func (p *podCount) Collect(to chan<- prometheus.Metric) {
	sums := map[podLabels]int{}
	p.mu.Lock()
	for _, counts := range p.of {
		for l, n := range counts {
			sums[l] += n
		}
	}
	p.mu.Unlock()
	for l, n := range sums {
		to <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, float64(n), l.layer, l.cause, l.pool, l.source)
	}
}
