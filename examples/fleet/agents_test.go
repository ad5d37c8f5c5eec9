package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

func TestAgentsByNode(t *testing.T) {
	pod := func(name, node, ip string, change func(*corev1.Pod)) *corev1.Pod {
		p := newAgent(node)
		p.Name, p.Status.PodIP = name, ip
		if change != nil {
			change(p)
		}
		return p
	}
	at := func(age time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-age)) }
	going := func(p *corev1.Pod) { now := at(0); p.DeletionTimestamp, p.Finalizers = &now, []string{"x"} }
	objects := []runtime.Object{
		// While a DaemonSet is rolled out a node may have two, in any order.
		pod("a-old", "n1", "10.0.0.1", going), pod("b-new", "n1", "10.0.0.2", nil),
		pod("a-new", "n2", "10.0.0.3", nil), pod("b-old", "n2", "10.0.0.4", going),
		pod("c-old", "n3", "10.0.0.5", func(p *corev1.Pod) { p.CreationTimestamp = at(time.Hour) }),
		pod("d-new", "n3", "10.0.0.6", func(p *corev1.Pod) { p.CreationTimestamp = at(time.Minute) }),
		pod("six", "n4", "fd00::7", nil),
		pod("gone", "n5", "10.0.0.8", going),
		pod("bare", "n6", "", nil),
		pod("crash", "n7", "", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
		}),
		pod("unscheduled", "", "", nil),
		pod("another", "n8", "10.0.0.9", func(p *corev1.Pod) { p.Labels = nil }),
		pod("elsewhere", "n9", "10.0.0.9", func(p *corev1.Pod) { p.Namespace = "shop" }),
	}
	found, err := agentsByNode(t.Context(), fake.NewClientset(objects...), "pullwalk", 9741)
	require.NoError(t, err)
	got := map[string]string{}
	for node, a := range found {
		got[node] = a.why
		if a.why == "" {
			got[node] = a.addr.String()
		}
	}
	require.Equal(t, map[string]string{
		"n1": "10.0.0.2:9741", "n2": "10.0.0.3:9741", "n3": "10.0.0.6:9741", "n4": "[fd00::7]:9741",
		"n5": "its agent is being deleted", "n6": "its agent has no address", "n7": "its agent is Pending: ErrImagePull",
	}, got)
}
