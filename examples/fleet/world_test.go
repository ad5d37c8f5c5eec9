package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

const (
	appImage  = "registry.corp.test/team/app:v1"
	initImage = "registry.corp.test/team/migrate:v1"
	token     = "TOKEN-SECRET-MARK"
	digest    = "sha256:2f05d0a1a1d5bd2cfe5ce3f9d4d1b0d7a2a1a1d5bd2cfe5ce3f9d4d1b0d7a2a1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// changeNode makes a node another than an ordinary one.
type changeNode func(*corev1.Node)

func label(key, value string) changeNode { return func(n *corev1.Node) { n.Labels[key] = value } }

func tainted(key string, effect corev1.TaintEffect) changeNode {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: "x", Effect: effect})
	}
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }

func arm(n *corev1.Node) { n.Status.NodeInfo.Architecture = "arm64" }

func made(before time.Duration) changeNode {
	return func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon.Add(-before)) }
}

// newNode is a ready node of a pool, made an hour before noon.
func newNode(name, pool string, changes ...changeNode) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	if pool != "" {
		n.Labels["agentpool"] = pool
	}
	for _, c := range changes {
		c(n)
	}
	return n
}

// newAgent is the agent's pod on a node.
func newAgent(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "agent-" + node, Namespace: "pullwalk", Labels: map[string]string{"app.kubernetes.io/name": "pullwalk-agent"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "agent", Image: "registry.corp.test/pullwalk-agent:v1"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.1"},
	}
}

// newDeployment has an init container and a container.
func newDeployment(change func(*corev1.PodSpec)) *appsv1.Deployment {
	labels := map[string]string{"app": "app"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "shop"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "migrate", Image: initImage}},
				Containers:     []corev1.Container{{Name: "app", Image: appImage}, {Name: "twin", Image: appImage}},
			}},
		},
	}
	if change != nil {
		change(&d.Spec.Template.Spec)
	}
	return d
}

// proved is what an honest agent says of an image that the node can pull.
func proved(node, image string) *pullwalk.Result {
	ref, _ := endpoints.ParseReference(image)
	return &pullwalk.Result{
		Schema: pullwalk.Schema, Verdict: pullwalk.StatusOK, Pull: pullwalk.Complete, Started: noon,
		Image:   pullwalk.ImageRef{Given: image, Reference: canonical(ref), Registry: ref.Registry, Platform: "linux/amd64", Digest: digest},
		Vantage: pullwalk.Vantage{HostName: node, NetworkNamespace: "host", Runtime: "containerd", Nameservers: []string{"10.20.0.2:53"}, Identity: "anonymous", Labels: []pullwalk.Label{{Key: "node", Value: node}}},
		Proof:   &pullwalk.Proof{Digest: digest, Layers: 3, Bytes: 103330},
	}
}

func failed(node, image string, cause classify.Cause) *pullwalk.Result {
	r := proved(node, image)
	f := classify.New(cause, "Seen from "+node+".")
	f.Endpoint = "blobs.corp.test"
	r.Verdict, r.Proof, r.Primary, r.Findings = pullwalk.StatusFailed, nil, &f, []classify.Finding{f}
	return r
}

// agents answer for all nodes, at one address: which is meant stands in the request.
type agents struct {
	addr      netip.AddrPort
	authority []byte

	mu       sync.Mutex
	requests []agentclient.Request
}

// newAgents serves over TLS and to the token, as examples/agent does. answer writes
// an answer; where it returns a result, that is the answer.
func newAgents(t testing.TB, answer func(w http.ResponseWriter, req agentclient.Request) *pullwalk.Result) *agents {
	t.Helper()
	a := &agents{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req agentclient.Request
		if r.Header.Get("Authorization") != "Bearer "+token || r.URL.Path != agentclient.Path || json.NewDecoder(r.Body).Decode(&req) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		a.mu.Lock()
		a.requests = append(a.requests, req)
		a.mu.Unlock()
		if res := answer(w, req); res != nil {
			_ = json.NewEncoder(w).Encode(res)
		}
	}))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	made := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{agentclient.ServerName}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, made, made, key.Public(), key)
	require.NoError(t, err)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	a.addr = netip.MustParseAddrPort(s.Listener.Addr().String())
	a.authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// honest agents can pull everything.
func honest(_ http.ResponseWriter, req agentclient.Request) *pullwalk.Result {
	return proved(req.Node, req.Images[0])
}

// asked are the nodes that were asked, with the image.
func (a *agents) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, r := range a.requests {
		out = append(out, r.Node+" "+r.Images[0])
	}
	return out
}

// args are the flags that reach these agents.
func (a *agents) args(t testing.TB, more ...string) []string {
	t.Helper()
	dir := t.TempDir()
	ca, secret := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(ca, a.authority, 0o600))
	require.NoError(t, os.WriteFile(secret, []byte(token+"\n"), 0o600))
	return append([]string{
		"-workload", "deployment/app", "-n", "shop", "-agent-ca", ca, "-agent-token-file", secret,
		"-agent-port", strconv.Itoa(int(a.addr.Port())),
	}, more...)
}

// cluster is a fake one, with agents on every node.
func cluster(objects ...runtime.Object) *fake.Clientset {
	for _, o := range objects {
		if n, ok := o.(*corev1.Node); ok {
			objects = append(objects, newAgent(n.Name))
		}
	}
	return fake.NewClientset(objects...)
}

// call runs the command.
func call(ctx context.Context, c kubernetes.Interface, args ...string) (code int, stdout, stderr string) {
	var out, progress bytes.Buffer
	code = run(ctx, args, &out, &progress, func(string, string) (kubernetes.Interface, string, error) { return c, "default", nil })
	return code, out.String(), progress.String()
}
