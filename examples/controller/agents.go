package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pullwalk/pullwalk/classify"
)

// byAgentNode is the index of the agents' Pods by their node.
const byAgentNode = "pullwalk.dev/agent-node"

// agents finds the agent of a node: the DaemonSet's Pod there.
type agents struct {
	reader    client.Reader // with the index byAgentNode
	namespace string
	label     string // value of the label app.kubernetes.io/name
	port      uint16
}

// agent is where to ask. Another id is another agent, or one whose state changed.
type agent struct {
	addr netip.AddrPort
	id   string
}

func (a agents) is(pod *corev1.Pod) bool {
	return pod.Namespace == a.namespace && pod.Labels["app.kubernetes.io/name"] == a.label && pod.Spec.NodeName != ""
}

func (a agents) index(o client.Object) []string {
	if pod, ok := o.(*corev1.Pod); ok && a.is(pod) {
		return []string{pod.Spec.NodeName}
	}
	return nil
}

// on returns the agent of a node. It is not asked for more than to be there: an
// agent that is not ready says best itself why. The error says why there is none;
// the id is then that of the Pod to wait for.
func (a agents) on(ctx context.Context, node string) (agent, error) {
	var list corev1.PodList
	if err := a.reader.List(ctx, &list, client.InNamespace(a.namespace), client.MatchingFields{byAgentNode: node}); err != nil {
		return agent{}, fmt.Errorf("the agents' Pods cannot be listed: %s", classify.Redact(err.Error(), 200))
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(pods) == 0 {
		return agent{}, fmt.Errorf("no agent's Pod (app.kubernetes.io/name=%s in the namespace %s) is on the node", a.label, a.namespace)
	}
	// During a rollout there may be two: the ready one, then the newest.
	slices.SortStableFunc(pods, func(x, y corev1.Pod) int {
		return cmp.Or(cmp.Compare(ready(&y), ready(&x)), y.CreationTimestamp.Compare(x.CreationTimestamp.Time))
	})
	pod := &pods[0]
	out := agent{id: fmt.Sprintf("%s/%d/%s/%s", pod.UID, ready(pod), pod.Status.Phase, pod.Status.HostIP)}
	if pod.Status.Phase != corev1.PodRunning {
		why := "is " + cmp.Or(string(pod.Status.Phase), "new")
		if f := failures(pod); len(f) > 0 {
			why = "waits for its own image: " + f[0].record.Reason // bring it as a file: see the agent's README
		}
		return out, fmt.Errorf("the agent's Pod %s %s", pod.Name, why)
	}
	ip, err := netip.ParseAddr(pod.Status.HostIP)
	if err != nil {
		return out, fmt.Errorf("the agent's Pod %s has no usable hostIP", pod.Name)
	}
	out.addr = netip.AddrPortFrom(ip, a.port)
	return out, nil
}

func ready(pod *corev1.Pod) int {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return 1
		}
	}
	return 0
}
