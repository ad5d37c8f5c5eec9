package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pullwalk/pullwalk/endpoints"
)

// workload is what pods are made of.
type workload struct {
	kind, namespace, name string
	pod                   *corev1.Pod
}

func (w workload) String() string { return w.kind + "/" + w.name + " in " + w.namespace }

// kinds are the kinds of -workload, with what a pod of each looks like.
var kinds = map[string]func(context.Context, kubernetes.Interface, string, string) (*corev1.PodSpec, error){
	"deployment": func(ctx context.Context, c kubernetes.Interface, ns, name string) (*corev1.PodSpec, error) {
		o, err := c.AppsV1().Deployments(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return &o.Spec.Template.Spec, nil
	},
	"statefulset": func(ctx context.Context, c kubernetes.Interface, ns, name string) (*corev1.PodSpec, error) {
		o, err := c.AppsV1().StatefulSets(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return &o.Spec.Template.Spec, nil
	},
	"daemonset": func(ctx context.Context, c kubernetes.Interface, ns, name string) (*corev1.PodSpec, error) {
		o, err := c.AppsV1().DaemonSets(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		spec := &o.Spec.Template.Spec
		spec.Tolerations = append(spec.Tolerations, daemonTolerations(spec)...)
		return spec, nil
	},
	"job": func(ctx context.Context, c kubernetes.Interface, ns, name string) (*corev1.PodSpec, error) {
		o, err := c.BatchV1().Jobs(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return &o.Spec.Template.Spec, nil
	},
	"cronjob": func(ctx context.Context, c kubernetes.Interface, ns, name string) (*corev1.PodSpec, error) {
		o, err := c.BatchV1().CronJobs(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return &o.Spec.JobTemplate.Spec.Template.Spec, nil
	},
	"pod": func(ctx context.Context, c kubernetes.Interface, ns, name string) (*corev1.PodSpec, error) {
		o, err := c.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return &o.Spec, nil
	},
}

// parseWorkload reads KIND/NAME.
func parseWorkload(s string) (kind, name string, err error) {
	kind, name, ok := strings.Cut(s, "/")
	kind = strings.ToLower(kind)
	if kinds[kind] == nil || !ok || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("-workload %q is not KIND/NAME with a deployment, statefulset, daemonset, job, cronjob or pod", s)
	}
	return kind, name, nil
}

func getWorkload(ctx context.Context, c kubernetes.Interface, namespace, kind, name string) (workload, error) {
	spec, err := kinds[kind](ctx, c, namespace, name)
	if err != nil {
		return workload{}, err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: *spec}
	return workload{kind: kind, namespace: namespace, name: name, pod: pod}, nil
}

// daemonTolerations are what the DaemonSet controller adds to its pods (listed in
// Kubernetes' documentation of DaemonSets, "Taints and tolerations").
func daemonTolerations(spec *corev1.PodSpec) []corev1.Toleration {
	tolerate := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	out := []corev1.Toleration{
		tolerate(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		tolerate(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		tolerate(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		tolerate(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		tolerate(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		tolerate(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if spec.HostNetwork {
		out = append(out, tolerate(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return out
}

// images are all that a node pulls for a pod, each once: of init containers,
// containers, debug containers and image volumes. never are those that a pod
// forbids to pull.
func (w workload) images() (pulled, never []string) {
	add := func(image string, policy corev1.PullPolicy) {
		switch {
		case image == "":
		case policy == corev1.PullNever:
			never = append(never, image)
		case !slices.Contains(pulled, image):
			pulled = append(pulled, image)
		}
	}
	spec := w.pod.Spec
	for _, c := range spec.InitContainers {
		add(c.Image, c.ImagePullPolicy)
	}
	for _, c := range spec.Containers {
		add(c.Image, c.ImagePullPolicy)
	}
	for _, c := range spec.EphemeralContainers {
		add(c.Image, c.ImagePullPolicy)
	}
	for _, v := range spec.Volumes {
		if v.Image != nil {
			add(v.Image.Reference, v.Image.PullPolicy)
		}
	}
	return pulled, never
}

// checkImages says which image is no image.
func checkImages(images []string) error {
	for _, image := range images {
		if _, err := endpoints.ParseReference(image); err != nil {
			return err
		}
	}
	return nil
}
