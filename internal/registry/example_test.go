package registry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/registry"
)

func ExampleParseReference() {
	for _, image := range []string{"busybox", "registry.corp.test:5000/team/app:1", "registry.corp.test/App"} {
		ref, err := registry.ParseReference(image)
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

// roundTrip stands for a transport to one host.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A registry that redirects: the walk says where to, and the caller decides how
// to get there.
func ExampleWalk() {
	ref, _ := registry.ParseReference("registry.corp.test/team/app:1")
	w := &registry.Walk{Reference: ref}
	layer := registry.Descriptor{Digest: "sha256:0adc3f4a4a08dc2f0c4ba0b5e7a9a5ec60e6e0e3d2d5d2a3d5bcb7e9e3ec1a55", Size: 5}

	origin := roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 307, Header: http.Header{"Location": {"https://blobs.corp.test/x?sig=secret"}}, Body: http.NoBody, Request: r}, nil
	})
	store := roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, ContentLength: 5, Body: io.NopCloser(strings.NewReader("other")), Request: r}, nil
	})

	r := w.Blob(context.Background(), origin, layer, registry.Whole)
	fmt.Println(r.Outcome, r.Location)
	r = w.Follow(context.Background(), store, r, layer, registry.Whole)
	fmt.Println(r.Outcome, r.Host, r.Findings()[0].Cause)
	// Output:
	// redirect https://blobs.corp.test/x
	// failed blobs.corp.test:443 image.digest-mismatch
}

// A gateway that does not know /v2/ itself: containerd pulls, CRI-O does not.
func ExampleWalk_Ping() {
	ref, _ := registry.ParseReference("registry.corp.test/team/app:1")
	gateway := roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 404, Body: io.NopCloser(strings.NewReader("no such page")), Request: r}, nil
	})
	for _, name := range []string{"containerd", "crio"} {
		client := noderuntime.Of(name, "").Client
		r := (&registry.Walk{Reference: ref, Client: client}).Ping(context.Background(), gateway)
		fmt.Println(name, r.Outcome, r.Findings()[0].Severity, r.Findings()[0].Cause)
	}
	// Output:
	// containerd not-needed warn endpoint.method-blocked
	// crio failed fail endpoint.method-blocked
}

// A download that breaks off in the middle, and is resumed as the runtimes do.
func ExampleWalk_Resume() {
	ref, _ := registry.ParseReference("registry.corp.test/team/app:1")
	layer := registry.Descriptor{Digest: "sha256:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa", Size: 5}
	origin := roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Range") == "bytes=2-" {
			return &http.Response{StatusCode: 206, Header: http.Header{"Content-Range": {"bytes 2-4/5"}}, ContentLength: 3, Body: io.NopCloser(strings.NewReader("her")), Request: r}, nil
		}
		cut := io.MultiReader(strings.NewReader("ot"), errReader{io.ErrUnexpectedEOF})
		return &http.Response{StatusCode: 200, ContentLength: 5, Body: io.NopCloser(cut), Request: r}, nil
	})
	w := &registry.Walk{Reference: ref}
	r := w.Blob(context.Background(), origin, layer, registry.Whole)
	fmt.Println(r.Outcome, r.Findings()[0].Cause, r.Resumable())
	r = w.Resume(context.Background(), origin, r, layer)
	fmt.Println(r.Outcome, r.Complete, "from byte", r.Offset, r.Findings()[0].Severity)
	// Output:
	// failed endpoint.download-interrupted true
	// held true from byte 2 warn
}

type errReader struct{ error }

func (r errReader) Read([]byte) (int, error) { return 0, r.error }
