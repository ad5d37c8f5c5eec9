package main

import (
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedule "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// place says whether a pod of the workload may land on a node.
type place int

const (
	placeNever place = iota // what the node is made like keeps the pod away
	placeLater              // it may, once the node is ready, uncordoned, relieved
	placeNow
)

// placeOn asks the scheduler's own rules: node name, node selector, required node
// affinity, taints. Resources, volumes, topology spread and other pods are not
// looked at, since a pool that is full now is not full for ever. why is said
// unless the answer is placeNow.
func placeOn(pod *corev1.Pod, node *corev1.Node) (answer place, why string) {
	bound := pod.Spec.NodeName != ""
	if bound && pod.Spec.NodeName != node.Name {
		return placeNever, "the pod names the node " + pod.Spec.NodeName
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	switch {
	case err != nil:
		return placeNever, "no node can match: " + err.Error()
	case !match:
		return placeNever, "node selector or required affinity"
	}
	// A pod with a node name has no need of a scheduler, and the kubelet asks for
	// NoExecute alone.
	keepsAway := func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute || t.Effect == corev1.TaintEffectNoSchedule && !bound
	}
	untolerated := func(which func(string) bool) (string, bool) {
		taint, found := schedule.FindMatchingUntoleratedTaint(logr.Discard(), taints(node), pod.Spec.Tolerations,
			func(t *corev1.Taint) bool { return keepsAway(t) && which(t.Key) },
			true) // operators that compare: where they are off no stored pod has one
		return fmt.Sprintf("taint %s:%s", taint.Key, taint.Effect), found
	}
	if taint, found := untolerated(func(key string) bool { return !passes(key) }); found {
		return placeNever, taint
	}
	if taint, found := untolerated(passes); found {
		return placeLater, taint
	}
	return placeNow, ""
}

// taints are those of a node, with those that its state stands for: a cordoned
// node is kept free whether or not its taint is there yet.
func taints(node *corev1.Node) []corev1.Taint {
	out := node.Spec.Taints
	implied := func(key string) {
		out = append(out[:len(out):len(out)], corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	if node.Spec.Unschedulable {
		implied(corev1.TaintNodeUnschedulable)
	}
	if !ready(node) {
		implied(corev1.TaintNodeNotReady)
	}
	return out
}

func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// passes says whether a taint is about the present state of one node and not about
// how its pool is made: those of Kubernetes and its cloud providers, and what
// autoscalers put on a node that comes or goes. Others last, as far as can be known.
func passes(key string) bool {
	switch key {
	case "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/unregistered":
		return true
	}
	prefix, _, _ := strings.Cut(key, "/")
	return prefix == "node.kubernetes.io" || prefix == "node.cloudprovider.kubernetes.io"
}
