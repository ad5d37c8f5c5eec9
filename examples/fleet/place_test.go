package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// required is a required node affinity of one term.
func required(key string, op corev1.NodeSelectorOperator, values ...string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}},
		}}}
	}
}

func tolerating(t corev1.Toleration) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.Tolerations = append(s.Tolerations, t) }
}

func daemon(s *corev1.PodSpec) { s.Tolerations = append(s.Tolerations, daemonTolerations(s)...) }

func TestPlaceOn(t *testing.T) {
	bound := func(name string) func(*corev1.PodSpec) { return func(s *corev1.PodSpec) { s.NodeName = name } }
	selecting := func(key, value string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{key: value} }
	}
	both := func(a, b func(*corev1.PodSpec)) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { a(s); b(s) }
	}
	exists := corev1.Toleration{Operator: corev1.TolerationOpExists}
	tests := []struct {
		name string
		pod  func(*corev1.PodSpec)
		node *corev1.Node
		want place
		why  string
	}{
		{"anything", nil, newNode("n", "web"), placeNow, ""},
		{"selector", selecting("agentpool", "web"), newNode("n", "web"), placeNow, ""},
		{"selector of another", selecting("agentpool", "gpu"), newNode("n", "web"), placeNever, "node selector or required affinity"},
		{"In", required("agentpool", corev1.NodeSelectorOpIn, "web", "api"), newNode("n", "web"), placeNow, ""},
		{"In of others", required("agentpool", corev1.NodeSelectorOpIn, "api"), newNode("n", "web"), placeNever, "node selector or required affinity"},
		{"NotIn", required("agentpool", corev1.NodeSelectorOpNotIn, "gpu"), newNode("n", "web"), placeNow, ""},
		{"NotIn without the label", required("zone", corev1.NodeSelectorOpNotIn, "a"), newNode("n", "web"), placeNow, ""},
		{"NotIn of this", required("agentpool", corev1.NodeSelectorOpNotIn, "web"), newNode("n", "web"), placeNever, "node selector or required affinity"},
		{"Gt", required("cores", corev1.NodeSelectorOpGt, "8"), newNode("n", "web", label("cores", "16")), placeNow, ""},
		{"Gt is by number", required("cores", corev1.NodeSelectorOpGt, "8"), newNode("n", "web", label("cores", "10")), placeNow, ""},
		{"Gt and equal", required("cores", corev1.NodeSelectorOpGt, "8"), newNode("n", "web", label("cores", "8")), placeNever, "node selector or required affinity"},
		{"Lt", required("cores", corev1.NodeSelectorOpLt, "8"), newNode("n", "web", label("cores", "4")), placeNow, ""},
		{"Exists", required("gpu", corev1.NodeSelectorOpExists), newNode("n", "web"), placeNever, "node selector or required affinity"},
		{"DoesNotExist", required("gpu", corev1.NodeSelectorOpDoesNotExist), newNode("n", "web"), placeNow, ""},
		{"an affinity that cannot be read", required("cores", corev1.NodeSelectorOpGt, "many"), newNode("n", "web", label("cores", "16")), placeNever, ""},
		{"selector and affinity", both(selecting("agentpool", "web"), required("zone", corev1.NodeSelectorOpIn, "a")), newNode("n", "web", label("zone", "b")), placeNever, "node selector or required affinity"},

		{"taint", nil, newNode("n", "gpu", tainted("gpu", corev1.TaintEffectNoSchedule)), placeNever, "taint gpu:NoSchedule"},
		{"taint that evicts", nil, newNode("n", "gpu", tainted("gpu", corev1.TaintEffectNoExecute)), placeNever, "taint gpu:NoExecute"},
		{"taint that is a wish", nil, newNode("n", "gpu", tainted("gpu", corev1.TaintEffectPreferNoSchedule)), placeNow, ""},
		{"tolerated", tolerating(corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}), newNode("n", "gpu", tainted("gpu", corev1.TaintEffectNoSchedule)), placeNow, ""},
		{"tolerated by value", tolerating(corev1.Toleration{Key: "gpu", Value: "x"}), newNode("n", "gpu", tainted("gpu", corev1.TaintEffectNoSchedule)), placeNow, ""},
		{"another value", tolerating(corev1.Toleration{Key: "gpu", Value: "y"}), newNode("n", "gpu", tainted("gpu", corev1.TaintEffectNoSchedule)), placeNever, "taint gpu:NoSchedule"},
		{"another effect", tolerating(corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}), newNode("n", "gpu", tainted("gpu", corev1.TaintEffectNoSchedule)), placeNever, "taint gpu:NoSchedule"},
		{"all tolerated", tolerating(exists), newNode("n", "gpu", tainted("gpu", corev1.TaintEffectNoExecute), cordoned, notReady), placeNow, ""},

		{"cordoned", nil, newNode("n", "web", cordoned), placeLater, "taint node.kubernetes.io/unschedulable:NoSchedule"},
		{"cordoned, for a daemon", daemon, newNode("n", "web", cordoned), placeNow, ""},
		{"not ready", nil, newNode("n", "web", notReady), placeLater, "taint node.kubernetes.io/not-ready:NoSchedule"},
		{"never heard of", nil, newNode("n", "web", func(n *corev1.Node) { n.Status.Conditions = nil }), placeLater, "taint node.kubernetes.io/not-ready:NoSchedule"},
		{"full disk", nil, newNode("n", "web", tainted("node.kubernetes.io/disk-pressure", corev1.TaintEffectNoSchedule)), placeLater, "taint node.kubernetes.io/disk-pressure:NoSchedule"},
		{"full disk, for a daemon", daemon, newNode("n", "web", tainted("node.kubernetes.io/disk-pressure", corev1.TaintEffectNoSchedule)), placeNow, ""},
		{"being made", nil, newNode("n", "web", tainted("node.cloudprovider.kubernetes.io/uninitialized", corev1.TaintEffectNoSchedule)), placeLater, "taint node.cloudprovider.kubernetes.io/uninitialized:NoSchedule"},
		{"being removed", nil, newNode("n", "web", tainted("ToBeDeletedByClusterAutoscaler", corev1.TaintEffectNoSchedule)), placeLater, "taint ToBeDeletedByClusterAutoscaler:NoSchedule"},
		{"what lasts is said first", nil, newNode("n", "gpu", cordoned, tainted("gpu", corev1.TaintEffectNoSchedule)), placeNever, "taint gpu:NoSchedule"},

		{"named", bound("n"), newNode("n", "web"), placeNow, ""},
		{"another named", bound("m"), newNode("n", "web"), placeNever, "the pod names the node m"},
		{"named, past the scheduler", bound("n"), newNode("n", "gpu", cordoned, tainted("gpu", corev1.TaintEffectNoSchedule)), placeNow, ""},
		{"named, and evicted", bound("n"), newNode("n", "gpu", tainted("gpu", corev1.TaintEffectNoExecute)), placeNever, "taint gpu:NoExecute"},
		{"named, and not matched", both(bound("n"), selecting("agentpool", "gpu")), newNode("n", "web"), placeNever, "node selector or required affinity"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			if test.pod != nil {
				test.pod(&pod.Spec)
			}
			before := test.node.DeepCopy()
			got, why := placeOn(pod, test.node)
			require.Equal(t, test.want, got, why)
			if test.why != "" || got == placeNow {
				require.Equal(t, test.why, why)
			}
			require.NotEqual(t, got != placeNow, why == "", "what keeps a pod away is said")
			require.Equal(t, before, test.node, "what the state of a node stands for is not written into it")
		})
	}
}
