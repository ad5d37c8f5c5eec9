package main

import (
	"bytes"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
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
	require.Regexp(t, `@sha256:[0-9a-f]{64}$`, c.Image)
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

// Of a Pod the controller changes its own condition: the right to patch a status allows
// readiness, addresses and labels, too, and this policy takes them away again.
func TestPolicy(t *testing.T) {
	docs := documents(t)
	var policy admissionv1.ValidatingAdmissionPolicy
	require.NoError(t, yaml.UnmarshalStrict(docs["ValidatingAdmissionPolicy"], &policy))
	require.Equal(t, admissionv1.Fail, *policy.Spec.FailurePolicy)
	require.Equal(t, []string{"pods", "pods/status"}, policy.Spec.MatchConstraints.ResourceRules[0].Resources)
	require.Contains(t, policy.Spec.MatchConditions[0].Expression, `"system:serviceaccount:pullwalk:pullwalk-controller"`)
	require.Contains(t, policy.Spec.Variables[0].Expression, string(conditionType))
	var all strings.Builder
	for _, v := range policy.Spec.Validations {
		all.WriteString(v.Expression)
	}
	// Every field of a status that the API types of this module have is held.
	status := reflect.TypeFor[corev1.PodStatus]()
	for i := range status.NumField() {
		name, _, _ := strings.Cut(status.Field(i).Tag.Get("json"), ",")
		switch name {
		case "conditions", "observedGeneration", "extendedResourceClaimStatus", "allocatedResources", "resources", "nodeAllocatableResourceClaimStatuses", "volumeHealth":
			continue // the first is judged one by one; servers from 1.30 do not know the others
		}
		require.Contains(t, all.String(), "object.?status.?"+name+" == oldObject.?status.?"+name, name)
	}
	for _, name := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		require.Contains(t, all.String(), "object.metadata.?"+name+" == oldObject.metadata.?"+name)
	}
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	require.NoError(t, yaml.UnmarshalStrict(docs["ValidatingAdmissionPolicyBinding"], &binding))
	require.Equal(t, policy.Name, binding.Spec.PolicyName)
	require.Equal(t, []admissionv1.ValidationAction{admissionv1.Deny}, binding.Spec.ValidationActions)
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
	for _, args := range [][]string{{"x"}, {"-agent-port", "0"}, {"-agent-port", "70000"}, {"-concurrent", "0"}, {"-no-such-flag"}, {"-node-tokens-of", "x"}} {
		_, err := parse(args, io.Discard)
		require.Error(t, err, args)
	}
}
