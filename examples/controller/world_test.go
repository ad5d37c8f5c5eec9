package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
	"github.com/pullwalk/pullwalk/internal/lab"
)

const (
	appImage = "registry.corp.test/team/app:v1"
	token    = "t0ken-of-the-agents"
)

// fleet is the agents of all nodes behind one address: each request names its node.
type fleet struct {
	files  files
	addr   netip.AddrPort
	answer func(w http.ResponseWriter, req agentclient.Request)

	mu       sync.Mutex
	requests []agentclient.Request
	asked    map[[2]string]int // node, image
	running  map[string]int    // node
	most     int               // requests that one node had at once
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	world, err := lab.New(lab.Options{})
	require.NoError(t, err)
	a := &fleet{asked: map[[2]string]int{}, running: map[string]int{}}
	a.answer = failing(classify.RouteConnectTimeout)
	s := httptest.NewUnstartedServer(http.HandlerFunc(a.serve))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{world.Certificate(agentclient.ServerName)}, MinVersion: tls.VersionTLS13}
	s.StartTLS()
	t.Cleanup(s.Close)
	a.addr = netip.MustParseAddrPort(s.Listener.Addr().String())
	dir := t.TempDir()
	a.files = files{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "token")}
	require.NoError(t, os.WriteFile(a.files.authority, world.AuthorityPEM(), 0o600))
	require.NoError(t, os.WriteFile(a.files.token, []byte(token+"\n"), 0o600))
	return a
}

func (a *fleet) serve(w http.ResponseWriter, r *http.Request) {
	var req agentclient.Request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || r.URL.Path != agentclient.Path || r.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	a.mu.Lock()
	a.requests = append(a.requests, req)
	for _, image := range req.Images {
		a.asked[[2]string{req.Node, image}]++
	}
	a.running[req.Node]++
	a.most = max(a.most, a.running[req.Node])
	answer := a.answer
	a.mu.Unlock()
	answer(w, req)
	a.mu.Lock()
	a.running[req.Node]--
	a.mu.Unlock()
}

func (a *fleet) says(answer func(http.ResponseWriter, agentclient.Request)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

func (a *fleet) all() []agentclient.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

func (a *fleet) count() int { return len(a.all()) }

// failing answers that each image fails for this cause.
func failing(cause classify.Cause) func(http.ResponseWriter, agentclient.Request) {
	return results(func(r *pullwalk.Result) {
		f := classify.New(cause, "nothing came back from 10.20.30.40:443 in 10 s")
		f.Endpoint = "registry.corp.test:443"
		r.Verdict, r.Primary, r.Findings = pullwalk.StatusFailed, &f, []classify.Finding{f}
	})
}

// results answers as an agent does, with changed results.
func results(change func(*pullwalk.Result)) func(http.ResponseWriter, agentclient.Request) {
	return func(w http.ResponseWriter, req agentclient.Request) {
		for _, image := range req.Images {
			r := &pullwalk.Result{
				Schema: pullwalk.Schema, Image: pullwalk.ImageRef{Given: image, Reference: image}, Pull: pullwalk.Touch, Verdict: pullwalk.StatusOK,
				Vantage: pullwalk.Vantage{Labels: []pullwalk.Label{{Key: agentclient.NodeLabel, Value: req.Node}}},
			}
			change(r)
			_ = json.NewEncoder(w).Encode(r)
		}
	}
}

func refusing(code int, header ...string) func(http.ResponseWriter, agentclient.Request) {
	return func(w http.ResponseWriter, _ agentclient.Request) {
		if len(header) == 2 {
			w.Header().Set(header[0], header[1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, `{"error":"no"}`)
	}
}

// recorder keeps the notes of events.
type recorder struct {
	mu    sync.Mutex
	notes []string
}

func (r *recorder) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf("%s %s %s: %s", kind, reason, regarding.(*corev1.Pod).Name, fmt.Sprintf(note, args...)))
}

// cluster is a reconciler over a fake API.
type cluster struct {
	*reconciler
	client   client.Client
	fleet    *fleet
	events   *recorder
	registry *prometheus.Registry
	clock    time.Time
	applied  int
	denied   func(verb string, o client.Object) error // nil = everything is allowed
}

func newCluster(t testing.TB, objects ...client.Object) *cluster {
	t.Helper()
	c := &cluster{fleet: newFleet(t), clock: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&corev1.Pod{}).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, byNode, indexNode).
		WithIndex(&corev1.Pod{}, byAgentNode, (agents{namespace: "pullwalk", label: "pullwalk-agent"}).index).
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string { return []string{string(o.(*corev1.Event).InvolvedObject.UID)} })
	var mu sync.Mutex
	ask := func(verb string, o client.Object) error {
		mu.Lock()
		defer mu.Unlock()
		if verb == "patch" {
			c.applied++
		}
		if c.denied == nil {
			return nil
		}
		return c.denied(verb, o)
	}
	c.client = interceptor.NewClient(b.Build(), interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := ask("get", o); err != nil {
				return err
			}
			return w.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, w client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, ok := l.(*corev1.EventList); ok {
				if err := ask("list", &corev1.Event{}); err != nil {
					return err
				}
			}
			return w.List(ctx, l, opts...)
		},
		SubResourceApply: func(ctx context.Context, w client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			if err := ask("patch", &corev1.Pod{}); err != nil {
				return err
			}
			return w.SubResource(sub).Apply(ctx, o, opts...)
		},
	})
	c.restart(t)
	return c
}

// restart makes a new process over the same cluster.
func (c *cluster) restart(t testing.TB) {
	t.Helper()
	c.events, c.registry = &recorder{}, prometheus.NewRegistry()
	m, err := newMetrics(c.registry)
	require.NoError(t, err)
	c.reconciler = &reconciler{
		pods: c.client, live: c.client, ask: c.fleet.files, agents: agents{c.client, "pullwalk", "pullwalk-agent", c.fleet.addr.Port()},
		pools: &pools{reader: c.client, keys: []string{"agentpool"}}, secrets: secrets{reader: c.client},
		teller: teller{writer: c.client.Status(), recorder: c.events}, metrics: m, now: func() time.Time { return c.clock },
	}
}

// quiet is a context whose logger says nothing.
func quiet(t testing.TB) context.Context { return logf.IntoContext(t.Context(), logr.Discard()) }

// reconcile looks at the node once.
func (c *cluster) reconcile(t testing.TB, node string) time.Duration {
	t.Helper()
	res, err := c.Reconcile(quiet(t), reconcile.Request{NamespacedName: types.NamespacedName{Name: node}})
	require.NoError(t, err)
	return res.RequeueAfter
}

// says is the condition of a Pod; the zero one if there is none.
func (c *cluster) says(t testing.TB, name string) corev1.PodCondition {
	t.Helper()
	var pod corev1.Pod
	require.NoError(t, c.client.Get(context.Background(), client.ObjectKey{Namespace: "shop", Name: name}, &pod))
	if found := condition(&pod); found != nil {
		return *found
	}
	return corev1.PodCondition{}
}

// status changes what the kubelet says of a Pod.
func (c *cluster) status(t testing.TB, name string, change func(*corev1.PodStatus)) {
	t.Helper()
	var pod corev1.Pod
	require.NoError(t, c.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, &pod))
	change(&pod.Status)
	require.NoError(t, c.client.Status().Update(t.Context(), &pod))
}

// The texts are made as kubelet and containerd make them.
func noSuchHost(image string) string {
	return fmt.Sprintf(`failed to pull and unpack image "%s": failed to resolve image: failed to do request: Head "https://registry.corp.test/v2/team/app/manifests/v1": dial tcp: lookup registry.corp.test on 10.0.0.10:53: no such host`, image)
}

func timedOut(image string) string {
	return fmt.Sprintf(`rpc error: code = DeadlineExceeded desc = failed to pull and unpack image "%s": failed to resolve image: failed to do request: Head "https://registry.corp.test/v2/team/app/manifests/v1": dial tcp 10.20.30.40:443: i/o timeout`, image)
}

func waitingFor(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func backOff(image, cause string) corev1.ContainerState {
	return waitingFor("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", image, cause))
}

// pending is a Pod whose only container is in that state.
func pending(node, name, image string, state corev1.ContainerState) *corev1.Pod {
	start := metav1.NewTime(time.Date(2026, 3, 1, 11, 50, 0, 0, time.UTC))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: start},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app", Image: image}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, StartTime: &start, HostIP: "10.1.0.4",
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Image: image, State: state}},
		},
	}
}

// agentOn is the agent's Pod of a node.
func agentOn(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "pullwalk", Name: "agent-" + node, UID: types.UID("agent-of-" + node), Labels: map[string]string{"app.kubernetes.io/name": "pullwalk-agent"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "agent", Image: "registry.corp.test/agent:v1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "127.0.0.1", PodIP: "127.0.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func nodeOfPool(name, pool string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"agentpool": pool}}}
}

// event is one as a kubelet writes it.
func event(pod *corev1.Pod, name, place, reason, message string, at time.Time, count int32) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + "." + name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, FieldPath: place},
		Reason:         reason, Message: message, Type: corev1.EventTypeWarning, Count: count,
		FirstTimestamp: metav1.NewTime(at.Add(-time.Minute)), LastTimestamp: metav1.NewTime(at),
		Source: corev1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName}, ReportingController: "kubelet", ReportingInstance: pod.Spec.NodeName,
	}
}
