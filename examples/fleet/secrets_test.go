package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

const secretMark = "PULL-SECRET-MARK"

func newSecret(name string, kind corev1.SecretType, key string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}, Type: kind, Data: map[string][]byte{key: []byte(secretMark), "other": []byte(secretMark)}}
}

func naming(names ...string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		for _, n := range names {
			s.ImagePullSecrets = append(s.ImagePullSecrets, corev1.LocalObjectReference{Name: n})
		}
	}
}

func newAccount(name string, secrets ...string) *corev1.ServiceAccount {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}}
	for _, s := range secrets {
		sa.ImagePullSecrets = append(sa.ImagePullSecrets, corev1.LocalObjectReference{Name: s})
	}
	return sa
}

// Agents get what the kubelet would read, and only who was asked to send sends.
func TestPullSecrets(t *testing.T) {
	const docker = corev1.SecretTypeDockerConfigJson
	data := []byte(secretMark)
	tests := []struct {
		name    string
		pod     func(*corev1.PodSpec)
		objects []runtime.Object
		args    []string
		sent    []agentclient.PullSecret
		code    int
		want    string
	}{
		{
			name: "kept", pod: naming("regcred"), objects: []runtime.Object{newSecret("regcred", docker, ".dockerconfigjson")},
			code: exitOpen, want: "Open: the pull secrets of the workload (regcred) were not sent",
		},
		{
			name: "ignored", pod: naming("regcred"), objects: []runtime.Object{newSecret("regcred", docker, ".dockerconfigjson")}, args: []string{"-pull-secrets", "ignore"},
			code: exitProved, want: "asked with the nodes' own credentials; whether the workload's pull secrets work was not asked",
		},
		{
			name: "sent", pod: naming("regcred", "old", "gone", "opaque"), args: []string{"-pull-secrets", "send"},
			objects: []runtime.Object{newSecret("regcred", docker, ".dockerconfigjson"), newSecret("old", corev1.SecretTypeDockercfg, ".dockercfg"), newSecret("opaque", corev1.SecretTypeOpaque, ".dockerconfigjson")},
			sent: []agentclient.PullSecret{
				{Name: "regcred", Type: "kubernetes.io/dockerconfigjson", Data: data}, {Name: "old", Type: "kubernetes.io/dockercfg", Data: data},
				{Name: "gone", Missing: true}, {Name: "opaque", Type: "Opaque"},
			},
			code: exitProved, want: "asked with the pull secrets of the workload: regcred, old, gone, opaque",
		},
		{
			name: "the service account's", objects: []runtime.Object{newSecret("regcred", docker, ".dockerconfigjson"), newAccount("default", "regcred")}, args: []string{"-pull-secrets", "send"},
			sent: []agentclient.PullSecret{{Name: "regcred", Type: "kubernetes.io/dockerconfigjson", Data: data}},
			code: exitProved, want: "asked with the pull secrets of the workload: regcred",
		},
		{
			name: "the service account's, kept", objects: []runtime.Object{newAccount("default", "regcred")},
			code: exitOpen, want: "(regcred) were not sent",
		},
		{
			name: "a service account of a name", pod: func(s *corev1.PodSpec) { s.ServiceAccountName = "app" }, objects: []runtime.Object{newAccount("default", "regcred"), newAccount("app")}, args: []string{"-pull-secrets", "send"},
			code: exitProved, want: "PROVED",
		},
		{
			name: "the pod's own come before the service account's", pod: naming("regcred"), objects: []runtime.Object{newSecret("regcred", docker, ".dockerconfigjson"), newAccount("default", "other")}, args: []string{"-pull-secrets", "send"},
			sent: []agentclient.PullSecret{{Name: "regcred", Type: "kubernetes.io/dockerconfigjson", Data: data}},
			code: exitProved, want: "asked with the pull secrets of the workload: regcred",
		},
		{name: "none", args: []string{"-pull-secrets", "send"}, code: exitProved, want: "PROVED"},
		{name: "none to ignore", args: []string{"-pull-secrets", "ignore"}, code: exitProved, want: "PROVED"},
		{
			name: "more than an agent takes", pod: naming("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17"), args: []string{"-pull-secrets", "send"},
			code: exitOpen, want: "the workload has 17 pull secrets, and an agent takes 16",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := newAgents(t, honest)
			c := cluster(append(test.objects, newDeployment(test.pod), newNode("w1", "web"))...)
			code, out, progress := call(t.Context(), c, a.args(t, test.args...)...)
			require.Equal(t, test.code, code, out+progress)
			require.Contains(t, unwrapped(out), test.want)
			require.NotContains(t, out+progress, secretMark)
			require.NotEmpty(t, a.requests)
			for _, r := range a.requests {
				require.Equal(t, test.sent, r.PullSecrets)
			}
		})
	}
}

// Without the secrets a refusal says nothing about the workload, and any other
// failure does.
func TestRefusedWithoutSecrets(t *testing.T) {
	tests := []struct {
		name  string
		cause classify.Cause
		args  []string
		code  int
		want  string
	}{
		{"refused", classify.IdentityUnauthorized, nil, exitOpen, "w1: identity.unauthorized, but without the workload's pull secrets"},
		{"hidden", classify.ImageManifestUnknown, nil, exitOpen, "but without the workload's pull secrets"},
		{"slowed down", classify.RegistryRateLimited, nil, exitOpen, "but without the workload's pull secrets"},
		{"no such name", classify.DNSNXDOMAIN, nil, exitFailed, "dns.nxdomain at blobs.corp.test"},
		{"an unknown authority", classify.TLSUnknownAuthority, nil, exitFailed, "at blobs.corp.test"},
		{"the question is the node's identity", classify.IdentityUnauthorized, []string{"-pull-secrets", "ignore"}, exitFailed, "identity.unauthorized at blobs.corp.test"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := newAgents(t, func(_ http.ResponseWriter, req agentclient.Request) *pullwalk.Result {
				return failed(req.Node, req.Images[0], test.cause)
			})
			code, out, progress := call(t.Context(), cluster(newDeployment(naming("regcred")), newNode("w1", "web")), a.args(t, test.args...)...)
			require.Equal(t, test.code, code, out+progress)
			require.Contains(t, unwrapped(out), test.want)
		})
	}
}
