package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

func oneFailing(t testing.TB, more ...client.Object) *cluster {
	t.Helper()
	return newCluster(t, append(more, pending("node-1", "web", appImage, backOff(appImage, noSuchHost(appImage))), agentOn("node-1"), nodeOfPool("node-1", "blue"))...)
}

// While it stays broken the same way, it is asked for ever more seldom, and nothing
// is written.
func TestBackOff(t *testing.T) {
	c := oneFailing(t)
	var waits []time.Duration
	for range 7 {
		waits = append(waits, c.reconcile(t, "node-1"))
		c.clock = c.clock.Add(waits[len(waits)-1])
	}
	m := time.Minute
	require.Equal(t, []time.Duration{m, 2 * m, 4 * m, 8 * m, 15 * m, 15 * m, 15 * m}, waits)
	require.Equal(t, 7, c.fleet.count())
	require.Equal(t, 2, c.applied, "the guess, and the answer")
	require.Len(t, c.events.notes, 1)

	// Something else is broken now: that is told.
	before := c.says(t, "web")
	c.fleet.says(failing(classify.TLSUnknownAuthority))
	c.reconcile(t, "node-1")
	after := c.says(t, "web")
	require.Equal(t, "TlsUnknownAuthority", after.Reason)
	require.Equal(t, before.LastTransitionTime, after.LastTransitionTime, "it was False and is")
	require.True(t, before.LastProbeTime.Before(&after.LastProbeTime))
	require.Len(t, c.events.notes, 2)
}

// Another cause in the Pod's status brings the next request forward, once.
func TestTheTextChanges(t *testing.T) {
	c := oneFailing(t)
	c.reconcile(t, "node-1")
	for range 3 {
		c.clock = c.clock.Add(c.reconcile(t, "node-1"))
	}
	require.Equal(t, 3, c.fleet.count())
	c.clock = c.clock.Add(-3 * time.Minute) // it would be asked again in 3 minutes, 4 after the last time
	says := func(text string) time.Duration {
		c.status(t, "web", func(s *corev1.PodStatus) { s.ContainerStatuses[0].State = backOff(appImage, text) })
		return c.reconcile(t, "node-1")
	}
	require.Equal(t, time.Minute, says(timedOut(appImage)))
	require.Equal(t, 3, c.fleet.count(), "not so soon")
	c.clock = c.clock.Add(time.Minute)
	require.Equal(t, 8*time.Minute, c.reconcile(t, "node-1"))
	require.Equal(t, 4, c.fleet.count())
	for range 3 { // it comes and goes
		require.Equal(t, 15*time.Minute/4, says(noSuchHost(appImage)))
		require.LessOrEqual(t, says(timedOut(appImage)), 8*time.Minute)
	}
	require.Equal(t, 4, c.fleet.count())
}

func TestRestart(t *testing.T) {
	c := oneFailing(t)
	c.reconcile(t, "node-1")
	before, applied := c.says(t, "web"), c.applied
	require.Equal(t, "RouteConnectTimeout", before.Reason)

	c.restart(t)
	c.reconcile(t, "node-1")
	require.Equal(t, 2, c.fleet.count(), "a new process asks once")
	require.Equal(t, applied, c.applied, "and finds that all is said")
	require.Empty(t, c.events.notes)
	require.Equal(t, before, c.says(t, "web"))
}

// More sandboxes without image than are looked at in one go: none is called repaired
// because nobody has looked yet, nor because nobody may.
func TestSandboxes(t *testing.T) {
	const pause = "registry.corp.test/pause:3"
	objects := []client.Object{agentOn("node-1")}
	for i := range 3 * maxLooks {
		pod := pending("node-1", fmt.Sprintf("web-%02d", i), appImage, waitingFor("ContainerCreating", ""))
		pod.Status.Conditions[0].Status = corev1.ConditionFalse
		objects = append(objects, pod, event(pod, "1", "", "FailedCreatePodSandBox",
			fmt.Sprintf("Failed to create pod sandbox: rpc error: code = Unknown desc = failed to pull image %q: %s", pause, noSuchHost(pause)), pod.Status.StartTime.Time, 9))
	}
	c := newCluster(t, objects...)
	settled := func() {
		t.Helper()
		for i := 0; c.reconcile(t, "node-1") <= time.Second; i++ {
			require.Less(t, i, 10)
		}
		for i := range 3 * maxLooks {
			require.Equal(t, "RouteConnectTimeout", c.says(t, fmt.Sprintf("web-%02d", i)).Reason, i)
		}
	}
	settled()
	require.Equal(t, 1, c.fleet.count())
	applied := c.applied
	c.restart(t)
	settled()
	require.Equal(t, applied, c.applied)
	c.restart(t)
	c.denied = func(_ string, o client.Object) error {
		if _, ok := o.(*corev1.Event); ok {
			return forbidden("events")
		}
		return nil
	}
	settled()
	require.Equal(t, applied, c.applied)
	c.denied = nil

	// The sandbox is there: what was said is over.
	c.status(t, "web-00", func(s *corev1.PodStatus) { s.Conditions[0].Status = corev1.ConditionTrue })
	c.clock = c.clock.Add(time.Hour)
	c.reconcile(t, "node-1")
	require.Equal(t, "PullNotReported", c.says(t, "web-00").Reason)
}

// An agent that is silent for a while takes back nothing of what it saw.
func TestAgentSilentAfterAnAnswer(t *testing.T) {
	c := oneFailing(t)
	c.reconcile(t, "node-1")
	c.fleet.says(refusing(500))
	var waits []time.Duration
	for start := c.clock; c.clock.Before(start.Add(answerKept)); {
		require.Equal(t, "RouteConnectTimeout", c.says(t, "web").Reason, c.clock)
		wait := c.reconcile(t, "node-1")
		waits = append(waits, wait)
		c.clock = c.clock.Add(wait)
	}
	require.Equal(t, agentAgain, waits[1])
	require.Equal(t, agentLast, waits[len(waits)-1])
	require.Less(t, len(waits), 15)
	c.reconcile(t, "node-1")
	require.Equal(t, "AgentRefuses", c.says(t, "web").Reason)
	c.fleet.says(failing(classify.RouteConnectTimeout))
	c.clock = c.clock.Add(agentLast)
	c.reconcile(t, "node-1")
	require.Equal(t, "RouteConnectTimeout", c.says(t, "web").Reason)
}

func TestRecovery(t *testing.T) {
	c := oneFailing(t)
	c.reconcile(t, "node-1")
	require.Contains(t, scrape(t, c), `pullwalk_failing_pods{cause="route.connect-timeout",layer="route",pool="blue",source="probe"} 1`)

	c.status(t, "web", func(s *corev1.PodStatus) { s.ContainerStatuses[0].State = waitingFor("ContainerCreating", "") })
	c.reconcile(t, "node-1")
	require.Equal(t, "PullNotReported", c.says(t, "web").Reason)
	require.Equal(t, corev1.ConditionUnknown, c.says(t, "web").Status)

	c.status(t, "web", func(s *corev1.PodStatus) {
		s.Phase = corev1.PodRunning
		s.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		s.ContainerStatuses[0].ImageID = "registry.corp.test/team/app@sha256:12"
	})
	c.reconcile(t, "node-1")
	require.Equal(t, "ImagesPresent", c.says(t, "web").Reason)
	require.Equal(t, corev1.ConditionTrue, c.says(t, "web").Status)
	require.Contains(t, c.says(t, "web").Message, "proves nothing for other nodes")
	require.NotContains(t, scrape(t, c), "pullwalk_failing_pods")
	require.Equal(t, 1, c.fleet.count())

	applied := c.applied
	c.clock = c.clock.Add(time.Hour)
	require.Zero(t, c.reconcile(t, "node-1"))
	require.Empty(t, c.nodes, "nothing is kept of a node without trouble")
	require.Equal(t, applied, c.applied)

	// And it breaks again.
	c.status(t, "web", func(s *corev1.PodStatus) { s.ContainerStatuses[0].State = backOff(appImage, noSuchHost(appImage)) })
	c.reconcile(t, "node-1")
	require.Equal(t, "RouteConnectTimeout", c.says(t, "web").Reason)
	require.Equal(t, c.clock, c.says(t, "web").LastTransitionTime.UTC())
}

func TestDeleted(t *testing.T) {
	c := oneFailing(t)
	c.reconcile(t, "node-1")
	for i := range 5 { // made anew under other names, as a Job does
		require.NoError(t, c.client.Delete(t.Context(), pending("node-1", "web", "", corev1.ContainerState{})))
		c.clock = c.clock.Add(time.Second)
		require.NotZero(t, c.reconcile(t, "node-1"))
		again := pending("node-1", "web", appImage, backOff(appImage, noSuchHost(appImage)))
		again.UID = types.UID(fmt.Sprint("again-", i))
		require.NoError(t, c.client.Create(t.Context(), again))
		c.reconcile(t, "node-1")
		require.Equal(t, "RouteConnectTimeout", c.says(t, "web").Reason)
	}
	require.Equal(t, 1, c.fleet.count(), "a Pod that is made anew each second is not asked for each second")

	require.NoError(t, c.client.Delete(t.Context(), pending("node-1", "web", "", corev1.ContainerState{})))
	c.clock = c.clock.Add(c.reconcile(t, "node-1"))
	require.NotContains(t, scrape(t, c), "pullwalk_failing_pods")
	require.Zero(t, c.reconcile(t, "node-1"))
	require.Empty(t, c.nodes)
}

// Many Pods of a node share what they wait for; what one request holds is bounded;
// one image that is refused stops no other.
func TestManyOnOneNode(t *testing.T) {
	objects := []client.Object{agentOn("node-1")}
	for i := range 40 {
		image := fmt.Sprintf("registry.corp.test/team/app-%d:v1", i%10)
		objects = append(objects, pending("node-1", fmt.Sprintf("web-%02d", i), image, backOff(image, noSuchHost(image))))
	}
	c := newCluster(t, objects...)
	unwelcome := "registry.corp.test/team/app-3:v1"
	c.fleet.says(func(w http.ResponseWriter, req agentclient.Request) {
		if strings.Contains(strings.Join(req.Images, " "), unwelcome) {
			refusing(http.StatusForbidden)(w, req)
			return
		}
		failing(classify.RouteConnectTimeout)(w, req)
	})
	requests := 0
	for c.reconcile(t, "node-1") <= time.Second {
		if requests++; requests > 20 {
			t.Fatal("it does not settle")
		}
	}
	for i := range 40 {
		want := "RouteConnectTimeout"
		if i%10 == 3 {
			want = "AgentRefuses"
		}
		require.Equal(t, want, c.says(t, fmt.Sprintf("web-%02d", i)).Reason, i)
	}
	require.Equal(t, 7, c.fleet.count(), "4, refused, and so 4 times one; then the other 6 in two")
	for _, req := range c.fleet.all() {
		require.LessOrEqual(t, len(req.Images), maxBatch)
		require.Len(t, req.Events, len(req.Images))
		for i, e := range req.Events {
			require.Equal(t, req.Images[i], e.Image)
		}
	}
	require.Contains(t, scrape(t, c), `pullwalk_failing_pods{cause="route.connect-timeout",layer="route",pool="unknown",source="probe"} 36`)
}

func TestPodWithSeveralImages(t *testing.T) {
	pod := pending("node-1", "web", "registry.corp.test/a:1", backOff("registry.corp.test/a:1", noSuchHost("registry.corp.test/a:1")))
	for _, name := range []string{"b", "c", "d", "e", "f"} {
		image := "registry.corp.test/" + name + ":1"
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: image})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, State: backOff(image, noSuchHost(image))})
	}
	c := newCluster(t, pod, agentOn("node-1"))
	c.fleet.says(results(func(r *pullwalk.Result) {
		if strings.Contains(r.Image.Given, "/b:") {
			f := classify.New(classify.RegistryRateLimited, "429")
			r.Verdict, r.Primary = pullwalk.StatusFailed, &f
		}
	}))
	require.LessOrEqual(t, c.reconcile(t, "node-1"), time.Second)
	require.Equal(t, "NotProbedYet", c.says(t, "web").Reason, "half of the answers are no answer")
	c.reconcile(t, "node-1")
	got := c.says(t, "web")
	require.Equal(t, "RegistryRateLimited", got.Reason, "what was seen to fail comes first")
	require.True(t, strings.HasPrefix(got.Message, "registry.corp.test/b:1: "), got.Message)
	require.Contains(t, got.Message, "also registry.corp.test/a:1: EveryHopHeld")
	require.Contains(t, got.Message, "and 2 more images")
}

func TestPullSecrets(t *testing.T) {
	pod := pending("node-1", "web", appImage, backOff(appImage, noSuchHost(appImage)))
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "regcred"}, {Name: "gone"}}
	other := pending("node-1", "api", appImage, backOff(appImage, noSuchHost(appImage)))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "regcred"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"registry.corp.test":{"auth":"aHVudGVyMg=="}}}`)}}
	c := newCluster(t, pod, other, secret, agentOn("node-1"))
	c.secrets.send = true
	c.fleet.says(failing(classify.IdentityForbidden))
	for c.reconcile(t, "node-1") <= time.Second {
	}
	require.Equal(t, 2, c.fleet.count(), "two identities, two questions")
	require.Equal(t, "IdentityForbidden", c.says(t, "web").Reason)
	require.Equal(t, "IdentityForbidden", c.says(t, "api").Reason)
	sent := 0
	for _, req := range c.fleet.all() {
		if req.PullSecrets != nil {
			sent++
			require.Equal(t, []agentclient.PullSecret{
				{Name: "regcred", Type: "kubernetes.io/dockerconfigjson", Data: secret.Data[corev1.DockerConfigJsonKey]}, {Name: "gone", Missing: true},
			}, req.PullSecrets)
		}
	}
	require.Equal(t, 1, sent)
	require.NotContains(t, fmt.Sprint(c.says(t, "web"), c.events.notes), "aHVudGVyMg")

	// Without the right to read them it is asked without, and says so.
	c.restart(t)
	c.secrets.send = true
	c.denied = func(verb string, o client.Object) error {
		if _, ok := o.(*corev1.Secret); ok && verb == "get" {
			return forbidden("secrets")
		}
		return nil
	}
	for c.reconcile(t, "node-1") <= time.Second {
	}
	require.Equal(t, "OtherIdentity", c.says(t, "web").Reason)
	require.Equal(t, "IdentityForbidden", c.says(t, "api").Reason)
}

func forbidden(what string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: what}, "", errors.New("no"))
}

// Without a right there is less to say, and no crash and no loop.
func TestDenied(t *testing.T) {
	starting := pending("node-1", "starting", appImage, waitingFor("ContainerCreating", ""))
	starting.Status.Conditions[0].Status = corev1.ConditionFalse
	c := oneFailing(t, starting)
	c.denied = func(_ string, o client.Object) error { return forbidden(fmt.Sprintf("%T", o)) }
	for i := range 5 {
		wait := c.reconcile(t, "node-1")
		require.GreaterOrEqual(t, wait, 10*time.Second, i)
		c.clock = c.clock.Add(wait)
	}
	require.Len(t, c.events.notes, 1, "the event still says it, once")
	require.LessOrEqual(t, c.applied, 3)
	c.denied = nil
	require.Empty(t, c.says(t, "web"))
	require.Contains(t, scrape(t, c), `pullwalk_diagnoses_total{cause="route.connect-timeout",layer="route",pool="unknown",verdict="failed"}`)
}

// What the API refuses for the moment is tried again by the queue, which waits ever
// longer; the agent is not asked again for that.
func TestAPIDown(t *testing.T) {
	c := oneFailing(t)
	c.denied = func(verb string, o client.Object) error {
		if verb == "patch" {
			return apierrors.NewTooManyRequests("later", 1)
		}
		return nil
	}
	for range 3 {
		_, err := c.Reconcile(quiet(t), reconcile.Request{NamespacedName: types.NamespacedName{Name: "node-1"}})
		require.Error(t, err)
	}
	require.LessOrEqual(t, c.fleet.count(), 1)
	require.Empty(t, c.events.notes)
	c.denied = nil
	c.reconcile(t, "node-1")
	require.Equal(t, "RouteConnectTimeout", c.says(t, "web").Reason)
	require.Equal(t, 1, c.fleet.count())
}

// asking is an asker in a function.
type askFunc func(ctx context.Context) ([]*pullwalk.Result, error)

func (f askFunc) Diagnose(ctx context.Context, _ netip.AddrPort, _ agentclient.Request) ([]*pullwalk.Result, error) {
	return f(ctx)
}

// A controller that ends while it waits for an agent says nothing wrong.
func TestEnd(t *testing.T) {
	c := oneFailing(t)
	ctx, cancel := context.WithCancel(quiet(t))
	c.ask = askFunc(func(ctx context.Context) ([]*pullwalk.Result, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	_, err := c.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: "node-1"}})
	require.NoError(t, err)
	require.Equal(t, "NotProbedYet", c.says(t, "web").Reason)
}

// A request names the node and sends what the cluster said, and no secret that
// nobody asked to send.
func TestRequest(t *testing.T) {
	pod := pending("node-1", "web", appImage, backOff(appImage, noSuchHost(appImage)))
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "regcred"}}
	at := time.Date(2026, 3, 1, 11, 58, 0, 0, time.UTC)
	var objects []client.Object
	for i := range 80 {
		objects = append(objects, event(pod, fmt.Sprint(i), "spec.containers{app}", "Failed", fmt.Sprintf("Failed to pull image %q: %s", appImage, timedOut(appImage)), at.Add(time.Duration(i)*time.Second), 1))
	}
	c := newCluster(t, append(objects, pod, agentOn("node-1"))...)
	c.reconcile(t, "node-1")
	req := c.fleet.all()[0]
	require.Equal(t, "node-1", req.Node)
	require.Empty(t, req.PullSecrets)
	require.Equal(t, time.Minute, req.Budget())
	require.Len(t, req.Events, maxEvents+1)
	last := req.Events[maxEvents]
	require.True(t, last.Status, "the present comes last")
	require.Contains(t, last.Message, "no such host")
	require.Equal(t, at.Add(79*time.Second), req.Events[maxEvents-1].Time.UTC())
	require.Contains(t, c.events.notes[0], "First reported 2026-03-01T11:57:30Z. Repair: ", "of the events that are looked at")
}
