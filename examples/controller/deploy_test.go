package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// documents are those of deploy.yaml, by kind.
func documents(t *testing.T) map[string][]byte {
	t.Helper()
	raw, err := os.ReadFile("deploy.yaml")
	require.NoError(t, err)
	out := map[string][]byte{}
	for doc := range bytes.SplitSeq(raw, []byte("\n---\n")) {
		var m metav1.TypeMeta
		require.NoError(t, yaml.Unmarshal(doc, &m))
		require.NotContains(t, out, m.Kind)
		out[m.Kind] = doc
	}
	return out
}

// The rights are these and no more: nothing of a Pod but its status is written, and
// no secret is read unless somebody adds that.
func TestRights(t *testing.T) {
	docs := documents(t)
	var cluster rbacv1.ClusterRole
	require.NoError(t, yaml.UnmarshalStrict(docs["ClusterRole"], &cluster))
	require.Equal(t, []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
	}, cluster.Rules)
	var own rbacv1.Role
	require.NoError(t, yaml.UnmarshalStrict(docs["Role"], &own))
	require.Equal(t, "pullwalk", own.Namespace)
	require.Equal(t, []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"pullwalk-controller"}, Verbs: []string{"get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}, own.Rules)
}

func TestDeployment(t *testing.T) {
	var d appsv1.Deployment
	require.NoError(t, yaml.UnmarshalStrict(documents(t)["Deployment"], &d))
	pod := d.Spec.Template.Spec
	require.False(t, pod.HostNetwork, "nothing is looked at from here")
	require.Equal(t, "pullwalk-controller", pod.ServiceAccountName)
	c := pod.Containers[0]
	require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	require.True(t, *c.SecurityContext.RunAsNonRoot)
	require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
	require.Equal(t, "256Mi", c.Resources.Limits.Memory().String())
	require.Equal(t, []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "180MiB"}}, c.Env)
	require.Contains(t, c.Args, "-leader-elect")
	cfg, err := parse(c.Args, io.Discard)
	require.NoError(t, err)
	for _, file := range []string{cfg.authority, cfg.token} {
		require.True(t, strings.HasPrefix(file, c.VolumeMounts[0].MountPath+"/"), file)
	}
	// The agents' key stays with the agents.
	secret := pod.Volumes[0].Secret
	require.Equal(t, "pullwalk-agent", secret.SecretName)
	require.Equal(t, []corev1.KeyToPath{{Key: "tls.crt", Path: "tls.crt"}, {Key: "token", Path: "token"}}, secret.Items)
}

func TestFlags(t *testing.T) {
	var help bytes.Buffer
	_, err := parse([]string{"-h"}, &help)
	require.Error(t, err)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, name := range []string{"-send-pull-secrets", "-pool-labels"} {
		require.Contains(t, help.String(), name)
		require.Contains(t, string(readme), name)
	}
	for _, args := range [][]string{{"x"}, {"-agent-port", "0"}, {"-agent-port", "70000"}, {"-concurrent", "0"}, {"-no-such-flag"}} {
		_, err := parse(args, io.Discard)
		require.Error(t, err, args)
	}
}
