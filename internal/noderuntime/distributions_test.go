package noderuntime

import (
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// start puts a process with a command line into the tree.
func start(tree fstest.MapFS, pid int, comm, args string) {
	add(tree, pid, comm, hostNet, firstPID, "PID="+strconv.Itoa(pid))
	tree["proc/"+strconv.Itoa(pid)+"/cmdline"] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(args, " ", "\x00") + "\x00")}
}

const (
	k3sConfig    = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
	rke2Config   = "/var/lib/rancher/rke2/agent/etc/containerd/config.toml"
	dockerRunner = "/var/run/docker/containerd/containerd.toml"
)

// Which process pulls, in the forms in which nodes come.
func TestDistributions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		processes [][2]string // name, command line; process numbers count up from 100
		want      string
		pid       int
		config    string
	}{
		"k3s with its containerd": {[][2]string{
			{"k3s-server", "/usr/local/bin/k3s server"},
			{"containerd", "containerd -c " + k3sConfig},
			{"containerd-shim", "/var/lib/rancher/k3s/data/current/bin/containerd-shim-runc-v2 -namespace k8s.io"},
		}, "containerd", 101, k3sConfig},
		"k3s beside docker and its containerd": {[][2]string{
			{"containerd", "/usr/bin/containerd"},
			{"dockerd", "/usr/bin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock"},
			{"k3s-server", "/usr/local/bin/k3s server --config /etc/rancher/k3s/config.yaml"},
			{"containerd", "containerd -c " + k3sConfig},
		}, "containerd", 103, k3sConfig},
		"k3s alone, whose own file is not a containerd's": {[][2]string{{"k3s-agent", "/usr/local/bin/k3s agent --config /etc/rancher/k3s/config.yaml"}}, "k3s-agent", 100, ""},
		"k3s with docker": {[][2]string{{"dockerd", "/usr/bin/dockerd"}, {"containerd", "containerd --config " + dockerRunner}}, "dockerd", 100, ""},
		"RKE2": {[][2]string{
			{"rke2", "/usr/local/bin/rke2 server"},
			{"containerd", "containerd -c " + rke2Config},
			{"kubelet", "kubelet --container-runtime-endpoint=unix:///run/k3s/containerd/containerd.sock"},
		}, "containerd", 101, rke2Config},
		"docker alone, its containerd older": {[][2]string{{"containerd", "containerd --config " + dockerRunner}, {"dockerd", "/usr/bin/dockerd -H fd://"}}, "dockerd", 101, ""},
		"docker beside the kubelet's containerd": {[][2]string{
			{"dockerd", "/usr/bin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock"},
			{"containerd", "/usr/bin/containerd"},
			{"kubelet", "/usr/bin/kubelet --container-runtime-endpoint unix:///run/containerd/containerd.sock"},
		}, "containerd", 101, ""},
		"cri-dockerd by the kubelet's flag": {[][2]string{
			{"containerd", "/usr/bin/containerd"},
			{"dockerd", "/usr/bin/dockerd"},
			{"kubelet", "/usr/bin/kubelet --container-runtime-endpoint=unix:///run/cri-dockerd.sock"},
		}, "dockerd", 101, ""},
		"images by another runtime": {[][2]string{
			{"containerd", "/usr/bin/containerd"},
			{"crio", "/usr/bin/crio"},
			{"kubelet", "/usr/bin/kubelet --container-runtime-endpoint=unix:///run/containerd/containerd.sock --image-service-endpoint=unix:///run/crio/crio.sock"},
		}, "crio", 101, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := proc()
			for i, p := range tt.processes {
				start(tree, 100+i, p[0], p[1])
			}
			got, ok := Find(tree)
			require.True(t, ok)
			assert.Equal(t, tt.want, got.Name)
			assert.Equal(t, tt.pid, got.PID)
			assert.Equal(t, tt.config, got.ConfigFile)
			assert.Equal(t, strconv.Itoa(tt.pid), got.Environ["PID"], "its own environment, not another's")
		})
	}
}

// The kubelet may be started with another file than the usual one.
func TestKubeletsOwnConfigFile(t *testing.T) {
	t.Parallel()
	tree := proc()
	start(tree, 100, "containerd", "containerd")
	start(tree, 101, "crio", "crio")
	start(tree, 102, "kubelet", "kubelet --config=/etc/kubernetes/kubelet.yaml")
	tree["etc/kubernetes/kubelet.yaml"] = &fstest.MapFile{Data: []byte("containerRuntimeEndpoint: unix:///run/crio/crio.sock\n")}
	got, _ := Find(tree)
	assert.Equal(t, "crio", got.Name)
}

func TestFindNamed(t *testing.T) {
	t.Parallel()
	tree := proc()
	start(tree, 100, "containerd", "containerd")
	start(tree, 101, "crio", "crio")
	start(tree, 102, "rke2", "rke2 server")
	start(tree, 103, "containerd", "containerd -c "+rke2Config)
	for name, want := range map[string]int{"": 100, "containerd": 100, "crio": 101, "rke2": 103, "k3s": 0, "dockerd": 0} {
		got, ok := FindNamed(tree, name)
		assert.Equal(t, want != 0, ok, name)
		assert.Equal(t, want, got.PID, name)
	}
}

func TestFindKubelet(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		comm, args string
		files      []string
		want       string // "" = none
	}{
		"none":                    {"containerd", "containerd", nil, ""},
		"a process of its own":    {"kubelet", "/usr/bin/kubelet --root-dir /data", nil, "/usr/bin/kubelet --root-dir /data"},
		"inside k3s":              {"k3s-agent", "k3s agent --kubelet-arg=root-dir=/data --kubelet-arg v=4", nil, "k3s agent --kubelet-arg=root-dir=/data --kubelet-arg v=4 --root-dir=/data --v=4"},
		"k3s' own provider files": {"k3s-server", "k3s server", []string{"var/lib/rancher/credentialprovider/config.yaml"}, "k3s --image-credential-provider-config=/var/lib/rancher/credentialprovider/config.yaml --image-credential-provider-bin-dir=/var/lib/rancher/credentialprovider/bin server"},
	} {
		tree := proc()
		start(tree, 100, tt.comm, tt.args)
		for _, f := range tt.files {
			tree[f] = &fstest.MapFile{}
		}
		got, ok := FindKubelet(tree)
		assert.Equal(t, tt.want != "", ok, name)
		assert.Equal(t, tt.want, strings.Join(got.Args, " "), name)
		if ok {
			assert.Equal(t, "100", got.Environ["PID"], name)
		}
	}
	_, ok := FindKubelet(fstest.MapFS{})
	assert.False(t, ok)

	for own, want := range map[string]bool{"mnt:[7]": true, "mnt:[8]": false, "": false} {
		tree := proc()
		start(tree, 100, "kubelet", "kubelet")
		tree["proc/100/ns/mnt"] = link("mnt:[7]")
		if own != "" {
			tree["proc/900/ns/mnt"] = link(own)
		}
		got, _ := FindKubelet(tree)
		assert.Equal(t, want, got.SameFiles, own)
	}

	tree := proc() // a program of that name in a container is not the node's
	start(tree, 100, "kubelet", "kubelet")
	tree["proc/100/ns/pid"] = link(podPID)
	_, ok = FindKubelet(tree)
	assert.False(t, ok)
}
