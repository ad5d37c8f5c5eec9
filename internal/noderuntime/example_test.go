package noderuntime_test

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing/fstest"

	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/registry"
)

func ExampleFiles_Sources() {
	node := fstest.MapFS{
		"etc/containerd/config.toml": {Data: []byte(`
			[plugins."io.containerd.cri.v1.images".registry]
			config_path = "/etc/containerd/certs.d"`)},
		"etc/containerd/certs.d/docker.io/hosts.toml": {Data: []byte(`
			[host."https://mirror.corp.test"]
			capabilities = ["pull", "resolve"]`)},
	}
	ref, _ := registry.ParseReference("busybox")
	sources, findings, err := noderuntime.Open(node, "containerd", "").Sources(ref)
	for _, s := range sources {
		fmt.Println(s.Kind, s.Base)
	}
	fmt.Println(findings, err)
	// Output:
	// mirror https://mirror.corp.test/v2
	// upstream https://registry-1.docker.io/v2
	// [] <nil>
}

func ExampleProxyFor() {
	proxy := noderuntime.ProxyFor(map[string]string{"HTTPS_PROXY": "http://proxy.corp.test:3128", "NO_PROXY": "registry.corp.test"})
	for _, s := range []string{"https://registry.corp.test/v2/", "https://blobs.example.test/x"} {
		u, _ := url.Parse(s)
		p, _ := proxy(u)
		fmt.Println(u.Host, p)
	}
	// Output:
	// registry.corp.test <nil>
	// blobs.example.test http://proxy.corp.test:3128
}

func ExampleFiles_Sources_crio() {
	node := fstest.MapFS{"etc/containers/registries.conf": {Data: []byte(`
		[[registry]]
		prefix = "registry.corp.test/team"
		location = "new.corp.test/group"
		[[registry.mirror]]
		location = "mirror.corp.test:5000/cache"`)}}
	ref, _ := registry.ParseReference("registry.corp.test/team/app:1")
	files := noderuntime.Open(node, "crio", "")
	sources, _, _ := files.Sources(ref)
	for _, s := range sources {
		w := s.Walk(ref, files.Client)
		fmt.Println(s.Kind, s.Host, w.Reference.Repository, "credential:", s.Credential, "dead:", files.Delay(s, 10))
	}
	// Output:
	// mirror mirror.corp.test:5000 cache/app credential: none dead: 30s
	// upstream new.corp.test group/app credential: none dead: 30s
}

func ExampleContentStore_Present() {
	const layer = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"
	node := fstest.MapFS{
		"etc/containerd/config.toml": {Data: []byte(`root = "/mnt/containerd"`)},
		"mnt/containerd/io.containerd.content.v1.content/blobs/sha256/" + layer: {Data: []byte("other")},
	}
	store, _ := noderuntime.Open(node, "containerd", "").Store()
	_, findings := store.Present(&registry.Manifest{Layers: []registry.Descriptor{
		{Digest: "sha256:" + layer, Size: 5},
		{Digest: "sha256:" + strings.Repeat("0", 64), Size: 5},
	}})
	fmt.Println(findings[0].Cause, findings[0].Severity)
	fmt.Println(findings[0].Summary)
	// Output:
	// node.layers-already-present info
	// 1 of the 2 layers are in containerd's store on this node already: its own pull would request the rest only
}

func ExampleJudgeProxy() {
	env := map[string]string{"HTTPS_PROXY": "http://proxy.corp.test:3128", "NO_PROXY": "10.0.0.0/8"}
	asked := noderuntime.ProxiedURL{URL: &url.URL{Scheme: "https", Host: "registry.corp.test"}, Addrs: []netip.Addr{netip.MustParseAddr("10.20.0.4")}}
	for _, f := range noderuntime.JudgeProxy(env, asked) {
		fmt.Println(f.Summary)
	}
	// Output:
	// registry.corp.test goes to the proxy although NO_PROXY of the runtime has 10.0.0.0/8: a range matches only an address that stands in the URL, and registry.corp.test is a name, though it leads to 10.20.0.4
}

func ExampleFiles_Sandbox() {
	node := fstest.MapFS{"etc/containerd/config.toml": {Data: []byte(`
		version = 3
		[plugins."io.containerd.cri.v1.images".pinned_images]
		sandbox = "registry.corp.test/pause:3.10"`)}}
	s, _ := noderuntime.Open(node, "containerd", "").Sandbox()
	fmt.Println(s.Image)
	// Output:
	// registry.corp.test/pause:3.10
}

func ExampleKnown() {
	provider, hints := noderuntime.Known("corp.azurecr.io")
	fmt.Println(provider)
	for _, h := range hints {
		fmt.Println(h.Role, h.Host, h.Concrete())
	}
	// Output:
	// Azure Container Registry
	// blob corp.*.data.azurecr.io false
	// blob *.blob.core.windows.net false
}

// Whether a node must ask for its sandbox image at all, and what it offers then.
func ExampleFiles_Stored() {
	node := fstest.MapFS{
		"etc/crio/crio.conf": {Data: []byte("[crio.image]\npause_image = 'registry.corp.test/pause:3.9'\n")},
		"var/lib/containers/storage/overlay-images/images.json": {Data: []byte(`[{"names":["registry.corp.test/pause:3.8"]}]`)},
	}
	files := noderuntime.Open(node, "crio", "")
	s, _ := files.Sandbox()
	ref, _ := registry.ParseReference(s.Image)
	stored, err := files.Stored(ref)
	fmt.Println(stored, err)
	_, file, err := files.Login(ref.Host, ref.Repository, s.AuthFile)
	fmt.Printf("%q %v\n", file, err)
	// Output:
	// false <nil>
	// "" <nil>
}
