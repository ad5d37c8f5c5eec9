package main

import (
	"context"
	"net/netip"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// agentSelector finds the pods of examples/agent/daemonset.yaml.
const agentSelector = "app.kubernetes.io/name=pullwalk-agent"

// agent is the agent of one node.
type agent struct {
	addr netip.AddrPort
	why  string // why it cannot be asked; "" = it can
	made metav1.Time
}

// agentsByNode finds the agents in a namespace. Who may make pods there may answer
// as an agent, if they also have its certificate.
func agentsByNode(ctx context.Context, c kubernetes.Interface, namespace string, port uint16) (map[string]agent, error) {
	out := map[string]agent{}
	list := func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return c.CoreV1().Pods(namespace).List(ctx, opts)
	}
	err := pager.New(list).EachListItem(ctx, metav1.ListOptions{LabelSelector: agentSelector}, func(o runtime.Object) error {
		pod := o.(*corev1.Pod)
		found := agentOf(pod, port)
		old, known := out[pod.Spec.NodeName]
		better := found.why == "" && (old.why != "" || old.made.Before(&found.made))
		if pod.Spec.NodeName != "" && (!known || better) {
			out[pod.Spec.NodeName] = found
		}
		return nil
	})
	return out, err
}

func agentOf(pod *corev1.Pod, port uint16) agent {
	a := agent{made: pod.CreationTimestamp}
	addr, err := netip.ParseAddr(pod.Status.PodIP)
	switch {
	case pod.DeletionTimestamp != nil:
		a.why = "its agent is being deleted"
	case pod.Status.Phase != corev1.PodRunning:
		a.why = "its agent is " + string(pod.Status.Phase)
		for _, s := range pod.Status.ContainerStatuses {
			if s.State.Waiting != nil {
				a.why += ": " + s.State.Waiting.Reason // ImagePullBackOff says a lot here
			}
		}
	case err != nil:
		a.why = "its agent has no address"
	}
	a.addr = netip.AddrPortFrom(addr, port)
	return a
}

// nodeToken asks the cluster for a token that the agent of one node takes and no other.
func nodeToken(ctx context.Context, c kubernetes.Interface, account, node string) ([]byte, error) {
	namespace, name, _ := strings.Cut(account, "/")
	seconds := int64(600) // the least that the API server gives
	got, err := c.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{agentclient.NodeServerName(node)}, ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return []byte(got.Status.Token), nil
}
