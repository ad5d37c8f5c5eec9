package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/pullwalk/pullwalk/classify"
)

// The whole program against a real kube-apiserver and etcd, with the rights of
// deploy.yaml and no others. There is no kubelet: what one writes is posted.
func TestKubernetes(t *testing.T) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); assets == "" || err != nil {
		if os.Getenv("PULLWALK_REQUIRE_KUBE") == "1" {
			t.Fatal("PULLWALK_REQUIRE_KUBE=1, and KUBEBUILDER_ASSETS names no directory with kube-apiserver and etcd")
		}
		t.Skip("KUBEBUILDER_ASSETS names no directory with kube-apiserver and etcd")
	}
	env := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	env.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "RBAC")
	admin, err := env.Start()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, env.Stop()) })
	c, err := client.New(admin, client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	ctx := t.Context()

	for _, name := range []string{"pullwalk", "shop"} {
		require.NoError(t, c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	for _, o := range rights(t) {
		require.NoError(t, c.Create(ctx, o))
	}
	for _, o := range policies(t) {
		require.NoError(t, c.Create(ctx, o))
	}
	require.NoError(t, c.Create(ctx, nodeOfPool("node-1", "blue")))
	fleet := newFleet(t)
	create := func(pod *corev1.Pod) *corev1.Pod {
		status := pod.Status
		pod.UID, pod.CreationTimestamp = "", metav1.Time{}
		require.NoError(t, c.Create(ctx, pod))
		pod.Status = status
		require.NoError(t, c.Status().Update(ctx, pod))
		return pod
	}
	create(agentOn("node-1"))
	web := create(pending("node-1", "web", appImage, backOff(appImage, noSuchHost(appImage))))
	require.NoError(t, c.Create(ctx, event(web, "1", "spec.containers{app}", "Failed", `Failed to pull image "`+appImage+`": `+noSuchHost(appImage), time.Now(), 1)))

	// says waits until the condition of a Pod has a reason.
	says := func(name, reason string) corev1.PodCondition {
		t.Helper()
		var got corev1.PodCondition
		require.Eventually(t, func() bool {
			var pod corev1.Pod
			require.NoError(t, c.Get(ctx, client.ObjectKey{Namespace: "shop", Name: name}, &pod))
			if found := condition(&pod); found != nil {
				got = *found
			}
			return got.Reason == reason
		}, 30*time.Second, 50*time.Millisecond, "%v", got)
		return got
	}
	start := func() (stop func()) {
		mgr, err := newManager(as(admin), config{
			agentNamespace: "pullwalk", agentName: "pullwalk-agent", agentPort: uint(fleet.addr.Port()), ask: fleet.files,
			poolLabels: "agentpool", concurrent: 4, elect: true, namespace: "pullwalk", metrics: "0", health: "0", registry: prometheus.NewRegistry(),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		return func() { cancel(); require.NoError(t, <-ended) }
	}
	stop := start()
	first := says("web", "RouteConnectTimeout")
	require.Equal(t, corev1.ConditionFalse, first.Status)
	require.Contains(t, fleet.all()[0].Events[0].Message, "no such host", "the events could be read")

	// The event is there, beside the kubelet's.
	require.Eventually(t, func() bool {
		var list eventsv1.EventList
		require.NoError(t, c.List(ctx, &list, client.InNamespace("shop")))
		for _, e := range list.Items {
			if e.Reason == eventReason && e.Regarding.UID == web.UID && strings.Contains(e.Note, "owner network") {
				return true
			}
		}
		return false
	}, 30*time.Second, 50*time.Millisecond)

	// What the kubelet writes stays, and what it writes next takes nothing away.
	require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(web), web))
	require.Len(t, web.Status.Conditions, 3)
	require.NotEmpty(t, web.Status.ContainerStatuses)

	mayNot(t, admin, web)

	// Another process finds it said: the Pod does not change.
	stop()
	version := web.ResourceVersion
	stop = start()
	require.Eventually(t, func() bool { return fleet.count() == 2 }, 30*time.Second, 50*time.Millisecond)
	api := create(pending("node-1", "api", "registry.corp.test/team/api:v1", backOff("registry.corp.test/team/api:v1", noSuchHost("registry.corp.test/team/api:v1"))))
	says("api", "RouteConnectTimeout")
	require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(web), web))
	require.Equal(t, version, web.ResourceVersion)

	// It starts after all.
	require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(api), api))
	patch := client.StrategicMergeFrom(api.DeepCopy())
	api.Status.Phase = corev1.PodRunning
	api.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	api.Status.ContainerStatuses[0].ImageID = "registry.corp.test/team/api@sha256:12"
	require.NoError(t, c.Status().Patch(ctx, api, patch))
	require.Equal(t, corev1.ConditionTrue, says("api", "ImagesPresent").Status)

	// A Pod of the same name is another Pod.
	now := int64(0)
	require.NoError(t, c.Delete(ctx, web, &client.DeleteOptions{GracePeriodSeconds: &now}))
	fleet.says(failing(classify.TLSUnknownAuthority))
	create(pending("node-1", "web", "registry.corp.test/team/web:v2", backOff("registry.corp.test/team/web:v2", noSuchHost("registry.corp.test/team/web:v2"))))
	says("web", "TlsUnknownAuthority")
	stop()
	for _, pod := range []*corev1.Pod{web, pending("node-1", "never-was", appImage, corev1.ContainerState{})} {
		written := &recorder{}
		_, err := teller{writer: c.Status(), recorder: written}.tell(ctx, pod, conclusion{status: corev1.ConditionTrue, reason: "Wrong", source: sourceProbe, key: "k"}, "", time.Now())
		require.NoError(t, err, "that it has gone is no failure")
		require.Empty(t, written.notes, pod.Name)
	}
	says("web", "TlsUnknownAuthority")
	require.Error(t, c.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "never-was"}, &corev1.Pod{}), "and none is made")
}

// as is the API as the controller's service account sees it.
func as(admin *rest.Config) *rest.Config {
	c := rest.CopyConfig(admin)
	c.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:pullwalk:pullwalk-controller", Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	return c
}

// mayNot tries what the right to patch pods/status allows without the policy.
func mayNot(t *testing.T, admin *rest.Config, pod *corev1.Pod) {
	t.Helper()
	c, err := client.New(as(admin), client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	attacks := map[string]func(*corev1.Pod){
		"ready": func(p *corev1.Pod) {
			for i := range p.Status.Conditions {
				if p.Status.Conditions[i].Type == corev1.PodReady {
					p.Status.Conditions[i].Status = corev1.ConditionTrue
				}
			}
		},
		"another condition": func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "evil.example/Gate", Status: corev1.ConditionTrue})
		},
		"phase":      func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"address":    func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "10.9.9.9", []corev1.PodIP{{IP: "10.9.9.9"}} },
		"labels":     func(p *corev1.Pod) { p.Labels = map[string]string{"app": "victim"} },
		"annotation": func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} },
		"finalizer":  func(p *corev1.Pod) { p.Finalizers = []string{"evil.example/stay"} },
		"containers": func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = true },
	}
	for name, change := range attacks {
		// A policy is in force a moment after it was made; dry runs change nothing.
		require.Eventually(t, func() bool {
			changed := pod.DeepCopy()
			change(changed)
			err := c.Status().Patch(t.Context(), changed, client.StrategicMergeFrom(pod), client.DryRunAll)
			return err != nil && strings.Contains(err.Error(), "pullwalk-controller") && strings.Contains(err.Error(), "the controller ")
		}, 30*time.Second, 100*time.Millisecond, name)
	}
}

// policies are what takes most of pods/status away again.
func policies(t *testing.T) []client.Object {
	t.Helper()
	docs := documents(t)
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	require.NoError(t, yaml.UnmarshalStrict(docs["ValidatingAdmissionPolicy"], policy))
	require.NoError(t, yaml.UnmarshalStrict(docs["ValidatingAdmissionPolicyBinding"], binding))
	return []client.Object{policy, binding}
}

// rights are the roles of deploy.yaml and to whom they are given.
func rights(t *testing.T) []client.Object {
	t.Helper()
	var out []client.Object
	for kind, doc := range documents(t) {
		var o client.Object
		switch kind {
		case "ClusterRole":
			o = &rbacv1.ClusterRole{}
		case "ClusterRoleBinding":
			o = &rbacv1.ClusterRoleBinding{}
		case "Role":
			o = &rbacv1.Role{}
		case "RoleBinding":
			o = &rbacv1.RoleBinding{}
		default:
			continue
		}
		require.NoError(t, yaml.UnmarshalStrict(doc, o))
		out = append(out, o)
	}
	require.Len(t, out, 4)
	return out
}
