package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// indexNode indexes the Pods that are looked at.
func indexNode(o client.Object) []string {
	if pod, ok := o.(*corev1.Pod); ok && concerns(pod) {
		return []string{pod.Spec.NodeName}
	}
	return nil
}

// watch lets the reconciler hear of Pods. A change of one is a reason to look at
// its node, whether it was of interest before the change or is after it.
func (r *reconciler) watch(mgr manager.Manager, concurrent int) error {
	for name, index := range map[string]client.IndexerFunc{byNode: indexNode, byAgentNode: r.agents.index} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, name, index); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(mgr).Named("pullwalk").
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.nodeOf)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrent,
			SkipNameValidation:      new(true), // it is the only one
		}).
		Complete(r)
}

func (r *reconciler) nodeOf(_ context.Context, o client.Object) []reconcile.Request {
	pod, ok := o.(*corev1.Pod)
	if !ok || !concerned(pod) && !r.agents.is(pod) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: pod.Spec.NodeName}}}
}

// slim keeps of a Pod what is looked at: the cache holds every Pod of the cluster.
func slim(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	out := &corev1.Pod{TypeMeta: pod.TypeMeta}
	m := &pod.ObjectMeta
	out.ObjectMeta = metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
	if name, ok := m.Labels["app.kubernetes.io/name"]; ok {
		out.Labels = map[string]string{"app.kubernetes.io/name": name}
	}
	out.Spec.NodeName, out.Spec.ImagePullSecrets = pod.Spec.NodeName, pod.Spec.ImagePullSecrets
	out.Spec.InitContainers, out.Spec.Containers = named(pod.Spec.InitContainers), named(pod.Spec.Containers)
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		out.Spec.EphemeralContainers = append(out.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: c.Name, Image: c.Image},
		})
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Image != nil {
			out.Spec.Volumes = append(out.Spec.Volumes, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{Image: v.Image}})
		}
	}
	s := &pod.Status
	out.Status = corev1.PodStatus{
		Phase: s.Phase, Conditions: s.Conditions, HostIP: s.HostIP, StartTime: s.StartTime,
		InitContainerStatuses: s.InitContainerStatuses, ContainerStatuses: s.ContainerStatuses, EphemeralContainerStatuses: s.EphemeralContainerStatuses,
	}
	return out, nil
}

func named(containers []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(containers))
	for i := range containers {
		out[i].Name, out[i].Image = containers[i].Name, containers[i].Image
	}
	return out
}
