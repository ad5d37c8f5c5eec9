package endpoints_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing/fstest"

	"github.com/pullwalk/pullwalk/endpoints"
)

func ExampleParseReference() {
	for _, image := range []string{"busybox", "registry.corp.test:5000/team/app:1", "registry.corp.test/App"} {
		ref, err := endpoints.ParseReference(image)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(ref, "from", ref.Scheme, ref.Host)
	}
	// Output:
	// docker.io/library/busybox:latest from https registry-1.docker.io
	// registry.corp.test:5000/team/app:1 from https registry.corp.test:5000
	// image.invalid-reference: "registry.corp.test/App" is not an image reference: the repository must be lower case
}

func ExampleSources() {
	node := fstest.MapFS{
		"etc/containerd/config.toml": {Data: []byte(`
			[plugins."io.containerd.cri.v1.images".registry]
			config_path = "/etc/containerd/certs.d"`)},
		"etc/containerd/certs.d/docker.io/hosts.toml": {Data: []byte(`
			[host."https://mirror.corp.test"]
			capabilities = ["pull", "resolve"]`)},
	}
	ref, _ := endpoints.ParseReference("busybox")
	sources, findings, err := endpoints.Sources(node, "", ref)
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
	proxy := endpoints.ProxyFor(map[string]string{"HTTPS_PROXY": "http://proxy.corp.test:3128", "NO_PROXY": "registry.corp.test"})
	for _, s := range []string{"https://registry.corp.test/v2/", "https://blobs.example.test/x"} {
		u, _ := url.Parse(s)
		p, _ := proxy(u)
		fmt.Println(u.Host, p)
	}
	// Output:
	// registry.corp.test <nil>
	// blobs.example.test http://proxy.corp.test:3128
}

// roundTrip stands for a transport to one host.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A registry that redirects: the walk says where to, and the caller decides how
// to get there.
func ExampleWalk() {
	ref, _ := endpoints.ParseReference("registry.corp.test/team/app:1")
	w := &endpoints.Walk{Reference: ref}
	layer := endpoints.Descriptor{Digest: "sha256:0adc3f4a4a08dc2f0c4ba0b5e7a9a5ec60e6e0e3d2d5d2a3d5bcb7e9e3ec1a55", Size: 5}

	registry := roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 307, Header: http.Header{"Location": {"https://blobs.corp.test/x?sig=secret"}}, Body: http.NoBody, Request: r}, nil
	})
	store := roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, ContentLength: 5, Body: io.NopCloser(strings.NewReader("other")), Request: r}, nil
	})

	r := w.Blob(context.Background(), registry, layer, endpoints.Whole)
	fmt.Println(r.Outcome, r.Location)
	r = w.Follow(context.Background(), store, r, layer, endpoints.Whole)
	fmt.Println(r.Outcome, r.Host, r.Findings()[0].Cause)
	// Output:
	// redirect https://blobs.corp.test/x
	// failed blobs.corp.test:443 image.digest-mismatch
}

func ExampleSourcesOf() {
	node := fstest.MapFS{"etc/containers/registries.conf": {Data: []byte(`
		[[registry]]
		prefix = "registry.corp.test/team"
		location = "new.corp.test/group"
		[[registry.mirror]]
		location = "mirror.corp.test:5000/cache"`)}}
	ref, _ := endpoints.ParseReference("registry.corp.test/team/app:1")
	sources, _, _ := endpoints.SourcesOf(node, "crio", "", ref)
	for _, s := range sources {
		w := s.Walk(ref, endpoints.WayCRIO)
		fmt.Println(s.Kind, s.Host, w.Reference.Repository, "credential:", s.Credential, "dead:", s.Delay(endpoints.WayCRIO, 10))
	}
	// Output:
	// mirror mirror.corp.test:5000 cache/app credential: none dead: 30s
	// upstream new.corp.test group/app credential: none dead: 30s
}

// A gateway that does not know /v2/ itself: containerd pulls, CRI-O does not.
func ExampleWalk_Ping() {
	ref, _ := endpoints.ParseReference("registry.corp.test/team/app:1")
	gateway := roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 404, Body: io.NopCloser(strings.NewReader("no such page")), Request: r}, nil
	})
	for _, way := range []endpoints.Way{endpoints.WayContainerd, endpoints.WayCRIO} {
		r := (&endpoints.Walk{Reference: ref, Client: way.Client()}).Ping(context.Background(), gateway)
		fmt.Println(way, r.Outcome, r.Findings()[0].Severity, r.Findings()[0].Cause)
	}
	// Output:
	// containerd not-needed warn endpoint.method-blocked
	// crio failed fail endpoint.method-blocked
}

// A download that breaks off in the middle, and is resumed as the runtimes do.
func ExampleWalk_Resume() {
	ref, _ := endpoints.ParseReference("registry.corp.test/team/app:1")
	layer := endpoints.Descriptor{Digest: "sha256:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa", Size: 5}
	registry := roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Range") == "bytes=2-" {
			return &http.Response{StatusCode: 206, Header: http.Header{"Content-Range": {"bytes 2-4/5"}}, ContentLength: 3, Body: io.NopCloser(strings.NewReader("her")), Request: r}, nil
		}
		cut := io.MultiReader(strings.NewReader("ot"), errReader{io.ErrUnexpectedEOF})
		return &http.Response{StatusCode: 200, ContentLength: 5, Body: io.NopCloser(cut), Request: r}, nil
	})
	w := &endpoints.Walk{Reference: ref}
	r := w.Blob(context.Background(), registry, layer, endpoints.Whole)
	fmt.Println(r.Outcome, r.Findings()[0].Cause, r.Resumable())
	r = w.Resume(context.Background(), registry, r, layer)
	fmt.Println(r.Outcome, r.Complete, "from byte", r.Offset, r.Findings()[0].Severity)
	// Output:
	// failed endpoint.download-interrupted true
	// held true from byte 2 warn
}

type errReader struct{ error }

func (r errReader) Read([]byte) (int, error) { return 0, r.error }

func ExampleContentStore_Present() {
	const layer = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"
	node := fstest.MapFS{
		"etc/containerd/config.toml": {Data: []byte(`root = "/mnt/containerd"`)},
		"mnt/containerd/io.containerd.content.v1.content/blobs/sha256/" + layer: {Data: []byte("other")},
	}
	store, _ := endpoints.OpenContentStore(node, "")
	_, findings := store.Present(&endpoints.Manifest{Layers: []endpoints.Descriptor{
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
	registry := endpoints.ProxiedURL{URL: &url.URL{Scheme: "https", Host: "registry.corp.test"}, Addrs: []netip.Addr{netip.MustParseAddr("10.20.0.4")}}
	for _, f := range endpoints.JudgeProxy(env, registry) {
		fmt.Println(f.Summary)
	}
	// Output:
	// registry.corp.test goes to the proxy although NO_PROXY of the runtime has 10.0.0.0/8: a range matches only an address that stands in the URL, and registry.corp.test is a name, though it leads to 10.20.0.4
}

func ExampleSandboxImage() {
	node := fstest.MapFS{"etc/containerd/config.toml": {Data: []byte(`
		version = 3
		[plugins."io.containerd.cri.v1.images".pinned_images]
		sandbox = "registry.corp.test/pause:3.10"`)}}
	s, ok, _ := endpoints.SandboxImage(node, "containerd", "")
	fmt.Println(ok, s.Image)
	// Output:
	// true registry.corp.test/pause:3.10
}

func ExampleKnown() {
	provider, hints := endpoints.Known("corp.azurecr.io")
	fmt.Println(provider)
	for _, h := range hints {
		fmt.Println(h.Role, h.Host, h.Concrete())
	}
	// Output:
	// Azure Container Registry
	// blob corp.*.data.azurecr.io false
	// blob *.blob.core.windows.net false
}

// The zero Checker asks this machine's network; here the question makes no
// sense, which is the only kind of error.
func ExampleChecker_Check() {
	_, err := (&endpoints.Checker{}).Check(context.Background(), "https://registry.corp.test/team/app")
	fmt.Println(err)
	// Output:
	// image.invalid-reference: "https://registry.corp.test/team/app" is not an image reference: it has a URL scheme, which an image reference never has
}

// Whether a node must ask for its sandbox image at all, and what it offers then.
func ExampleSandbox_Stored() {
	node := fstest.MapFS{
		"etc/crio/crio.conf": {Data: []byte("[crio.image]\npause_image = 'registry.corp.test/pause:3.9'\n")},
		"var/lib/containers/storage/overlay-images/images.json": {Data: []byte(`[{"names":["registry.corp.test/pause:3.8"]}]`)},
	}
	s, _, _ := endpoints.SandboxImage(node, "crio", "")
	ref, _ := endpoints.ParseReference(s.Image)
	stored, err := s.Stored(node, "crio", "", ref)
	fmt.Println(stored, err)
	_, file, err := s.Login(node, "crio", "", ref.Host, ref.Repository)
	fmt.Printf("%q %v\n", file, err)
	// Output:
	// false <nil>
	// "" <nil>
}
