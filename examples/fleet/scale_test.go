package main

import (
	"fmt"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

// BenchmarkSum is a fleet of 5,000 nodes in 50 pools, each with a result: the nodes
// are sorted by the scheduler's rules, and the results summed up and printed both
// ways.
func BenchmarkSum(b *testing.B) {
	pod := newDeployment(required("agentpool", corev1.NodeSelectorOpExists)).Spec.Template.Spec
	var nodes []*corev1.Node
	var outcomes []outcome
	for i := range 50 {
		name := fmt.Sprintf("pool-%02d", i)
		for j := range 100 {
			node := fmt.Sprintf("%s-%02d", name, j)
			nodes = append(nodes, newNode(node, name))
			r := proved(node, appImage)
			if i == 7 {
				r = failed(node, appImage, classify.DNSNXDOMAIN)
			}
			r.Vantage.Labels = ownLabels(r.Vantage.Labels, name, node)
			outcomes = append(outcomes, outcome{Pool: name, Node: node, Image: appImage, result: r})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		pools, _, _ := sortPools(&corev1.Pod{Spec: pod}, nodes, defaultPoolLabels, nil)
		rep := &report{}
		rep.sum(sight{images: []string{appImage}, pools: pools, outcomes: outcomes})
		if rep.Verdict != pullwalk.StatusFailed || len(rep.Images[0].Pools) != 50 || len(rep.String()) == 0 || rep.printJSON(io.Discard) != nil {
			b.Fatal(rep.Reason)
		}
	}
}
