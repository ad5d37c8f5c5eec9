package main

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pullwalk/pullwalk/classify"
)

// conditionType is the condition of a Pod that is written here and nowhere else. A
// kubelet keeps conditions that are not its own: readiness gates rest on that.
const conditionType corev1.PodConditionType = "pullwalk.dev/ImagePull"

const (
	fieldOwner  = "pullwalk-controller"
	eventReason = "PullDiagnosed"
	maxNote     = 1000 // bytes; events.k8s.io takes 1,024
)

// condition is what was said of the Pod, nil = nothing.
func condition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == conditionType {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// keyOf reads back what a condition depended on. It stands at the end of the
// message: an annotation would need the right to change Pods, their images included.
func keyOf(c *corev1.PodCondition) string {
	at := strings.LastIndex(c.Message, " [")
	if at < 0 {
		return ""
	}
	return strings.TrimSuffix(c.Message[at+2:], "]")
}

// teller writes conditions and events.
type teller struct {
	writer     client.SubResourceWriter // of the status
	recorder   events.EventRecorder
	eventsOnly bool // no condition is written
}

// tell writes the conclusion on the Pod if it is another than what stands there.
// told is what was said last by this process, "" = nothing; the new one comes back.
func (t teller) tell(ctx context.Context, pod *corev1.Pod, c conclusion, told string, now time.Time) (string, error) {
	old := condition(pod)
	if told == "" && old != nil {
		told = keyOf(old)
	}
	known := told != "" && (old == nil || old.Status != corev1.ConditionTrue)
	if c.key == told || c.guess && known {
		return told, nil // a guess replaces no answer, not even one from before a restart
	}
	changed := metav1.NewTime(now)
	if old != nil && old.Status == c.status {
		changed = old.LastTransitionTime
	}
	says := corev1ac.PodCondition().WithType(conditionType).WithStatus(c.status).WithReason(c.reason).
		WithMessage(c.message + " [" + c.key + "]").
		WithLastProbeTime(metav1.NewTime(now)).WithLastTransitionTime(changed)
	apply := corev1ac.Pod(pod.Name, pod.Namespace).
		WithUID(pod.UID). // and not a new Pod of that name
		WithStatus(corev1ac.PodStatus().WithConditions(says))
	var err error
	if !t.eventsOnly {
		err = t.writer.Apply(ctx, apply, client.FieldOwner(fieldOwner), client.ForceOwnership)
	}
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return c.key, nil // it has gone meanwhile
	case apierrors.IsInvalid(err): // or there is a new one of its name: "metadata.uid: field is immutable"
		logf.FromContext(ctx).Info("no condition", "pod", client.ObjectKeyFromObject(pod), "reason", c.reason, "error", err.Error())
		return c.key, nil
	case apierrors.IsForbidden(err):
		// Again will not help. The event still tells, and the log.
		logf.FromContext(ctx).Error(err, "no condition", "pod", client.ObjectKeyFromObject(pod), "reason", c.reason)
	case err != nil:
		return told, err
	}
	if c.source == sourceProbe {
		note := classify.Redact(strings.TrimSpace(c.message+" "+c.advice), maxNote)
		t.recorder.Eventf(pod, nil, corev1.EventTypeWarning, eventReason, "Diagnose", "%s", note)
	}
	return c.key, nil
}
