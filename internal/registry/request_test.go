package registry

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A blob that comes back to the registry after a stranger: net/http has dropped
// Authorization by then, and only some runtimes add it again.
func TestAuthorizationAfterAStranger(t *testing.T) {
	t.Parallel()
	d := Descriptor{Digest: sum("layer"), Size: 5}
	for _, tt := range []struct {
		runtime Client
		want    [2]bool
	}{{containerd, [2]bool{true, true}}, {docker, [2]bool{true, false}}, {crio, [2]bool{false, false}}} {
		for i, back := range []string{"https://registry.corp.test/v2/back", "https://registry.corp.test/back"} {
			w := newWalk(t, image)
			w.Client, w.Authorization = tt.runtime, "Bearer s3cr3t"
			seen := map[string]bool{}
			rt := roundTrip(func(req *http.Request) (*http.Response, error) {
				seen[req.URL.Host+req.URL.Path] = req.Header.Get("Authorization") != ""
				switch {
				case strings.Contains(req.URL.Path, "/blobs/"):
					return reply(307, header{"Location": "https://blobs.example.test/x"}, nil)(req)
				case req.URL.Host == "blobs.example.test":
					return reply(307, header{"Location": back}, nil)(req)
				}
				return reply(200, nil, "layer")(req)
			})
			r := w.Blob(t.Context(), rt, d, Whole)
			for r.Redirect() != nil {
				r = w.Follow(t.Context(), rt, r, d, Whole)
			}
			assert.True(t, r.Complete)
			assert.False(t, seen["blobs.example.test/x"], tt.runtime.Name)
			assert.Equal(t, tt.want[i], seen[strings.TrimPrefix(back, "https://")], "%s %s", tt.runtime.Name, back)
		}
	}
}

// Containerd answers the challenge of a redirect target, CRI-O and docker stop there.
func TestChallengeOfARedirectTarget(t *testing.T) {
	t.Parallel()
	d := Descriptor{Digest: sum("layer"), Size: 5}
	for _, tt := range []struct {
		runtime      Client
		challenge    string
		inconclusive string
	}{
		{containerd, `Bearer realm="https://auth.example.test/token"`, "credential withheld: after a redirect"},
		{containerd, `Basic realm="x"`, "credential withheld: after a redirect"},
		{containerd, `Negotiate`, ""},
		{containerd, "", ""},
		{crio, `Bearer realm="https://auth.example.test/token"`, ""},
		{docker, `Bearer realm="https://auth.example.test/token"`, ""},
	} {
		w := newWalk(t, image)
		w.Client = tt.runtime
		rt := roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "blobs.example.test" {
				h := header{}
				if tt.challenge != "" {
					h["Www-Authenticate"] = tt.challenge
				}
				return reply(401, h, "denied")(req)
			}
			return reply(307, header{"Location": "https://blobs.example.test/x"}, nil)(req)
		})
		r := w.Follow(t.Context(), rt, w.Blob(t.Context(), rt, d, Whole), d, Whole)
		assert.Equal(t, tt.inconclusive, r.Inconclusive, tt)
		assert.Equal(t, tt.inconclusive == "", r.Outcome == OutcomeFailed, tt)
	}
}

// How CRI-O and docker ask, in what the requests here depend on; the profiles of the
// runtimes have the whole.
var (
	containerd = Client{}
	crio       = Client{
		Name: "CRI-O", Pings: true, Resolves: http.MethodGet, Token: WayGet, Returns: ReturnsNever,
		IgnoresTargets: true, ForeignSettings: true, ResumesResets: true,
	}
	docker = Client{
		Name: "the docker engine", Pings: true, Token: WayGet, Returns: ReturnsAPI,
		IgnoresTargets: true, ForeignSettings: true, ResumesResets: true,
	}
)
