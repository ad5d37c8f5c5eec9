package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
	"github.com/pullwalk/pullwalk/internal/lab"
)

// world is a private registry on loopback, and the file tree of a node that is
// set up for it: authority and names, so that nothing of this machine decides.
func world(t *testing.T) (w *lab.World, root string) {
	t.Helper()
	w, err := lab.New(lab.Options{})
	require.NoError(t, err)
	require.NoError(t, w.Start())
	t.Cleanup(w.Close)
	root = t.TempDir()
	put(t, root, "etc/resolv.conf", "nameserver 127.0.0.1\n")
	put(t, root, "etc/hosts", "127.0.0.1 localhost "+lab.RegistryName+" "+lab.TokenName+" "+lab.BlobsName+"\n")
	put(t, root, "etc/ssl/certs/ca-certificates.crt", string(w.AuthorityPEM()))
	put(t, root, "proc/1/comm", "systemd\n")
	namespaces(t, root, "1", "pid:[1]")
	namespaces(t, root, "self", "pid:[1]")
	kubelet(t, root, "60", "pid:[1]", "0", "/usr/bin/kubelet\x00")
	return w, root
}

// kubelet puts the process of one into the node's tree.
func kubelet(t *testing.T, root, pid, namespace, user, cmdline string) {
	t.Helper()
	put(t, root, "proc/"+pid+"/comm", "kubelet\n")
	put(t, root, "proc/"+pid+"/cmdline", cmdline)
	put(t, root, "proc/"+pid+"/environ", "HOME=/root\x00")
	put(t, root, "proc/"+pid+"/stat", pid+" (kubelet) S 1 1 1 0 -1 0 1 0 0 0 1 2 0 0 20 0 9 0 "+pid+" 1 1 1\n")
	put(t, root, "proc/"+pid+"/status", "Name:\tkubelet\nUid:"+strings.Repeat("\t"+user, 4)+"\n")
	put(t, root, "opt/kubelet", "")
	namespaces(t, root, pid, namespace)
	symlink(t, "/opt/kubelet", filepath.Join(root, "proc", pid, "exe"))
}

func namespaces(t *testing.T, root, process, pidns string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "proc", process, "ns"), 0o755))
	symlink(t, pidns, filepath.Join(root, "proc", process, "ns/pid"))
	symlink(t, "net:[1]", filepath.Join(root, "proc", process, "ns/net"))
}

func symlink(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil && !os.IsExist(err) {
		t.Skip("no symbolic links here: ", err)
	}
}

func put(t *testing.T, root, name, content string) string {
	t.Helper()
	file := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// buffer is written by several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) { b.mu.Lock(); defer b.mu.Unlock(); return b.b.Write(p) }
func (b *buffer) String() string              { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

// running is an agent that serves on loopback.
type running struct {
	addr netip.AddrPort
	log  buffer
	stop func() error // ends it and waits
}

func (r *running) url(path string) string { return "http://" + r.addr.String() + path }

func start(t *testing.T, m machine, l listening, concurrent int) *running {
	t.Helper()
	if l.address == "" {
		l.address = "127.0.0.1"
	}
	listener, err := l.open()
	require.NoError(t, err)
	r := &running{addr: netip.MustParseAddrPort(listener.Addr().String())}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- answer(ctx, listener, newHandler(m, l, concurrent, log.New(&r.log, "", 0))) }()
	var once sync.Once
	r.stop = func() (err error) { once.Do(func() { cancel(); err = <-ended }); return err }
	t.Cleanup(func() { require.NoError(t, r.stop()) })
	return r
}

func noSecret(t *testing.T, w *lab.World, texts ...string) {
	t.Helper()
	for _, text := range texts {
		for _, secret := range w.Secrets() {
			require.NotContains(t, text, secret)
		}
	}
	require.Empty(t, w.Violations())
}

func TestOnce(t *testing.T) {
	w, root := world(t)
	creds := put(t, root, "creds.json", string(w.DockerConfig()))
	tests := []struct {
		name   string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"complete", []string{"-creds", creds, "-pull", "complete", w.Image()}, exitOK, `"proof"`, ""},
		{"touch", []string{"-creds", creds, w.Image()}, exitOK, `"pull": "touch"`, ""},
		{"nobody", []string{w.Image()}, exitFailed, `"identity.`, ""},
		{"no such tag", []string{"-creds", creds, w.MissingTag()}, exitFailed, `"image.manifest-unknown"`, ""},
		{"of another registry", []string{"-registries", "registry.corp.test, other.corp.test:5000", w.Image()}, exitInvalid, "", "not diagnosed by this agent"},
		{"no image", nil, exitInvalid, "", "usage: agent"},
		{"two images", []string{w.Image(), w.Image()}, exitInvalid, "", "usage: agent"},
		{"unknown flag", []string{"-no-such-flag", w.Image()}, exitInvalid, "", "no-such-flag"},
		{"bad reference", []string{"registry.corp.test/Team/app"}, exitInvalid, "", "registry.corp.test/Team/app"},
		{"a reference without a usable host", []string{"registry.corp.test:99999/team/app"}, exitInvalid, "", "99999"},
		{"bad mode", []string{"-pull", "gently", w.Image()}, exitInvalid, "", "none of touch"},
		{"bad budget", []string{"-budget", "-1s", w.Image()}, exitInvalid, "", "budget"},
		{"no host root", []string{"-host-root", filepath.Join(root, "gone"), w.Image()}, exitInvalid, "", "gone"},
		{"no credentials", []string{"-creds", filepath.Join(root, "gone.json"), w.Image()}, exitInvalid, "", "gone.json"},
		{"credentials that are none", []string{"-creds", put(t, root, "bad.json", "user:"+lab.Password), w.Image()}, exitInvalid, "", "invalid JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"-once", "-host-root", root, "-node", "node-7"}, tt.args...), &out, &errs)
			require.Equal(t, tt.code, code, "%s\n%s", out.String(), errs.String())
			require.Contains(t, out.String(), tt.stdout)
			require.Contains(t, errs.String(), tt.stderr)
			noSecret(t, w, out.String(), errs.String())
			if tt.code == exitInvalid {
				require.Empty(t, out.String())
				return
			}
			var res pullwalk.Result
			require.NoError(t, json.Unmarshal(out.Bytes(), &res))
			require.Equal(t, pullwalk.Schema, res.Schema)
			require.Equal(t, []pullwalk.Label{{Key: "node", Value: "node-7"}}, res.Vantage.Labels)
		})
	}
}

func TestHelpAndInterrupt(t *testing.T) {
	var out, errs bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"-h"}, &out, &errs))
	require.Contains(t, errs.String(), "usage: agent")

	w, root := world(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, exitInconclusive, run(ctx, []string{"-once", "-host-root", root, w.Image()}, &out, &errs))
	require.Contains(t, out.String(), `"verdict": "inconclusive"`)
}

// What a controller does: ask with the pod's secrets, for several images.
func TestServe(t *testing.T) {
	w, root := world(t)
	agent := start(t, machine{hostRoot: root, node: "node-7"}, listening{}, 2)
	req := agentclient.Request{
		Node: "node-7", Images: []string{w.Image(), w.MissingTag()}, Pull: pullwalk.Complete,
		PullSecrets: []agentclient.PullSecret{{Name: "gone", Missing: true}, {Name: "regcred", Data: w.DockerConfig()}},
		Events:      []classify.EventRecord{{Reason: "Failed", Message: `Failed to pull image "` + w.MissingTag() + `": not found`}},
	}
	got, err := agentclient.NewLocal().Diagnose(t.Context(), agent.addr, req)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.NotNil(t, got[0].Proof)
	require.Equal(t, 3, got[0].Proof.Layers)
	require.Contains(t, got[0].Vantage.Identity, "regcred")
	require.Equal(t, pullwalk.StatusFailed, got[1].Verdict)
	require.Equal(t, classify.LayerImage, got[1].Primary.Layer)
	require.NotNil(t, got[1].Reported)
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	noSecret(t, w, string(raw), agent.log.String())
	require.Contains(t, agent.log.String(), "team/app:no-such-tag: failed")
	require.NoError(t, agent.stop())
}

// A request with many images looks at each host once.
func TestImagesOfARequestShareTheirHosts(t *testing.T) {
	w, root := world(t)
	images := []string{w.Image(), w.MissingTag()}
	for _, tag := range []string{"v7", "v8"} {
		images = append(images, w.Registry.Address()+"/"+lab.Repository+":"+tag)
	}
	got, err := machine{hostRoot: root}.diagnose(t.Context(), agentclient.Request{Images: images})
	require.NoError(t, err)
	require.Len(t, got, len(images))
	pings := 0
	for _, r := range w.Registry.Requests() {
		if r.Path == "/v2/" {
			pings++
		}
	}
	require.Equal(t, 1, pings)
}

// The kubelet's own credentials are read on the node and come from nowhere else.
func TestNodeCredentials(t *testing.T) {
	w, root := world(t)
	m := machine{hostRoot: root}
	ask := func() *pullwalk.Result {
		got, err := m.diagnose(t.Context(), agentclient.Request{Images: []string{w.Image()}})
		require.NoError(t, err)
		raw, err := json.Marshal(got)
		require.NoError(t, err)
		noSecret(t, w, string(raw))
		return got[0]
	}
	require.Equal(t, pullwalk.StatusFailed, ask().Verdict)

	put(t, root, "var/lib/kubelet/config.json", string(w.DockerConfig()))
	res := ask()
	require.NoError(t, res.Err())
	require.Contains(t, res.Vantage.Identity, "/var/lib/kubelet/config.json")

	// Its process says where its files are; one that only has the name, in a
	// container or of another user, says nothing.
	require.NoError(t, os.RemoveAll(filepath.Join(root, "proc/60")))
	kubelet(t, root, "30", "pid:[2]", "0", "kubelet\x00--root-dir=/nowhere\x00")
	kubelet(t, root, "40", "pid:[1]", "1000", "kubelet\x00")
	kubelet(t, root, "77", "pid:[1]", "0", "/usr/bin/kubelet\x00--root-dir\x00/data/kubelet\x00--image-credential-provider-config=/etc/cred.yaml\x00--image-credential-provider-bin-dir=/opt/bin\x00")
	require.Equal(t, pullwalk.StatusFailed, ask().Verdict, "config.json is not in the root directory of this kubelet")

	// A plugin that would give a credential is not run: then it is not known.
	put(t, root, "etc/cred.yaml", `{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[
		{"name":"corp","apiVersion":"credentialprovider.kubelet.k8s.io/v1","matchImages":["registry.corp.test:*","`+w.Registry.Address()+`"],"defaultCacheDuration":"1m"}]}`)
	plugin := put(t, root, "opt/bin/corp", "")
	require.NoError(t, os.Chmod(plugin, 0o755))
	res = ask()
	require.Equal(t, pullwalk.StatusInconclusive, res.Verdict)
	require.Contains(t, res.Inconclusive, "corp")

	kubelet(t, root, "400", "pid:[1]", "0", "kubelet\x00--root-dir=/nowhere\x00")
	res = ask()
	require.Equal(t, pullwalk.StatusInconclusive, res.Verdict)
	require.Contains(t, res.Inconclusive, "kubelet (pid 400)")
}

// silent accepts connections and says nothing, so that a diagnosis hangs there.
func silent(t *testing.T) (image string, reached <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	first := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			once.Do(func() { close(first) })
			wg.Go(func() { _, _ = io.Copy(io.Discard, c); c.Close() }) // until the other side goes
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String() + "/team/app:v1", first
}

// One request more than the agent answers at once is told to come again; when
// a client goes, its diagnosis ends, and nothing of it stays.
func TestBusyAndCancelled(t *testing.T) {
	w, root := world(t)
	image, reached := silent(t)
	before := runtime.NumGoroutine()
	agent := start(t, machine{hostRoot: root}, listening{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := agentclient.NewLocal().Diagnose(ctx, agent.addr, agentclient.Request{Images: []string{image}})
		ended <- err
	}()
	<-reached
	ask := func() error {
		_, err := agentclient.NewLocal().Diagnose(t.Context(), agent.addr, agentclient.Request{Images: []string{w.Image()}})
		return err
	}
	var refused *agentclient.StatusError
	require.ErrorAs(t, ask(), &refused)
	require.True(t, refused.Busy())
	require.Equal(t, 10*time.Second, refused.RetryAfter)

	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, func() bool { return ask() == nil }, 10*time.Second, 10*time.Millisecond, "the slot is free again")
	require.NoError(t, agent.stop())
	left := func() bool { return runtime.NumGoroutine() <= before+1 } // one more asks
	require.Eventually(t, left, 10*time.Second, 10*time.Millisecond)
}

// At its end the agent says what it knows instead of falling silent.
func TestShutdown(t *testing.T) {
	_, root := world(t)
	image, reached := silent(t)
	agent := start(t, machine{hostRoot: root}, listening{}, 1)
	type reply struct {
		results []*pullwalk.Result
		err     error
	}
	ended := make(chan reply, 1)
	go func() {
		got, err := agentclient.NewLocal().Diagnose(t.Context(), agent.addr, agentclient.Request{Images: []string{image}})
		ended <- reply{got, err}
	}()
	<-reached
	require.NoError(t, agent.stop())
	got := <-ended
	require.NoError(t, got.err)
	require.Equal(t, pullwalk.StatusInconclusive, got.results[0].Verdict)
	_, err := http.Get(agent.url("/healthz"))
	require.Error(t, err)
}

func TestBounds(t *testing.T) {
	w, root := world(t)
	agent := start(t, machine{hostRoot: root, node: "node-7", registries: []string{w.Registry.Address()}}, listening{}, 1)
	gone := start(t, machine{hostRoot: filepath.Join(root, "gone")}, listening{}, 1)
	image := `{"images":["` + w.Image() + `"]`
	tests := []struct {
		name   string
		agent  *running
		method string
		path   string
		body   string
		origin string
		code   int
		want   string
	}{
		{"a question", agent, "POST", agentclient.Path, image + "}", "", 200, `"verdict"`},
		{"health", agent, "GET", "/healthz", "", "", 200, "ok"},
		{"version", agent, "GET", "/version", "", "", 200, `"schema":"pullwalk.result/v1"`},
		{"not asked", agent, "GET", agentclient.Path, "", "", 405, ""},
		{"elsewhere", agent, "GET", "/debug/pprof/", "", "", 404, ""},
		{"from a page in a browser", agent, "POST", agentclient.Path, image + "}", "https://evil.example", 403, "cross-origin"},
		{"nothing", agent, "POST", agentclient.Path, "", "", 400, "EOF"},
		{"no JSON", agent, "POST", agentclient.Path, "image", "", 400, "invalid character"},
		{"a word that is not known", agent, "POST", agentclient.Path, image + `,"platform":"linux/s390x"}`, "", 400, "unknown field"},
		{"two questions", agent, "POST", agentclient.Path, image + "}" + image + "}", "", 400, "more follows"},
		{"no image", agent, "POST", agentclient.Path, "{}", "", 400, "no image"},
		{"too many images", agent, "POST", agentclient.Path, `{"images":[` + strings.Repeat(`"a",`, agentclient.MaxImages) + `"a"]}`, "", 400, "at most 16"},
		{"an absurd image", agent, "POST", agentclient.Path, `{"images":["` + strings.Repeat("A/", 2000) + `"]}`, "", 400, "error"},
		{"another node", agent, "POST", agentclient.Path, image + `,"node":"node-8"}`, "", 421, "another node"},
		{"an image of elsewhere", agent, "POST", agentclient.Path, `{"images":["169.254.169.254/latest/meta-data"]}`, "", 403, "not diagnosed"},
		{"too much", agent, "POST", agentclient.Path, `{"images":["` + strings.Repeat("a", agentclient.MaxRequest) + `"]}`, "", 413, "larger than"},
		{"a node that is not seen", gone, "POST", agentclient.Path, image + "}", "", 500, "gone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, tt.agent.url(tt.path), strings.NewReader(tt.body))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			if tt.origin != "" {
				req.Header.Set("Origin", tt.origin)
			}
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			var body bytes.Buffer
			_, err = body.ReadFrom(resp.Body)
			require.NoError(t, err)
			require.Equal(t, tt.code, resp.StatusCode, body.String())
			require.Contains(t, body.String(), tt.want)
			if tt.code != 200 {
				require.Less(t, body.Len(), 600)
			}
		})
	}
}

// An agent that cannot see its node says so when it starts, not at each question.
func TestServeNothing(t *testing.T) {
	var out, errs bytes.Buffer
	require.Equal(t, exitInvalid, run(t.Context(), []string{"-host-root", filepath.Join(t.TempDir(), "gone")}, &out, &errs))
	require.Contains(t, errs.String(), "gone")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs.Reset()
	require.Equal(t, exitOK, run(ctx, []string{"-port", "0"}, &out, &errs))
	require.Contains(t, errs.String(), "listening on 127.0.0.1:")
}
