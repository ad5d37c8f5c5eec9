package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// poolLines shows pools in short: name, nodes that can take the pod now, how many
// later.
func poolLines(pools []pool) []string {
	var out []string
	for _, p := range pools {
		var nodes []string
		for _, n := range p.nodes {
			nodes = append(nodes, n.Name)
		}
		line := p.name + ": " + strings.Join(nodes, " ")
		if p.later > 0 {
			line += fmt.Sprintf(" (%d later: %s)", p.later, p.why)
		}
		out = append(out, line)
	}
	return out
}

func TestSortPools(t *testing.T) {
	gpu := tainted("gpu", corev1.TaintEffectNoSchedule)
	tests := []struct {
		name       string
		nodes      []*corev1.Node
		also       []string
		in         []string
		apart      []apart
		unlabelled int
	}{
		{name: "none"},
		{
			name:  "the youngest first, of equals by name",
			nodes: []*corev1.Node{newNode("b", "web"), newNode("old", "web", made(48*time.Hour)), newNode("young", "web", made(time.Minute)), newNode("a", "web")},
			in:    []string{"web: young a b old"},
		},
		{
			name:  "a node that cannot take it now is not asked, and its pool counts",
			nodes: []*corev1.Node{newNode("w1", "web", cordoned), newNode("w2", "web"), newNode("x1", "x", notReady), newNode("x2", "x", cordoned)},
			in:    []string{"web: w2 (1 later: taint node.kubernetes.io/unschedulable:NoSchedule)", "x:  (2 later: taint node.kubernetes.io/not-ready:NoSchedule)"},
		},
		{
			name:  "pools apart",
			nodes: []*corev1.Node{newNode("g2", "gpu", gpu), newNode("g1", "gpu", gpu), newNode("w1", "web")},
			in:    []string{"web: w1"},
			apart: []apart{{Pool: "gpu", Nodes: 2, Reason: "taint gpu:NoSchedule"}},
		},
		{
			name:  "a pool of which a part can",
			nodes: []*corev1.Node{newNode("w1", "web", gpu), newNode("w2", "web")},
			in:    []string{"web: w2"},
		},
		{
			name:  "named ones count, with nodes that may be asked and without",
			nodes: []*corev1.Node{newNode("g1", "gpu", gpu), newNode("g2", "gpu", gpu, cordoned), newNode("w1", "web")},
			also:  []string{"zero", "gpu", "web"},
			in:    []string{"gpu: g1 (1 later: taint node.kubernetes.io/unschedulable:NoSchedule)", "web: w1", "zero: "},
		},
		{
			name:  "two platforms are two pools",
			nodes: []*corev1.Node{newNode("a1", "web", arm), newNode("w1", "web"), newNode("g1", "gpu", arm)},
			also:  []string{"web", "web (linux/arm64)"},
			in:    []string{"gpu: g1", "web (linux/amd64): w1", "web (linux/arm64): a1"},
		},
		{
			name:       "without a label each node is alone",
			nodes:      []*corev1.Node{newNode("n1", ""), newNode("n2", ""), newNode("n3", "", label("node.kubernetes.io/instance-type", "m5.large"))},
			in:         []string{"node n1: n1", "node n2: n2", "node n3: n3"},
			unlabelled: 3,
		},
		{
			name: "the first label counts",
			nodes: []*corev1.Node{
				newNode("n1", "", label("karpenter.sh/nodepool", "spot"), label("eks.amazonaws.com/nodegroup", "base")),
				newNode("n2", "", label("cloud.google.com/gke-nodepool", "g")), newNode("n3", "", label("kubernetes.azure.com/agentpool", "az")),
			},
			in: []string{"az: n3", "base: n1", "g: n2"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in, out, unlabelled := sortPools(&corev1.Pod{}, test.nodes, defaultPoolLabels, test.also)
			require.Equal(t, test.in, poolLines(in))
			require.Equal(t, test.apart, out)
			require.Equal(t, test.unlabelled, unlabelled)
		})
	}
}
