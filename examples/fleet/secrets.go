package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// What -pull-secrets says of the workload's pull secrets.
const (
	secretsKeep   = ""       // they stay here, and what they decide stays open
	secretsSend   = "send"   // agents get them
	secretsIgnore = "ignore" // the question is about the nodes' own credentials
)

// credentials are what agents get beside the node's own.
type credentials struct {
	secrets []agentclient.PullSecret
	// unsent says why the agents pull with less than the kubelet would; "" = they
	// do not.
	unsent string
	note   string // worth saying; ""
}

// workloadCredentials finds what the kubelet would offer for a pod of the workload.
func workloadCredentials(ctx context.Context, c kubernetes.Interface, w workload, mode string) credentials {
	names, err := secretNames(ctx, c, w)
	list := strings.Join(names, ", ")
	switch {
	case mode == secretsIgnore && err == nil && len(names) == 0:
		return credentials{}
	case mode == secretsIgnore:
		return credentials{note: "asked with the nodes' own credentials; whether the workload's pull secrets work was not asked"}
	case err != nil:
		return credentials{unsent: "whether the service account adds pull secrets is not known: " + apiError(err)}
	case len(names) == 0:
		return credentials{}
	case mode == secretsKeep:
		return credentials{unsent: "the pull secrets of the workload (" + list + ") were not sent: -pull-secrets send or ignore"}
	}
	var out credentials
	for _, name := range names {
		s, err := c.CoreV1().Secrets(w.namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			out.secrets = append(out.secrets, agentclient.PullSecret{Name: name, Missing: true})
		case err != nil:
			return credentials{unsent: fmt.Sprintf("the pull secret %s could not be read: %s", name, apiError(err))}
		default:
			out.secrets = append(out.secrets, pullSecret(s))
		}
	}
	if len(out.secrets) > agentclient.MaxPullSecrets {
		return credentials{unsent: fmt.Sprintf("the workload has %d pull secrets, and an agent takes %d", len(out.secrets), agentclient.MaxPullSecrets)}
	}
	out.note = "asked with the pull secrets of the workload: " + list
	return out
}

// secretNames are those of the pod. Without any, admission gives a pod those of
// its service account (ServiceAccount admission controller).
func secretNames(ctx context.Context, c kubernetes.Interface, w workload) ([]string, error) {
	refs := w.pod.Spec.ImagePullSecrets
	if len(refs) == 0 && w.kind != "pod" {
		account := w.pod.Spec.ServiceAccountName
		if account == "" {
			account = "default"
		}
		sa, err := c.CoreV1().ServiceAccounts(w.namespace).Get(ctx, account, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if err == nil {
			refs = sa.ImagePullSecrets
		}
	}
	var out []string
	for _, r := range refs {
		if r.Name != "" {
			out = append(out, r.Name)
		}
	}
	return out, nil
}

// pullSecret takes of a secret what the kubelet would read, and nothing of one that
// it would not: such a name may be that of any secret.
func pullSecret(s *corev1.Secret) agentclient.PullSecret {
	out := agentclient.PullSecret{Name: s.Name, Type: string(s.Type)}
	switch s.Type {
	case corev1.SecretTypeDockerConfigJson:
		out.Data = s.Data[corev1.DockerConfigJsonKey]
	case corev1.SecretTypeDockercfg:
		out.Data = s.Data[corev1.DockerConfigKey]
	}
	return out
}
