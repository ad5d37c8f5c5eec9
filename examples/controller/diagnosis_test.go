package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

type answering = func(http.ResponseWriter, agentclient.Request)

// What is written on a Pod, by what its status, its events and the agent of its
// node say.
func TestConditions(t *testing.T) {
	at := time.Date(2026, 3, 1, 11, 58, 0, 0, time.UTC)
	verdict := func(change func(*pullwalk.Result)) answering { return results(change) }
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := pending("node-1", "web", appImage, backOff(appImage, noSuchHost(appImage)))
		change(p)
		return p
	}
	same := func(*corev1.Pod) {}
	withSecret := func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "regcred"}} }
	state := func(s corev1.ContainerState) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = s }
	}
	image := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Image = name
			p.Status.ContainerStatuses[0].Image = name
			p.Status.ContainerStatuses[0].State = backOff(name, noSuchHost(name))
		}
	}
	starting := func(p *corev1.Pod) {
		p.Status.Conditions[0].Status = corev1.ConditionFalse
		p.Status.ContainerStatuses[0].State = waitingFor("ContainerCreating", "")
	}
	tests := []struct {
		name    string
		pod     *corev1.Pod
		events  []*corev1.Event
		answer  answering // nil = must not be asked
		status  corev1.ConditionStatus
		reason  string
		message []string
		event   string // of the note, "" = none
		asked   string // the image; "" = the usual one
	}{
		{"the agent sees why", pod(same), nil, failing(classify.RouteConnectTimeout),
			"False", "RouteConnectTimeout", []string{appImage, "owner network", "route.connect-timeout", "registry.corp.test:443", "Look:"}, "Repair:", ""},
		{"an init container", pod(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "migrate", Image: "registry.corp.test/team/migrate:v1"}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "migrate", State: waitingFor("ErrImagePull", noSuchHost("registry.corp.test/team/migrate:v1"))}}
			p.Status.ContainerStatuses[0].State = waitingFor("PodInitializing", "")
		}), nil, failing(classify.DNSNXDOMAIN), "False", "DnsNxdomain", []string{"team/migrate:v1: owner dns"}, "dns.nxdomain", "registry.corp.test/team/migrate:v1"},
		{"a restarted container of a running Pod", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), nil, failing(classify.DNSNXDOMAIN),
			"False", "DnsNxdomain", nil, "dns.nxdomain", ""},
		{"the status names another reference", pod(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Image = "mirror.corp.test/app:v1" }), nil, failing(classify.DNSNXDOMAIN),
			"False", "DnsNxdomain", nil, "dns.nxdomain", appImage},
		{"an image that is a volume", pod(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "model", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "registry.corp.test/model:v9"}}}}
			p.Status.ContainerStatuses[0].State = backOff("registry.corp.test/model:v9", noSuchHost("registry.corp.test/model:v9"))
		}), nil, failing(classify.DNSNXDOMAIN), "False", "DnsNxdomain", []string{"registry.corp.test/model:v9: "}, "model:v9", "registry.corp.test/model:v9"},

		{"it holds from there", pod(same), nil, verdict(func(*pullwalk.Result) {}),
			"Unknown", "EveryHopHeld", []string{"met no failure, and the kubelet still reports dns.nxdomain"}, "met no failure", ""},
		{"not known from there", pod(same), nil, verdict(func(r *pullwalk.Result) {
			r.Verdict, r.Inconclusive = pullwalk.StatusInconclusive, "a credential plugin decides"
		}), "Unknown", "Inconclusive", []string{"a credential plugin decides"}, "not known", ""},

		{"refused to the node, and the Pod has a secret", pod(withSecret), nil, failing(classify.IdentityUnauthorized),
			"Unknown", "OtherIdentity", []string{"the node's own credentials only", "were not sent"}, "identity.unauthorized", ""},
		{"hidden from the node, and the Pod has a secret", pod(withSecret), nil, failing(classify.ImageManifestUnknown),
			"Unknown", "OtherIdentity", []string{"were not sent"}, "image.manifest-unknown", ""},
		{"no route, and the Pod has a secret", pod(withSecret), nil, failing(classify.RouteConnectTimeout),
			"False", "RouteConnectTimeout", nil, "Repair", ""},
		{"it holds for the node, and the Pod has a secret", pod(withSecret), nil, verdict(func(*pullwalk.Result) {}),
			"Unknown", "EveryHopHeld", []string{"were not sent"}, "were not sent", ""},

		{"the kubelet read the name", pod(state(waitingFor("InvalidImageName", `Failed to apply default image tag "registry.corp.test/Team/app": couldn't parse image name "registry.corp.test/Team/app": invalid reference format: repository name (Team/app) must be lowercase`))),
			nil, nil, "False", "ImageInvalidReference", []string{"owner app"}, "", ""},
		{"never to be pulled", pod(state(waitingFor("ErrImageNeverPull", fmt.Sprintf("Container image %q is not present with pull policy of Never", appImage)))),
			nil, nil, "False", "NodeNeverPullPolicy", nil, "", ""},
		{"a name without end", pod(image("registry.corp.test/" + strings.Repeat("a", 100_000))), nil, nil, "Unknown", "NotAsked", []string{"longer than one can be"}, "", ""},
		{"a name that is a URL", pod(image("https://user:hunter2@registry.corp.test/app?sig=hunter2")), nil, nil, "Unknown", "NotAsked", []string{"text only, not probed"}, "", ""},
		{"a name with a terminal's commands", pod(image("registry.corp.test/\x1b[31mapp")), nil, nil, "Unknown", "NotAsked", nil, "", ""},
		{"no name", pod(image("")), nil, nil, "Unknown", "NotAsked", nil, "", ""},
		{"a text that nobody knows", pod(state(waitingFor("ErrImagePull", "the warp core is offline"))), nil, refusing(500),
			"Unknown", "AgentRefuses", []string{"no text says why"}, "", ""},

		{"the sandbox's image", pod(starting), []*corev1.Event{
			event(pod(same), "1", "", "FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to pull image "registry.corp.test/pause:3": `+noSuchHost("registry.corp.test/pause:3"), at, 9),
		}, failing(classify.DNSNXDOMAIN), "False", "DnsNxdomain", []string{"registry.corp.test/pause:3: "}, "dns.nxdomain", "registry.corp.test/pause:3"},
		{"the sandbox's image, refused", pod(starting), []*corev1.Event{
			event(pod(same), "1", "", "FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to pull image "registry.corp.test/pause:3": `+noSuchHost("registry.corp.test/pause:3"), at, 9),
		}, failing(classify.IdentityUnauthorized), "Unknown", "OtherIdentity", []string{"the runtime pulls the sandbox's image itself"}, "identity", "registry.corp.test/pause:3"},
		{"a sandbox without network", pod(starting), []*corev1.Event{
			event(pod(same), "1", "", "FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "4f": plugin type="bridge" failed (add): no IP addresses available`, at, 9),
		}, nil, "", "", nil, "", ""},

		{"the cause stands in events only", pod(state(waitingFor("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q", appImage)))), []*corev1.Event{
			event(pod(same), "1", "spec.containers{app}", "Failed", fmt.Sprintf("Failed to pull image %q: %s", appImage, timedOut(appImage)), at, 3),
			event(pod(same), "2", "spec.containers{other}", "Failed", fmt.Sprintf("Failed to pull image %q: %s", "registry.corp.test/other:v1", noSuchHost("registry.corp.test/other:v1")), at, 3),
		}, refusing(500), "Unknown", "AgentRefuses", []string{"text only, not probed: owner network: route.connect-timeout", "answers 500", "First reported 2026-03-01T11:57:00Z."}, "", ""},
		{"the events are stale", pod(same), []*corev1.Event{
			event(pod(same), "1", "spec.containers{app}", "Failed", fmt.Sprintf("Failed to pull image %q: %s", appImage, timedOut(appImage)), at, 3),
		}, refusing(500), "Unknown", "AgentRefuses", []string{"text only, not probed: owner dns: dns.nxdomain", "its events are older and name another cause"}, "", ""},

		{"busy", pod(same), nil, refusing(429, "Retry-After", "20"), "Unknown", "NotProbedYet", []string{"text only, not probed: owner dns"}, "", ""},
		{"the token is another", pod(same), nil, refusing(401), "Unknown", "AgentRefuses", []string{"401"}, "", ""},
		{"not of its registries", pod(same), nil, refusing(403), "Unknown", "AgentRefuses", []string{"403"}, "", ""},
		{"the address has gone to another node", pod(same), nil, refusing(421), "Unknown", "AgentUnreachable", []string{"421"}, "", ""},
		{"it sends elsewhere", pod(same), nil, refusing(307, "Location", "https://127.0.0.1:1/"), "Unknown", "AgentRefuses", []string{"307"}, "", ""},
		{"another schema", pod(same), nil, verdict(func(r *pullwalk.Result) { r.Schema = "pullwalk.result/v2" }),
			"Unknown", "AgentAnswerUnusable", []string{"text only, not probed: owner dns: dns.nxdomain", "its schema is"}, "", ""},
		{"a lie about the node", pod(same), nil, verdict(func(r *pullwalk.Result) { r.Vantage.Labels[0].Value = "node-2" }),
			"Unknown", "AgentAnswerUnusable", []string{"about the node"}, "", ""},
		{"a lie about the image", pod(same), nil, verdict(func(r *pullwalk.Result) { r.Image.Given = "registry.corp.test/other:v1" }),
			"Unknown", "AgentAnswerUnusable", []string{"about the image"}, "", ""},
		{"a proof of nothing", pod(same), nil, verdict(func(r *pullwalk.Result) { r.Proof = &pullwalk.Proof{Layers: 3} }),
			"Unknown", "AgentAnswerUnusable", []string{"claims a proof"}, "", ""},
		{"no JSON", pod(same), nil, func(w http.ResponseWriter, _ agentclient.Request) { fmt.Fprint(w, "<html>") }, "Unknown", "AgentAnswerUnusable", nil, "", ""},
		{"without end", pod(same), nil, func(w http.ResponseWriter, _ agentclient.Request) {
			fmt.Fprint(w, `{"schema":"`)
			for range 6 << 10 {
				if _, err := fmt.Fprint(w, strings.Repeat("x", 1<<10)); err != nil {
					return
				}
			}
		}, "Unknown", "AgentAnswerUnusable", []string{"more than"}, "", ""},
		{"it hangs up", pod(same), nil, func(http.ResponseWriter, agentclient.Request) { panic(http.ErrAbortHandler) }, "Unknown", "AgentUnreachable", []string{"EOF"}, "", ""},
		{"a cause that is none", pod(same), nil, failing("x.\x1b[31m" + classify.Cause(strings.Repeat("y", 5000))), "False", "X31m", nil, "x.", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			objects := []client.Object{tt.pod, agentOn("node-1"), nodeOfPool("node-1", "blue")}
			for _, e := range tt.events {
				objects = append(objects, e)
			}
			c := newCluster(t, objects...)
			c.fleet.says(tt.answer)
			wake := c.reconcile(t, "node-1")

			got := c.says(t, "web")
			require.Equal(t, tt.status, got.Status, got.Message)
			if tt.reason == "X31m" {
				require.True(t, strings.HasPrefix(got.Reason, "X31m"), got.Reason)
			} else {
				require.Equal(t, tt.reason, got.Reason, got.Message)
			}
			for _, want := range tt.message {
				require.Contains(t, got.Message, want)
			}
			require.Less(t, len(got.Message), 2000)
			require.NotContains(t, got.Message, "hunter2")
			require.NotContains(t, got.Message, "\x1b")
			if tt.answer == nil {
				require.Zero(t, c.fleet.count(), "nothing is left to ask")
			} else {
				require.Equal(t, 1, c.fleet.count())
				require.GreaterOrEqual(t, wake, 10*time.Second, "no hot loop")
				if want := tt.asked; want != "" {
					require.Equal(t, []string{want}, c.fleet.all()[0].Images)
				}
			}
			if tt.event == "" {
				require.Empty(t, c.events.notes)
			} else {
				require.Len(t, c.events.notes, 1)
				require.Contains(t, c.events.notes[0], "Warning PullDiagnosed web: ")
				require.Contains(t, c.events.notes[0], tt.event)
				require.Less(t, len(c.events.notes[0]), 1024+100)
			}
			// Again, at once: there is nothing to say and nothing to ask.
			applied := c.applied
			c.reconcile(t, "node-1")
			require.Equal(t, applied, c.applied)
			require.LessOrEqual(t, c.fleet.count(), 1)
		})
	}
}

// Where there is no agent to ask.
func TestNoAgent(t *testing.T) {
	tests := []struct {
		name  string
		agent *corev1.Pod // nil = none
		want  string
	}{
		{"none", nil, "no agent's Pod"},
		{"of another name", func() *corev1.Pod { p := agentOn("node-1"); p.Labels = nil; return p }(), "no agent's Pod"},
		{"in another namespace", func() *corev1.Pod { p := agentOn("node-1"); p.Namespace = "shop"; return p }(), "no agent's Pod"},
		{"its own image", func() *corev1.Pod {
			p := agentOn("node-1")
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: waitingFor("ErrImagePull", "no")}}}
			return p
		}(), "waits for its own image: ErrImagePull"},
		{"no address", func() *corev1.Pod { p := agentOn("node-1"); p.Status.HostIP = "?"; return p }(), "no usable hostIP"},
		{"a closed port", func() *corev1.Pod { p := agentOn("node-1"); p.Status.HostIP = "127.77.77.77"; return p }(), "127.77.77.77"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			objects := []client.Object{pending("node-1", "web", appImage, backOff(appImage, timedOut(appImage)))}
			if tt.agent != nil {
				objects = append(objects, tt.agent)
			}
			c := newCluster(t, objects...)
			require.GreaterOrEqual(t, c.reconcile(t, "node-1"), agentAgain-time.Second)
			got := c.says(t, "web")
			require.Equal(t, corev1.ConditionUnknown, got.Status)
			require.Equal(t, "AgentUnreachable", got.Reason)
			require.Contains(t, got.Message, "text only, not probed: owner network: route.connect-timeout")
			require.Contains(t, got.Message, tt.want)
			require.Zero(t, c.fleet.count())
			require.Empty(t, c.events.notes)

			// An agent appears: it is asked at once.
			if tt.agent != nil {
				require.NoError(t, c.client.Delete(t.Context(), tt.agent))
			}
			fresh := agentOn("node-1")
			fresh.Name, fresh.UID = "agent-fresh", "fresh"
			require.NoError(t, c.client.Create(t.Context(), fresh))
			c.reconcile(t, "node-1")
			require.Equal(t, "RouteConnectTimeout", c.says(t, "web").Reason)
		})
	}
}
