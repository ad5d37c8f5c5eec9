package endpoints_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
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

// The zero Checker asks this machine's network; here the question makes no
// sense, which is the only kind of error.
func ExampleChecker_Check() {
	_, err := (&endpoints.Checker{}).Check(context.Background(), "https://registry.corp.test/team/app")
	fmt.Println(err)
	// Output:
	// image.invalid-reference: "https://registry.corp.test/team/app" is not an image reference: it has a URL scheme, which an image reference never has
}
