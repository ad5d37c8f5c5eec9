package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

func TestEveryPoolIsProved(t *testing.T) {
	a := newAgents(t, honest)
	c := cluster(newDeployment(nil), newNode("w-old", "web", made(48*time.Hour)), newNode("w-new", "web"), newNode("a1", "api"))
	code, out, progress := call(t.Context(), c, a.args(t)...)
	require.Equal(t, exitProved, code, out+progress)
	require.ElementsMatch(t, []string{"w-new " + initImage, "w-new " + appImage, "a1 " + initImage, "a1 " + appImage}, a.asked(),
		"the youngest node of each pool, each image once")
	for _, r := range a.requests {
		require.Equal(t, pullwalk.Complete, r.Pull)
		require.Empty(t, r.PullSecrets)
	}
	require.Contains(t, out, "PROVED  deployment/app in shop: 2 of 2 images proved on every pool\n")
	require.Contains(t, progress, "w-new: "+appImage+": complete download …\n")
	require.Contains(t, progress, "w-new: "+appImage+": ok, 103330 bytes downloaded after ")
}

// The table, as the README shows it.
func TestTable(t *testing.T) {
	a := newAgents(t, func(_ http.ResponseWriter, req agentclient.Request) *pullwalk.Result {
		r := proved(req.Node, req.Images[0])
		switch req.Node {
		case "gpu-1":
			r = failed(req.Node, req.Images[0], classify.DNSNXDOMAIN)
			r.Vantage.Nameservers = []string{"10.30.0.2:53"}
		case "batch-1":
			r.Proof.HandEdits = []string{"hosts entry for blobs.corp.test"}
		}
		return r
	})
	c := cluster(newDeployment(func(s *corev1.PodSpec) { s.InitContainers = nil }),
		newNode("web-9", "web"), newNode("web-1", "web", made(48*time.Hour)), newNode("gpu-1", "gpu"), newNode("batch-1", "batch"),
		newNode("sys-1", "system", tainted("CriticalAddonsOnly", corev1.TaintEffectNoSchedule)), newNode("edge-1", "edge", cordoned))
	code, out, _ := call(t.Context(), c, a.args(t, "-pool", "spot")...)
	require.Equal(t, exitFailed, code)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for line := range strings.Lines(out) {
		if line != "\n" {
			line = "    " + line // a code block
		}
		require.Contains(t, string(readme), line, out)
	}
}

// What keeps a pool open is said, and no exit code is green.
func TestWhatIsNotKnownIsOpen(t *testing.T) {
	forbid := func(verb, resource string) func(*fake.Clientset) {
		return func(c *fake.Clientset) {
			c.PrependReactor(verb, resource, func(k8stesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no rule"))
			})
		}
	}
	noAgent := func(c *fake.Clientset) {
		_ = c.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "pullwalk", "agent-w1")
	}
	waiting := func(c *fake.Clientset) {
		p := newAgent("w1")
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}}
		_ = c.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), p, "pullwalk")
	}
	says := func(code int, body string) func(http.ResponseWriter, agentclient.Request) *pullwalk.Result {
		return func(w http.ResponseWriter, _ agentclient.Request) *pullwalk.Result {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
			return nil
		}
	}
	lying := func(change func(*pullwalk.Result)) func(http.ResponseWriter, agentclient.Request) *pullwalk.Result {
		return func(_ http.ResponseWriter, req agentclient.Request) *pullwalk.Result {
			r := proved(req.Node, req.Images[0])
			change(r)
			return r
		}
	}
	withSecret := func(s *corev1.PodSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "regcred"}} }
	tests := []struct {
		name   string
		change func(*fake.Clientset)
		agent  func(http.ResponseWriter, agentclient.Request) *pullwalk.Result
		pod    func(*corev1.PodSpec)
		args   []string
		want   string
	}{
		{name: "no agents", change: noAgent, want: "no agent runs in the namespace pullwalk (app.kubernetes.io/name=pullwalk-agent)"},
		{name: "an agent that cannot be pulled itself", change: waiting, want: "w1: its agent is Pending: ImagePullBackOff"},
		{name: "nodes cannot be listed", change: forbid("list", "nodes"), want: "which pools there are is not known: nodes cannot be listed: forbidden (rbac.yaml says what is needed): "},
		{name: "agents cannot be listed", change: forbid("list", "pods"), want: "where agents run is not known: pods in pullwalk cannot be listed: forbidden"},
		{name: "the service account cannot be read", change: forbid("get", "serviceaccounts"), want: "whether the service account adds pull secrets is not known: forbidden"},
		{name: "the workload cannot be read", change: forbid("get", "deployments"), want: "shop deployment/app is not known: forbidden"},
		{name: "a pull secret cannot be read", change: forbid("get", "secrets"), pod: withSecret, args: []string{"-pull-secrets", "send"}, want: "the pull secret regcred could not be read: forbidden"},
		{name: "a pull secret stays", pod: withSecret, want: "the pull secrets of the workload (regcred) were not sent: -pull-secrets send or ignore"},
		{name: "a pool without a node", args: []string{"-pool", "spot"}, want: "it scales from nothing"},
		{name: "not downloaded", args: []string{"-complete=false"}, agent: lying(func(r *pullwalk.Result) { r.Pull, r.Proof = pullwalk.Touch, nil }), want: "no complete download was asked for"},
		{name: "not the node's network", agent: lying(func(r *pullwalk.Result) { r.Vantage.NetworkNamespace, r.Vantage.Runtime = "other", "" }), want: "seen from another network namespace"},
		{name: "token", agent: says(401, ""), want: "the agent refuses the token of -agent-token-file"},
		{name: "another node's address", agent: says(421, `{"error":"this is the agent of another node"}`), want: "another node answers at its address"},
		{name: "registry not allowed", agent: says(403, `{"error":"images of registry.corp.test are not diagnosed by this agent"}`), want: "are not diagnosed by this agent"},
		{name: "a login page", agent: says(200, "<html>"), want: "the agent's answer cannot be used"},
		{name: "no end", agent: func(w http.ResponseWriter, _ agentclient.Request) *pullwalk.Result {
			_, _ = w.Write([]byte(`{"schema":"`))
			for chunk := []byte(strings.Repeat("x", 1<<20)); ; {
				if _, err := w.Write(chunk); err != nil {
					return nil
				}
			}
		}, want: "more than 4194304 bytes"},
		{name: "another schema", agent: lying(func(r *pullwalk.Result) { r.Schema = "pullwalk.result/v9" }), want: `its schema is "pullwalk.result/v9"`},
		{name: "another image", agent: lying(func(r *pullwalk.Result) { r.Image.Given = "registry.corp.test/team/other:v1" }), want: "it is about the image"},
		{name: "another image behind the name", agent: lying(func(r *pullwalk.Result) { r.Image.Reference = "evil.test/app:v1" }), want: `it is about "evil.test/app:v1"`},
		{name: "another node", agent: lying(func(r *pullwalk.Result) { r.Vantage.Labels[0].Value = "w2" }), want: `it is about the node "w2"`},
		{name: "another pool", agent: lying(func(r *pullwalk.Result) {
			r.Vantage.Labels = append(r.Vantage.Labels, pullwalk.Label{Key: "pool", Value: "spot"})
		}), args: []string{"-pool", "spot"}, want: "1 of 2 pools proved, 1 not-probed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			agent := test.agent
			if agent == nil {
				agent = honest
			}
			a := newAgents(t, agent)
			c := cluster(newDeployment(test.pod), newNode("w1", "web"))
			if test.change != nil {
				test.change(c)
			}
			code, out, progress := call(t.Context(), c, a.args(t, test.args...)...)
			require.Equal(t, exitOpen, code, out+progress)
			require.Contains(t, unwrapped(out+progress), test.want)
			require.NotContains(t, out+progress, token)
			require.LessOrEqual(t, len(a.asked()), 2, "nobody is asked again and again")
		})
	}
}

// unwrapped undoes the line breaks of a table.
func unwrapped(s string) string { return strings.Join(strings.Fields(s), " ") }

func TestInvalidQuestions(t *testing.T) {
	a := newAgents(t, honest)
	good := a.args(t)
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"nothing", nil, "is not KIND/NAME"},
		{"no such flag", []string{"-nodes", "7"}, "flag provided but not defined"},
		{"no such kind", append(good, "-workload", "service/app"), "is not KIND/NAME"},
		{"no such workload", append(good, "-workload", "deployment/other"), `deployments.apps "other" not found`},
		{"no image", append(good, "-image", "UPPER CASE"), "image.invalid-reference"},
		{"left over", append(good, "app"), `"app" belongs to no flag`},
		{"no node of a pool", append(good, "-per-pool", "0"), "at least 1"},
		{"a budget that no agent takes", append(good, "-budget", "1h"), "-budget is between 0 and 10m0s"},
		{"secrets", append(good, "-pull-secrets", "yes"), `"yes" is neither send nor ignore`},
		{"no token", []string{"-workload", "deployment/app"}, "agents answer over TLS and to a token only"},
		{"no such file", append(good, "-agent-token-file", "/nowhere/token"), "no such file"},
		{"no certificate", append(good, "-agent-ca", good[7]), "no certificate in the PEM"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, out, progress := call(t.Context(), cluster(newDeployment(nil), newNode("w1", "web")), test.args...)
			require.Equal(t, exitInvalid, code, progress)
			require.Contains(t, progress, test.want)
			require.Empty(t, out)
			require.NotContains(t, progress, token)
		})
	}
	require.Empty(t, a.asked())
}

func TestWorkloadsThatMakeNoSense(t *testing.T) {
	a := newAgents(t, honest)
	for name, pod := range map[string]func(*corev1.PodSpec){
		"no image of a name": func(s *corev1.PodSpec) { s.Containers[0].Image = "Not An Image" },
		"nothing to pull": func(s *corev1.PodSpec) {
			s.InitContainers = nil
			for i := range s.Containers {
				s.Containers[i].ImagePullPolicy = corev1.PullNever
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, progress := call(t.Context(), cluster(newDeployment(pod), newNode("w1", "web")), a.args(t)...)
			require.Equal(t, exitInvalid, code, out+progress)
			require.Contains(t, progress, "fleet: deployment/app in shop")
		})
	}
	require.Empty(t, a.asked())
}

func TestImageOfAReleaseToCome(t *testing.T) {
	a := newAgents(t, honest)
	next := "registry.corp.test/team/app:v2"
	code, out, _ := call(t.Context(), cluster(newDeployment(nil), newNode("w1", "web")), a.args(t, "-image", next)...)
	require.Equal(t, exitProved, code, out)
	require.Equal(t, []string{"w1 " + next}, a.asked())
	require.Contains(t, out, "the images of the workload were not asked for")
}

func TestJSON(t *testing.T) {
	a := newAgents(t, func(w http.ResponseWriter, req agentclient.Request) *pullwalk.Result {
		if req.Node == "g1" && req.Images[0] == appImage {
			return failed(req.Node, req.Images[0], classify.DNSNXDOMAIN)
		}
		return proved(req.Node, req.Images[0])
	})
	code, out, _ := call(t.Context(), cluster(newDeployment(nil), newNode("w1", "web"), newNode("g1", "gpu")), a.args(t, "-json")...)
	require.Equal(t, exitFailed, code)
	var got report
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&got))
	require.False(t, dec.More())
	require.Equal(t, reportSchema, got.Schema)
	require.Equal(t, pullwalk.StatusFailed, got.Verdict)
	require.Len(t, got.Images, 2)
	require.Equal(t, pullwalk.StatusOK, got.Images[0].Verdict)
	require.Equal(t, pullwalk.CoverageFailed, got.Images[1].Pools[0].State)
	require.Equal(t, classify.DNSNXDOMAIN, got.Images[1].Causes[0].Finding.Cause)
}

// Who interrupts gets what is known.
func TestInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	a := newAgents(t, func(w http.ResponseWriter, req agentclient.Request) *pullwalk.Result {
		if req.Node == "a1" {
			return proved(req.Node, req.Images[0])
		}
		interrupt(errors.New("interrupt signal received"))
		return proved(req.Node, req.Images[0])
	})
	c := cluster(newDeployment(func(s *corev1.PodSpec) { s.InitContainers = nil }), newNode("a1", "a"), newNode("b1", "b"), newNode("c1", "c"))
	// One at a time, in any order: so b or c ends it, and the other is never asked.
	code, out, progress := call(ctx, c, a.args(t, "-parallel", "1")...)
	require.Equal(t, exitOpen, code, out+progress)
	require.Contains(t, out, "stopped: interrupt signal received")
	require.Contains(t, unwrapped(out), "stopped before one of its nodes was asked")
}

func TestTimeIsOver(t *testing.T) {
	a := newAgents(t, honest)
	code, out, progress := call(t.Context(), cluster(newDeployment(nil), newNode("w1", "web")), a.args(t, "-timeout", "1ns")...)
	require.Equal(t, exitOpen, code, out+progress)
	require.Contains(t, out, "stopped: -timeout 1ns is over")
}

// Nobody who was passed over is forgotten, and nothing is said twice.
func TestNodesWithoutAnAnswer(t *testing.T) {
	a := newAgents(t, honest)
	objects := []runtime.Object{newDeployment(nil), newNode("w1", "web", made(time.Minute)), newNode("w2", "web")}
	for i := range 30 {
		objects = append(objects, newNode(fmt.Sprintf("x%02d", i), "lost"))
	}
	c := cluster(objects...)
	for _, o := range objects[3:] {
		require.NoError(t, c.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "pullwalk", "agent-"+o.(*corev1.Node).Name))
	}
	require.NoError(t, c.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "pullwalk", "agent-w1"))
	code, out, progress := call(t.Context(), c, a.args(t, "-per-pool", "5")...)
	require.Equal(t, exitOpen, code)
	require.Equal(t, []string{"w2 " + initImage, "w2 " + appImage}, a.asked())
	require.Equal(t, 2, strings.Count(unwrapped(out), "x02: no agent runs on it; and 27 more"), out)
	require.Contains(t, out, "  No answer:   w1 (web), "+initImage+": no agent runs on it\n               w1 (web), "+appImage+": no agent runs on it\n")
	require.NotContains(t, out, "(lost)")
	require.Equal(t, 4, strings.Count(progress, "\n"), progress)

	_, out, _ = call(t.Context(), c, a.args(t, "-per-pool", "5", "-json")...)
	var got report
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Unanswered, 62)
}

// Nothing but the cluster's refusal ends the look at the workload.
func TestClusterThatDoesNotAnswer(t *testing.T) {
	a := newAgents(t, honest)
	c := cluster(newDeployment(nil), newNode("w1", "web"))
	c.PrependReactor("get", "deployments", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("dial tcp 10.0.0.1:6443: i/o timeout")
	})
	code, out, progress := call(t.Context(), c, a.args(t)...)
	require.Equal(t, exitOpen, code)
	require.Empty(t, out)
	require.Contains(t, progress, "the cluster does not answer: dial tcp 10.0.0.1:6443: i/o timeout")

	code = run(t.Context(), a.args(t), io.Discard, io.Discard, func(string, string) (kubernetes.Interface, string, error) {
		return nil, "", errors.New("no configuration has been provided")
	})
	require.Equal(t, exitInvalid, code)
}
