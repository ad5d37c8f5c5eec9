package pullwalk_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

// A hint about the runtime replaces what its process would show, and nothing of
// the vantage.
func TestRuntimeHint(t *testing.T) {
	t.Parallel()
	registriesConf := "[[registry]]\nlocation = \"registry.corp.test\"\nblocked = true\n"
	mirror := "server = \"https://registry.corp.test\"\n[host.\"https://mirror.corp.test\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
	for name, tt := range map[string]struct {
		world string
		files map[string]string
		hint  pullwalk.RuntimeHint
		check func(t *testing.T, r *pullwalk.Result)
	}{
		"name, without a process": {"", nil, pullwalk.RuntimeHint{Name: "crio"}, func(t *testing.T, r *pullwalk.Result) {
			require.Equal(t, "crio", r.Vantage.Runtime)
			require.Zero(t, r.Vantage.RuntimePID)
			require.Equal(t, "GET", stepOf(r, pullwalk.StepResolve).Request.Method, "as CRI-O resolves")
			require.Contains(t, r.String(), "runtime crio (as the caller says")
		}},
		"the files of that runtime": {"", map[string]string{"etc/containers/registries.conf": registriesConf}, pullwalk.RuntimeHint{Name: "crio"}, func(t *testing.T, r *pullwalk.Result) {
			require.Equal(t, pullwalk.StatusFailed, r.Verdict)
			require.Equal(t, classify.LayerNode, r.Primary.Layer)
		}},
		"not the files of another": {"", map[string]string{"etc/containers/registries.conf": registriesConf}, pullwalk.RuntimeHint{Name: "containerd"}, func(t *testing.T, r *pullwalk.Result) {
			require.Equal(t, pullwalk.StatusOK, r.Verdict)
		}},
		"not the process of another": {"runtime containerd HTTPS_PROXY=http://proxy.corp.test:3128", nil, pullwalk.RuntimeHint{Name: "crio"}, func(t *testing.T, r *pullwalk.Result) {
			require.Zero(t, r.Vantage.RuntimePID)
			require.Empty(t, r.Vantage.Proxy)
		}},
		"HEAD is refused, which containerd needs": {"break head-blocked 403", nil, pullwalk.RuntimeHint{Name: "containerd"}, func(t *testing.T, r *pullwalk.Result) {
			require.Equal(t, pullwalk.StatusFailed, r.Verdict, r.Inconclusive)
			require.Equal(t, classify.EndpointMethodBlocked, r.Primary.Cause)
		}},
		"the process of that name": {"runtime containerd A=b", nil, pullwalk.RuntimeHint{Name: "containerd"}, func(t *testing.T, r *pullwalk.Result) {
			require.Equal(t, 812, r.Vantage.RuntimePID)
		}},
		"configuration file": {"zone 10.20.0.2 mirror.corp.test 10.20.0.9", map[string]string{
			"etc/other.toml": "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/etc/mirrors\"\n", "etc/mirrors/registry.corp.test/hosts.toml": mirror,
		}, pullwalk.RuntimeHint{ConfigFile: "/etc/other.toml"}, func(t *testing.T, r *pullwalk.Result) {
			require.Len(t, r.Sources, 2)
			require.Equal(t, "mirror.corp.test", r.Sources[0].Host)
		}},
		"environment": {"zone 10.20.0.2 proxy.corp.test 10.20.0.7\nproxy 10.20.0.7:3128 works", nil,
			pullwalk.RuntimeHint{Environ: map[string]string{"HTTPS_PROXY": "http://proxy.corp.test:3128"}}, func(t *testing.T, r *pullwalk.Result) {
				require.Equal(t, "environment of the runtime that the caller gave", r.Vantage.Proxy)
				require.True(t, slices.ContainsFunc(r.Hosts(), func(h pullwalk.HostUse) bool { return h.Via == "proxy.corp.test:3128" }))
			}},
		"an environment without a proxy": {"runtime containerd HTTPS_PROXY=http://proxy.corp.test:3128", nil, pullwalk.RuntimeHint{Environ: map[string]string{}}, func(t *testing.T, r *pullwalk.Result) {
			require.Empty(t, r.Vantage.Proxy)
			require.Equal(t, pullwalk.StatusOK, r.Verdict)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, tt.world, func(t *testing.T, w *world) {
				for path, content := range tt.files {
					w.file(path, content)
				}
				w.opts.Runtime = tt.hint
				got := w.diagnose(t, t.Context(), scenario{})
				got.checkShape(t)
				got.checkLeaks(t)
				tt.check(t, got.result)
			})
		})
	}
}

// That the caller names the runtime does not make another network the node's.
func TestRuntimeHintDoesNotWidenTheVantage(t *testing.T) {
	t.Parallel()
	w, files, opts := loopback(t)
	files["proc/self/ns/net"] = link("net:[4026532999]")
	files["proc/1/ns/net"] = link("net:[4026531840]")
	files["proc/1/ns/pid"] = link("pid:[4026531836]")
	opts.Runtime = pullwalk.RuntimeHint{Name: "containerd"}
	res, err := pullwalk.Diagnose(t.Context(), w.Image(), opts)
	require.NoError(t, err)
	require.Equal(t, "other", res.Vantage.NetworkNamespace)
	require.Equal(t, classify.NodeVantageNotNode, res.Findings[0].Cause)

	for _, path := range []string{"proc/self/ns/net", "proc/1/ns/net", "proc/1/ns/pid"} {
		delete(files, path)
	}
	res, err = pullwalk.Diagnose(t.Context(), w.Image(), opts)
	require.NoError(t, err)
	require.Equal(t, "unknown", res.Vantage.NetworkNamespace, "nothing seen is nothing known")
}

// Two processes that could each be the one that pulls, and go other ways, leave it
// open; both are named.
func TestRivalRuntimes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		environ string
		hint    pullwalk.RuntimeHint
		want    pullwalk.Status
	}{
		"alike":                   {"HOME=/other", pullwalk.RuntimeHint{}, pullwalk.StatusOK},
		"other proxies":           {"HTTPS_PROXY=http://proxy.corp.test:3128", pullwalk.RuntimeHint{}, pullwalk.StatusInconclusive},
		"the caller knows a part": {"HTTPS_PROXY=http://proxy.corp.test:3128", pullwalk.RuntimeHint{Environ: map[string]string{}}, pullwalk.StatusInconclusive},
		"the caller knows":        {"HTTPS_PROXY=http://proxy.corp.test:3128", pullwalk.RuntimeHint{Environ: map[string]string{}, ConfigFile: "/etc/containerd/config.toml"}, pullwalk.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, "runtime containerd HOME=/", func(t *testing.T, w *world) {
				w.link("proc/900/ns/net", netNamespace)
				w.link("proc/900/ns/pid", pidNamespace)
				w.file("proc/900/comm", "containerd\n")
				w.file("proc/900/environ", tt.environ+"\x00")
				processOfRoot(w.files, "900", "/usr/bin/containerd")
				w.opts.Runtime = tt.hint
				got := w.diagnose(t, t.Context(), scenario{})
				require.Equal(t, tt.want, got.result.Verdict, got.result.String())
				if tt.want == pullwalk.StatusInconclusive {
					require.Contains(t, got.result.Inconclusive, "containerd (pid 812")
					require.Contains(t, got.result.Inconclusive, "containerd (pid 900)")
				}
			})
		})
	}
}

// The environment of a process holds secrets.
func TestRuntimeHintPrintsNoValue(t *testing.T) {
	t.Parallel()
	h := pullwalk.RuntimeHint{Name: "crio", Environ: map[string]string{"HTTPS_PROXY": "http://user:" + proxyPassword + "@proxy.corp.test"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(format, h), proxyPassword)
	}
}

// stepOf returns the first step with that ID.
func stepOf(r *pullwalk.Result, id pullwalk.StepID) *pullwalk.Step {
	for _, s := range r.Sources {
		for _, e := range s.Endpoints {
			for i := range e.Steps {
				if e.Steps[i].ID == id {
					return &e.Steps[i]
				}
			}
		}
	}
	return nil
}
