package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// secrets reads the pull secrets of Pods, if they are to be sent to the agents.
type secrets struct {
	reader client.Reader // no cache: the right to get is enough, and nothing is kept
	send   bool
}

// names are the pull secrets of a Pod. Those of its service account stand in the
// Pod: admission wrote them there.
func names(pod *corev1.Pod) []string {
	var out []string
	for _, s := range pod.Spec.ImagePullSecrets {
		if s.Name != "" {
			out = append(out, s.Name)
		}
	}
	return out
}

// identity tells questions apart that are asked with different secrets.
func (s secrets) identity(pod *corev1.Pod, f failure) string {
	if !s.send || f.sandbox || len(names(pod)) == 0 {
		return ""
	}
	return pod.Namespace + "/" + strings.Join(names(pod), "/")
}

// of reads the Pod's secrets. Either all come back or the reason why not: half of
// them would be another identity.
func (s secrets) of(ctx context.Context, pod *corev1.Pod) ([]agentclient.PullSecret, error) {
	all := names(pod)
	if len(all) > agentclient.MaxPullSecrets {
		return nil, fmt.Errorf("%d are more than the %d that an agent takes", len(all), agentclient.MaxPullSecrets)
	}
	var out []agentclient.PullSecret
	size := 0
	for _, name := range all {
		var secret corev1.Secret
		err := s.reader.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, &secret)
		if apierrors.IsNotFound(err) {
			out = append(out, agentclient.PullSecret{Name: name, Missing: true})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read: %s", name, classify.Redact(err.Error(), 200))
		}
		key := corev1.DockerConfigJsonKey
		if secret.Type == corev1.SecretTypeDockercfg {
			key = corev1.DockerConfigKey
		}
		data := secret.Data[key]
		if size += len(data); size > agentclient.MaxRequest/2 { // base64 and the rest of the request come on top
			return nil, fmt.Errorf("they are larger than an agent takes")
		}
		out = append(out, agentclient.PullSecret{Name: name, Type: string(cmp.Or(secret.Type, corev1.SecretTypeDockerConfigJson)), Data: data})
	}
	return out, nil
}
