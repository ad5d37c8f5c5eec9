package main

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pullwalk/pullwalk/classify"
)

// maxMessage bounds what is taken of a text that the cluster holds.
const maxMessage = 8 << 10

// failure is an image that a Pod waits for, as the cluster says it.
type failure struct {
	image   string
	place   string // as events name it, spec.containers{app}; "" = the sandbox
	sandbox bool
	record  classify.EventRecord // what is said of it now
}

// decided says that the kubelet itself decided, before any packet: nothing is left
// to probe.
func (f failure) decided() bool {
	return f.record.Reason == "InvalidImageName" || f.record.Reason == "ErrImageNeverPull"
}

// waitsForPull says whether a container's reason to wait is about its image.
func waitsForPull(reason string) bool {
	switch reason {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError", "InvalidImageName", "RegistryUnavailable", "SignatureValidationFailed":
		return true
	}
	return false
}

// failures lists what the Pod's containers wait for, init containers first. The
// status is the present; events may be minutes old and name a cause that was.
func failures(pod *corev1.Pod) []failure {
	var out []failure
	add := func(field string, statuses []corev1.ContainerStatus, image func(name string) string) {
		for i := range statuses {
			s := &statuses[i]
			if s.State.Waiting == nil || !waitsForPull(s.State.Waiting.Reason) {
				continue
			}
			f := failure{image: image(s.Name), place: field + "{" + s.Name + "}"}
			if f.image == "" {
				f.image = s.Image
			}
			f.record = record(pod, s.State.Waiting.Reason, s.State.Waiting.Message)
			f.record.Status = true
			if volume := mounted(pod, f.record); volume != "" {
				f.image = volume
			}
			f.record.Image = f.image
			out = append(out, f)
		}
	}
	add("spec.initContainers", pod.Status.InitContainerStatuses, asked(pod.Spec.InitContainers))
	add("spec.containers", pod.Status.ContainerStatuses, asked(pod.Spec.Containers))
	add("spec.ephemeralContainers", pod.Status.EphemeralContainerStatuses, func(name string) string {
		for _, c := range pod.Spec.EphemeralContainers {
			if c.Name == name {
				return c.Image
			}
		}
		return ""
	})
	return out
}

// asked finds the image that a container asks for. Its status may name another
// reference to the same content.
func asked(containers []corev1.Container) func(string) string {
	return func(name string) string {
		for i := range containers {
			if containers[i].Name == name {
				return containers[i].Image
			}
		}
		return ""
	}
}

// mounted is the image that the text names, if it is not the container's own but
// one of the Pod's volumes: the container then waits for that.
func mounted(pod *corev1.Pod, r classify.EventRecord) string {
	image := classify.Event(r.Reason, r.Message).Image
	for i := range pod.Spec.Volumes {
		if v := pod.Spec.Volumes[i].Image; v != nil && v.Reference == image && image != "" {
			return image
		}
	}
	return ""
}

func record(pod *corev1.Pod, reason, message string) classify.EventRecord {
	return classify.EventRecord{
		Reason: reason, Message: message[:min(len(message), maxMessage)],
		Namespace: pod.Namespace, Pod: pod.Name, Node: pod.Spec.NodeName,
	}
}

// creating says that the Pod is on its node and has no sandbox yet, as far as its
// status tells. If the sandbox's own image cannot be pulled, nothing else shows:
// that stands in events only.
func creating(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodPending {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue {
			return false
		}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.State.Waiting == nil || s.State.Waiting.Reason != "ContainerCreating" && s.State.Waiting.Reason != "PodInitializing" {
			return false
		}
	}
	return true
}

// since is when the kubelet first saw the Pod.
func since(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return pod.CreationTimestamp.Time
}

// concerns says whether the Pod is looked at: it is on a node, lives, and waits
// for an image, may wait for its sandbox, or still bears what was said of it.
func concerns(pod *corev1.Pod) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return pod.DeletionTimestamp == nil && !ended && concerned(pod)
}

// concerned is concerns for a Pod that may have ended: its node hears of that.
func concerned(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	if c := condition(pod); c != nil && c.Status != corev1.ConditionTrue {
		return true
	}
	return creating(pod) || len(failures(pod)) > 0
}

// present counts the Pod's containers, and those of them whose image is there.
func present(pod *corev1.Pod) (images, all int) {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waits := s.State.Waiting != nil && s.ImageID == "" && s.State.Waiting.Reason != "CrashLoopBackOff"
		if !waits {
			images++
		}
	}
	return images, len(pod.Spec.InitContainers) + len(pod.Spec.Containers)
}
