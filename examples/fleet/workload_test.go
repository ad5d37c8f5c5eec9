package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

func TestKindsOfWorkloads(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "app", Namespace: "shop"}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Image: appImage}}}
	template := corev1.PodTemplateSpec{Spec: spec}
	objects := map[string]runtime.Object{
		"deployment":  &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template}},
		"statefulset": &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: template}},
		"daemonset":   &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template}},
		"job":         &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}},
		"cronjob":     &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}},
		"pod":         &corev1.Pod{ObjectMeta: meta, Spec: spec},
	}
	require.Len(t, objects, len(kinds))
	for kind, object := range objects {
		t.Run(kind, func(t *testing.T) {
			w, err := getWorkload(t.Context(), fake.NewClientset(object), "shop", kind, "app")
			require.NoError(t, err)
			require.Equal(t, appImage, w.pod.Spec.Containers[0].Image)
			require.Equal(t, kind == "daemonset", len(w.pod.Spec.Tolerations) > 0)
			_, err = getWorkload(t.Context(), fake.NewClientset(), "shop", kind, "app")
			require.True(t, apierrors.IsNotFound(err), err)
		})
	}
}

func TestImagesOfAPod(t *testing.T) {
	w := workload{pod: &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers:      []corev1.Container{{Image: "init"}},
		Containers:          []corev1.Container{{Image: "app"}, {Image: "init"}, {Image: "here", ImagePullPolicy: corev1.PullNever}, {Image: ""}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Image: "debug"}}},
		Volumes: []corev1.Volume{{Name: "none"}, {Name: "model", VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: "model"},
		}}},
	}}}
	pulled, never := w.images()
	require.Equal(t, []string{"init", "app", "debug", "model"}, pulled)
	require.Equal(t, []string{"here"}, never)
}

func TestParseWorkload(t *testing.T) {
	for _, s := range []string{"", "app", "deployment", "deployment/", "replicaset/app", "deployment/a/b", "/app"} {
		_, _, err := parseWorkload(s)
		require.Error(t, err, s)
	}
	kind, name, err := parseWorkload("Deployment/app")
	require.NoError(t, err)
	require.Equal(t, "deployment/app", kind+"/"+name)
}
