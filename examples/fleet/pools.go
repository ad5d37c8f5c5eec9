package main

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/pullwalk/pullwalk"
)

// defaultPoolLabels are where clusters say which pool a node is of. An instance
// type is none: nodes of one type may be made in different ways.
var defaultPoolLabels = []string{
	"kubernetes.azure.com/agentpool", "agentpool",
	"eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "karpenter.sh/nodepool",
}

// pool is a set of nodes, made alike, that could take a pod of the workload.
type pool struct {
	name  string
	nodes []pullwalk.PoolNode // those that could take it now, the youngest first
	later int                 // nodes that could take it later
	why   string              // what keeps one of those away now
}

// apart is a pool that cannot take a pod of the workload.
type apart struct {
	Pool   string `json:"pool"`
	Nodes  int    `json:"nodes"`
	Reason string `json:"reason"` // of its first node, by name
}

func listNodes(ctx context.Context, c kubernetes.Interface) ([]*corev1.Node, error) {
	var out []*corev1.Node
	list := func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return c.CoreV1().Nodes().List(ctx, opts)
	}
	err := pager.New(list).EachListItemWithAlloc(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		out = append(out, o.(*corev1.Node))
		return nil
	})
	return out, err
}

// sortPools finds the pools that could take the pod, by name. also are names of
// pools that count whatever their nodes look like; those without a node stand last.
// unlabelled counts the nodes that no label puts into a pool. Each of those is a
// pool of its own, because nothing says that another is made like it.
func sortPools(pod *corev1.Pod, nodes []*corev1.Node, labels, also []string) (in []pool, out []apart, unlabelled int) {
	all := map[string][]*corev1.Node{}
	for _, n := range nodes {
		name := poolName(n, labels)
		if name == "" {
			name = "node " + n.Name
			unlabelled++
		}
		all[name] = append(all[name], n)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		// A proof for one platform is none for another.
		byPlatform := map[string][]*corev1.Node{}
		for _, n := range all[name] {
			byPlatform[platform(n)] = append(byPlatform[platform(n)], n)
		}
		for _, platform := range slices.Sorted(maps.Keys(byPlatform)) {
			full := name
			if len(byPlatform) > 1 {
				full += " (" + platform + ")"
			}
			p, why := judgePool(pod, full, byPlatform[platform], slices.Contains(also, name) || slices.Contains(also, full))
			if why != "" {
				out = append(out, apart{Pool: full, Nodes: len(byPlatform[platform]), Reason: why})
				continue
			}
			in = append(in, p)
		}
	}
	for _, name := range also {
		has := func(p pool) bool { return p.name == name }
		if _, known := all[name]; !known && !slices.ContainsFunc(in, has) {
			in = append(in, pool{name: name})
		}
	}
	return in, out, unlabelled
}

// judgePool says why none of the nodes may ever take the pod, "" if one may.
func judgePool(pod *corev1.Pod, name string, nodes []*corev1.Node, wanted bool) (p pool, why string) {
	p.name = name
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, n := range nodes {
		where, reason := placeOn(pod, n)
		if where == placeNever && wanted {
			// Only the state of the node counts.
			where, reason = placeOn(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: tolerateAllThatLasts(n)}}, n)
		}
		switch where {
		case placeNow:
			p.nodes = append(p.nodes, pullwalk.PoolNode{Name: n.Name, Created: n.CreationTimestamp.Time})
		case placeLater:
			p.later++
			p.why = cmp.Or(p.why, reason)
		default:
			why = cmp.Or(why, reason)
		}
	}
	slices.SortStableFunc(p.nodes, func(a, b pullwalk.PoolNode) int { return b.Created.Compare(a.Created) })
	if len(p.nodes)+p.later > 0 {
		why = ""
	}
	return p, why
}

func tolerateAllThatLasts(n *corev1.Node) []corev1.Toleration {
	var out []corev1.Toleration
	for _, t := range n.Spec.Taints {
		if !passes(t.Key) {
			out = append(out, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpExists})
		}
	}
	return out
}

func poolName(n *corev1.Node, labels []string) string {
	for _, key := range labels {
		if v := n.Labels[key]; v != "" {
			return v
		}
	}
	return ""
}

// platform is what the kubelet says of its machine.
func platform(n *corev1.Node) string {
	info := n.Status.NodeInfo
	return cmp.Or(info.OperatingSystem, n.Labels[corev1.LabelOSStable]) + "/" + cmp.Or(info.Architecture, n.Labels[corev1.LabelArchStable])
}
