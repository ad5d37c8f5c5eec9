package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// A real kube-apiserver and etcd: whether rbac.yaml is enough, and no more than
// that, only they can say. KUBEBUILDER_ASSETS names their directory.
func TestOnARealCluster(t *testing.T) {
	config := startCluster(t)
	ctx := t.Context()
	admin := kubernetes.NewForConfigOrDie(config)
	for _, name := range []string{"shop", "pullwalk"} {
		_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	roles := applyRBAC(t, admin)
	for _, object := range []*corev1.Node{
		newNode("w-old", "web"), newNode("w-new", "web"), newNode("g1", "gpu", tainted("gpu", corev1.TaintEffectNoSchedule)), newNode("x1", "edge", cordoned),
	} {
		createNode(t, admin, object)
	}
	_, err := admin.AppsV1().Deployments("shop").Create(ctx, newDeployment(func(s *corev1.PodSpec) {
		s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "regcred"}}
	}), metav1.CreateOptions{})
	require.NoError(t, err)
	secret := newSecret("regcred", corev1.SecretTypeDockerConfigJson, ".dockerconfigjson")
	secret.Data[".dockerconfigjson"] = []byte(`{"auths":{"registry.corp.test":{"auth":"cmVhZGVyOnB3"}}}`)
	_, err = admin.CoreV1().Secrets("shop").Create(ctx, secret, metav1.CreateOptions{})
	require.NoError(t, err)

	as := rest.CopyConfig(config)
	as.Impersonate.UserName = "system:serviceaccount:pullwalk:pullwalk-fleet"
	fleet := kubernetes.NewForConfigOrDie(as)
	a := newAgents(t, func(_ http.ResponseWriter, req agentclient.Request) *pullwalk.Result {
		r := proved(req.Node, req.Images[0])
		r.Started = time.Now() // the nodes are as young as the test
		return r
	})

	code, out, progress := call(ctx, fleet, a.args(t, "-pool", "spot")...)
	require.Equal(t, exitOpen, code, out+progress)
	require.NotContains(t, out, "forbidden")
	for _, want := range []string{
		"the pull secrets of the workload (regcred) were not sent",
		"none of its nodes can take a pod now (1, the first: taint node.kubernetes.io/unschedulable:NoSchedule)",
		"it scales from nothing", "gpu (1 node) cannot take it: taint gpu:NoSchedule", "1 of 3 pools proved",
	} {
		require.Contains(t, unwrapped(out), want)
	}
	require.Len(t, a.asked(), 2, "two images on one node of web")

	// Not allowed by default, and allowed with the lines that the file keeps ready.
	code, out, _ = call(ctx, fleet, a.args(t, "-pull-secrets", "send")...)
	require.Equal(t, exitOpen, code)
	require.Contains(t, unwrapped(out), "the pull secret regcred could not be read: forbidden (rbac.yaml says what is needed)")
	role := roles["shop/pullwalk-fleet"]
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"regcred"}, Verbs: []string{"get"}})
	_, err = admin.RbacV1().Roles("shop").Update(ctx, role, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, admin.CoreV1().Nodes().Delete(ctx, "x1", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { // the authorizer reads roles from a cache
		code, out, progress = call(ctx, fleet, a.args(t, "-pull-secrets", "send")...)
		return code == exitProved
	}, 30*time.Second, 200*time.Millisecond)
	require.Equal(t, secret.Data[".dockerconfigjson"], a.requests[len(a.requests)-1].PullSecrets[0].Data)
	require.NotContains(t, out+progress, "cmVhZGVyOnB3")

	for _, kind := range []string{"statefulset", "daemonset", "job", "cronjob", "pod"} {
		code, _, progress = call(ctx, fleet, a.args(t, "-workload", kind+"/none")...)
		require.Equal(t, exitInvalid, code, progress)
		require.Contains(t, progress, "not found", "that it does not exist is told to those alone who may read it")
	}

	require.NoError(t, admin.RbacV1().ClusterRoleBindings().Delete(ctx, "pullwalk-fleet", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		code, out, _ = call(ctx, fleet, a.args(t)...)
		return code == exitOpen
	}, 30*time.Second, 200*time.Millisecond)
	require.Contains(t, unwrapped(out), "nodes cannot be listed: forbidden (rbac.yaml says what is needed)")
}

// createNode makes a node with its status, which is not taken with it.
func createNode(t *testing.T, c kubernetes.Interface, n *corev1.Node) {
	t.Helper()
	n.CreationTimestamp = metav1.Time{}
	status := n.Status
	made, err := c.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
	require.NoError(t, err)
	made.Status = status
	_, err = c.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	// Admission taints every new node until somebody says that it is ready.
	made, err = c.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{})
	require.NoError(t, err)
	made.Spec.Taints = n.Spec.Taints
	_, err = c.CoreV1().Nodes().Update(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)

	pod := newAgent(n.Name)
	podStatus := pod.Status
	pod, err = c.CoreV1().Pods("pullwalk").Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	podStatus.PodIPs = []corev1.PodIP{{IP: podStatus.PodIP}}
	pod.Status = podStatus
	_, err = c.CoreV1().Pods("pullwalk").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// applyRBAC makes what rbac.yaml says, and returns its roles.
func applyRBAC(t *testing.T, c kubernetes.Interface) map[string]*rbacv1.Role {
	t.Helper()
	raw, err := os.ReadFile("rbac.yaml")
	require.NoError(t, err)
	ctx, opts := t.Context(), metav1.CreateOptions{}
	roles := map[string]*rbacv1.Role{}
	for _, doc := range bytes.Split(raw, []byte("\n---\n")) {
		var meta metav1.PartialObjectMetadata
		require.NoError(t, yaml.Unmarshal(doc, &meta))
		into := func(o any) { require.NoError(t, yaml.UnmarshalStrict(doc, o)) }
		switch meta.Kind {
		case "ServiceAccount":
			var o corev1.ServiceAccount
			into(&o)
			_, err = c.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, &o, opts)
		case "ClusterRole":
			var o rbacv1.ClusterRole
			into(&o)
			_, err = c.RbacV1().ClusterRoles().Create(ctx, &o, opts)
		case "ClusterRoleBinding":
			var o rbacv1.ClusterRoleBinding
			into(&o)
			_, err = c.RbacV1().ClusterRoleBindings().Create(ctx, &o, opts)
		case "Role":
			var o rbacv1.Role
			into(&o)
			roles[o.Namespace+"/"+o.Name], err = c.RbacV1().Roles(o.Namespace).Create(ctx, &o, opts)
		case "RoleBinding":
			var o rbacv1.RoleBinding
			into(&o)
			_, err = c.RbacV1().RoleBindings(o.Namespace).Create(ctx, &o, opts)
		default:
			t.Fatalf("rbac.yaml has a %q", meta.Kind)
		}
		require.NoError(t, err)
	}
	return roles
}

// startCluster returns the configuration of its administrator. Nothing runs but the
// two programs: no controller, no scheduler, no kubelet.
func startCluster(t *testing.T) *rest.Config {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		const why = "KUBEBUILDER_ASSETS names no kube-apiserver and etcd"
		if os.Getenv("PULLWALK_REQUIRE_KUBE") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	accountKey, tokens := filepath.Join(dir, "account.key"), filepath.Join(dir, "tokens")
	require.NoError(t, os.WriteFile(accountKey, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(tokens, []byte("admin-token,admin,1,system:masters\n"), 0o600))
	ports := freePorts(t, 3)
	etcd := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	start(t, filepath.Join(assets, "etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", fmt.Sprintf("http://127.0.0.1:%d", ports[1]), "--unsafe-no-fsync")
	start(t, filepath.Join(assets, "kube-apiserver"), "--etcd-servers", etcd, "--secure-port", fmt.Sprint(ports[2]), "--bind-address", "127.0.0.1",
		"--cert-dir", filepath.Join(dir, "cert"), "--token-auth-file", tokens, "--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-issuer", "https://kubernetes.test", "--service-account-key-file", accountKey, "--service-account-signing-key-file", accountKey,
		"--disable-admission-plugins", "ServiceAccount", "--endpoint-reconciler-type", "none")
	config := &rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", ports[2]), BearerToken: "admin-token", QPS: 100, Burst: 100,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}, // it has made its own certificate a moment ago
		WarningHandler:  rest.NoWarnings{},
	}
	admin := kubernetes.NewForConfigOrDie(config)
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return admin.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
	}, 2*time.Minute, 200*time.Millisecond, "the kube-apiserver is not ready")
	return config
}

// start runs a program until the test ends, and shows what it said if it failed.
func start(t *testing.T, program string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", filepath.Base(program), said.Bytes()[max(0, said.Len()-2000):])
		}
	})
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close() // all at once, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
