package noderuntime

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/nodefs"
)

const (
	hostNet = "net:[4026531840]"
	podNet  = "net:[4026532500]"
	podPID  = "pid:[4026532501]"
)

// proc is a tree in which process 1 is the machine's own and this process is 900.
func proc() fstest.MapFS {
	tree := fstest.MapFS{"proc/self": link("900"), "proc/uptime": {Data: []byte("1 1")}}
	add(tree, 1, "systemd", hostNet, firstPID, "")
	add(tree, 900, "agent", hostNet, firstPID, "")
	return tree
}

func link(target string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

func add(tree fstest.MapFS, pid int, comm, net, pidns, environ string) {
	dir := "proc/" + strconv.Itoa(pid)
	tree[dir+"/comm"] = &fstest.MapFile{Data: []byte(comm + "\n")}
	tree[dir+"/environ"] = &fstest.MapFile{Data: []byte(environ)}
	tree[dir+"/ns/net"] = link(net)
	tree[dir+"/ns/pid"] = link(pidns)
	belongsTo(tree, pid, 0)
}

// belongsTo makes the process one of a user, started at the tick of its number, with
// a program of its name.
func belongsTo(tree fstest.MapFS, pid, uid int) {
	dir := "proc/" + strconv.Itoa(pid)
	tree[dir+"/status"] = &fstest.MapFile{Data: fmt.Appendf(nil, "Name:\tx\nUid:\t%d\t%d\t%d\t%d\nGid:\t0\t0\t0\t0\n", uid, uid, uid, uid)}
	tree[dir+"/stat"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d (x) S 1 1 1 0 -1 0 1 0 0 0 1 2 0 0 20 0 9 0 %d 1 1 1\n", pid, pid)}
	tree[dir+"/exe"] = link("/usr/bin/program")
	tree["usr/bin/program"] = &fstest.MapFile{Mode: 0o755}
}

func TestFind(t *testing.T) {
	t.Parallel()
	env := func(k, v string) map[string]string { return map[string]string{k: v} }
	for name, tt := range map[string]struct {
		change func(tree fstest.MapFS)
		want   Runtime
		none   bool
	}{
		"none": {func(fstest.MapFS) {}, Runtime{}, true},
		"containerd": {func(tree fstest.MapFS) {
			add(tree, 812, "containerd", hostNet, firstPID, "HTTPS_PROXY=http://p:1\x00A=b=c\x00")
		}, Runtime{Name: "containerd", PID: 812, Environ: map[string]string{"HTTPS_PROXY": "http://p:1", "A": "b=c"}}, false},
		"k3s and its own": {func(tree fstest.MapFS) {
			add(tree, 700, "k3s-server", hostNet, firstPID, "A=1")
			add(tree, 812, "containerd", hostNet, firstPID, "A=2")
		}, Runtime{Name: "containerd", PID: 812, Environ: env("A", "2")}, false},
		"k3s alone": {func(tree fstest.MapFS) { add(tree, 700, "k3s-agent", hostNet, firstPID, "A=1") }, Runtime{Name: "k3s-agent", PID: 700, Environ: env("A", "1")}, false},
		"rank before age": {func(tree fstest.MapFS) {
			add(tree, 3, "dockerd", hostNet, firstPID, "")
			add(tree, 5000, "crio", hostNet, firstPID, "A=1")
		}, Runtime{Name: "crio", PID: 5000, Environ: env("A", "1")}, false},
		"two of a kind": {func(tree fstest.MapFS) {
			add(tree, 1000, "containerd", hostNet, firstPID, "A=1")
			add(tree, 90, "containerd", hostNet, firstPID, "A=2")
		}, Runtime{Name: "containerd", PID: 90, Environ: env("A", "2")}, false},
		"two that go other ways": {func(tree fstest.MapFS) {
			add(tree, 1000, "containerd", hostNet, firstPID, "HTTPS_PROXY=http://p:1")
			add(tree, 90, "containerd", hostNet, firstPID, "")
			add(tree, 80, "dockerd", hostNet, firstPID, "")
			add(tree, 70, "containerd", hostNet, firstPID, "")
			tree["proc/70/cmdline"] = &fstest.MapFile{Data: []byte("containerd\x00-c\x00/etc/other.toml\x00")}
		}, Runtime{
			Name: "containerd", PID: 70, Environ: map[string]string{}, ConfigFile: "/etc/other.toml",
			Rivals: []string{"containerd (pid 90)", "containerd (pid 1000)"},
		}, false},
		"another network": {func(tree fstest.MapFS) { add(tree, 812, "containerd", podNet, firstPID, "") }, Runtime{}, true},
		"the nearer one": {func(tree fstest.MapFS) {
			add(tree, 50, "containerd", podNet, firstPID, "")
			add(tree, 812, "dockerd", hostNet, firstPID, "A=1")
		}, Runtime{Name: "dockerd", PID: 812, Environ: env("A", "1")}, false},
		"in a container": {func(tree fstest.MapFS) {
			add(tree, 50, "containerd", hostNet, podPID, "HTTPS_PROXY=evil")
			add(tree, 812, "containerd", hostNet, firstPID, "A=1")
		}, Runtime{Name: "containerd", PID: 812, Environ: env("A", "1")}, false},
		"a name like it": {func(tree fstest.MapFS) {
			add(tree, 50, "containerd-shim", hostNet, firstPID, "")
			add(tree, 51, " containerd", hostNet, firstPID, "")
			add(tree, 52, "containerd\nx", hostNet, firstPID, "")
		}, Runtime{}, true},
		"no environ": {func(tree fstest.MapFS) {
			add(tree, 812, "crio", hostNet, firstPID, "")
			delete(tree, "proc/812/environ")
		}, Runtime{Name: "crio", PID: 812}, false},
		"empty environ": {func(tree fstest.MapFS) { add(tree, 812, "crio", hostNet, firstPID, "") }, Runtime{Name: "crio", PID: 812, Environ: map[string]string{}}, false},
		"no namespaces": {func(tree fstest.MapFS) {
			add(tree, 812, "crio", hostNet, firstPID, "")
			delete(tree, "proc/812/ns/net")
		}, Runtime{}, true},
		"not our own": {func(tree fstest.MapFS) { add(tree, 812, "crio", hostNet, firstPID, ""); delete(tree, "proc/self") }, Runtime{}, true},
		"1 is not shown": {func(tree fstest.MapFS) {
			add(tree, 812, "crio", hostNet, firstPID, "A=1")
			delete(tree, "proc/1/ns/pid")
		}, Runtime{Name: "crio", PID: 812, Environ: env("A", "1")}, false},
		"a version behind the name": {func(tree fstest.MapFS) {
			add(tree, 50, "containerd-shim", hostNet, firstPID, "")
			add(tree, 812, "containerd-2.4", hostNet, firstPID, "A=1")
		}, Runtime{Name: "containerd", PID: 812, Environ: env("A", "1")}, false},
		"the kubelet's choice": {func(tree fstest.MapFS) {
			tree[kubeletConfig] = &fstest.MapFile{Data: []byte("containerRuntimeEndpoint: unix:///run/crio/crio.sock")}
			add(tree, 50, "containerd", hostNet, firstPID, "")
			add(tree, 812, "crio", hostNet, firstPID, "A=1")
			tree["proc/812/cmdline"] = &fstest.MapFile{Data: []byte("crio\x00--config=/etc/other.conf\x00")}
		}, Runtime{Name: "crio", PID: 812, Environ: env("A", "1"), ConfigFile: "/etc/other.conf"}, false},
		"gone meanwhile": {func(tree fstest.MapFS) { add(tree, 812, "crio", hostNet, firstPID, ""); delete(tree, "proc/812/comm") }, Runtime{}, true},
		"odd environ": {func(tree fstest.MapFS) {
			add(tree, 812, "crio", hostNet, firstPID, "\x00=x\x00novalue\x00E=\x00A=1\x00A=2")
		}, Runtime{Name: "crio", PID: 812, Environ: map[string]string{"E": "", "A": "1"}}, false},
		"not a process": {func(tree fstest.MapFS) {
			tree["proc/-5/comm"] = &fstest.MapFile{Data: []byte("crio\n")}
			tree["proc/5x/comm"] = &fstest.MapFile{Data: []byte("crio\n")}
		}, Runtime{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := proc()
			tt.change(tree)
			got, ok := Find(tree)
			assert.Equal(t, !tt.none, ok)
			assert.Equal(t, tt.none, got.Started.IsZero())
			got.id, got.Started = identity{}, time.Time{}
			assert.Equal(t, tt.want, got)
		})
	}
	_, ok := Find(fstest.MapFS{})
	assert.False(t, ok)
	_, ok = Find(noLinks{proc()})
	assert.False(t, ok, "a tree that knows no links says nothing")
}

type noLinks struct{ tree fs.FS }

func (n noLinks) Open(name string) (fs.File, error) { return n.tree.Open(name) }

// Half a value is another value: what is cut is left out.
func TestHugeEnviron(t *testing.T) {
	t.Parallel()
	tree := proc()
	add(tree, 812, "crio", hostNet, firstPID, "A=1\x00HTTPS_PROXY=http://"+strings.Repeat("p", maxEnviron)+"\x00B=2")
	got, ok := Find(tree)
	require.True(t, ok)
	assert.Equal(t, map[string]string{"A": "1"}, got.Environ)

	add(tree, 812, "crio", hostNet, firstPID, strings.Repeat("x", 2*maxEnviron))
	got, _ = Find(tree)
	assert.Empty(t, got.Environ)
}

func TestNetworkNamespace(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(tree fstest.MapFS)
		want   string
	}{
		"the machine's":               {func(fstest.MapFS) {}, "host"},
		"a pod that sees the machine": {func(tree fstest.MapFS) { tree["proc/900/ns/net"] = link(podNet) }, "other"},
		"a container by itself": {func(tree fstest.MapFS) {
			add(tree, 1, "agent", podNet, podPID, "")
			add(tree, 900, "agent", podNet, podPID, "")
		}, "unknown"},
		"a container that plays the kernel": {func(tree fstest.MapFS) {
			add(tree, 1, "agent", podNet, podPID, "")
			add(tree, 2, "kthreadd", podNet, podPID, "")
			add(tree, 900, "agent", podNet, podPID, "")
		}, "unknown"},
		"the kernel's first number":              {func(tree fstest.MapFS) { tree["proc/900/ns/net"] = link(firstNet); delete(tree, "proc/1/ns/net") }, "host"},
		"process 1 is not shown":                 {func(tree fstest.MapFS) { delete(tree, "proc/1/ns/net") }, "unknown"},
		"we are not shown":                       {func(tree fstest.MapFS) { delete(tree, "proc/self") }, "unknown"},
		"a tree without namespaces of processes": {func(tree fstest.MapFS) { delete(tree, "proc/1/ns/pid") }, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := proc()
			tt.change(tree)
			assert.Equal(t, tt.want, NetworkNamespace(tree))
		})
	}
	assert.Equal(t, "unknown", NetworkNamespace(fstest.MapFS{}))
}

// The real thing, whatever it is here: through the re-rooted tree, as callers do.
func TestThisMachine(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no /proc of this kind")
	}
	tree, err := nodefs.New("/")
	require.NoError(t, err)
	assert.Contains(t, []string{"host", "other", "unknown"}, NetworkNamespace(tree))
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Skip("the namespaces of this process cannot be read: ", err)
	}
	assert.Equal(t, own, namespace(tree, "self", "net"))
	if r, ok := Find(tree); ok {
		assert.Contains(t, processNames(), r.Name)
	}
}

func TestOwnEnviron(t *testing.T) {
	t.Setenv("PULLWALK_TEST", "a=b")
	assert.Equal(t, "a=b", OwnEnviron()["PULLWALK_TEST"])
}

func FuzzParseEnviron(f *testing.F) {
	f.Add([]byte("A=b\x00C=d\x00"))
	f.Add([]byte("=\x00\x00="))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for key := range parseEnviron(raw) {
			if key == "" || strings.ContainsAny(key, "=\x00") {
				t.Fatalf("%q", key)
			}
		}
	})
}
