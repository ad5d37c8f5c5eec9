package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
	"github.com/pullwalk/pullwalk/internal/lab"
)

const mib = 1 << 20

// peak runs f with the memory limit of daemonset.yaml and returns how much the runtime
// held of the system's memory at most.
func peak(f func()) uint64 {
	before := debug.SetMemoryLimit(100 * mib)
	defer debug.SetMemoryLimit(before)
	debug.FreeOSMemory()
	most, stop, ended := uint64(0), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.Sys-m.HeapReleased)
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	<-ended
	return most
}

// 16 images of a registry that answers with as much as is read of it, in forms that
// become more in memory, leave the agent below its limit of 128 MiB.
func TestMemoryOfHostileRegistry(t *testing.T) {
	skipUnderRace(t)
	const size = 4*mib - 256
	list := func(element string) string { return strings.Repeat(element+",", size/(len(element)+1)-1) + element }
	const manifest = "application/vnd.oci.image.manifest.v1+json"
	const index = "application/vnd.oci.image.index.v1+json"
	layer := `{"digest":"sha256:` + strings.Repeat("0", 64) + `","size":1}`
	head := func(kind string) string { return `{"schemaVersion":2,"mediaType":"` + kind + `",` }
	tests := []struct{ name, kind, body string }{
		{"layers of zeros", manifest, head(manifest) + `"layers":[` + list("0") + `]}`},
		{"empty layers", manifest, head(manifest) + `"layers":[` + list("{}") + `]}`},
		{"layers", manifest, head(manifest) + `"config":` + layer + `,"layers":[` + list(layer) + `]}`},
		{"empty manifests", index, head(index) + `"manifests":[` + list("{}") + `]}`},
		{"errors", "application/json", `{"errors":[` + list("{}") + `]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, root := world(t)
			body := []byte(tt.body)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/" {
					return
				}
				rw.Header().Set("Content-Type", tt.kind)
				rw.Header().Set("Content-Length", fmt.Sprint(len(body)))
				_, _ = rw.Write(body)
			}))
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.TLS = &tls.Config{Certificates: []tls.Certificate{w.Certificate(lab.RegistryName)}}
			s.StartTLS()
			t.Cleanup(s.Close)
			_, port, err := net.SplitHostPort(s.Listener.Addr().String())
			require.NoError(t, err)
			var images []string
			for i := range agentclient.MaxImages {
				images = append(images, fmt.Sprintf("%s:%s/team/app-%d:v1", lab.RegistryName, port, i))
			}
			var size int
			got := peak(func() {
				results, err := machine{hostRoot: root}.diagnose(t.Context(), agentclient.Request{Images: images})
				require.NoError(t, err)
				require.Len(t, results, len(images))
				for _, r := range results {
					size += len(r.String())
				}
			})
			t.Logf("%d images: %d MiB at most, with the registry in the same process; %d KiB of results", len(images), got/mib, size>>10)
			require.Less(t, got, uint64(128*mib))
		})
	}
}

// A tenant's pull secret of 1 MiB is refused before it is parsed, and the largest that
// is not costs little for 16 images.
func TestMemoryOfPullSecrets(t *testing.T) {
	skipUnderRace(t)
	w, root := world(t)
	var images []string
	for i := range agentclient.MaxImages {
		images = append(images, fmt.Sprintf("%s/team/app-%d:v1", w.Registry.Address(), i))
	}
	secret := func(n int) agentclient.Request {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"r%d.corp.test/x":{"auth":"dTpw"},`, i)
		}
		return agentclient.Request{Images: images, PullSecrets: []agentclient.PullSecret{{Name: "big", Data: []byte(`{"auths":{` + b.String() + `"z":{}}}`)}}}
	}
	_, err := machine{hostRoot: root}.diagnose(t.Context(), secret(30_000)) // 1 MiB
	require.ErrorContains(t, err, "want at most 1024 entries")
	var most time.Duration
	got := peak(func() {
		started := time.Now()
		_, err = machine{hostRoot: root}.diagnose(t.Context(), secret(1000))
		most = time.Since(started)
	})
	require.NoError(t, err)
	t.Logf("1000 entries, 16 images: %d MiB, %v", got/mib, most.Round(time.Millisecond))
	require.Less(t, got, uint64(128*mib))
}

// skipUnderRace skips what counts bytes: the detector's own are among them. CI runs
// these tests once more without it.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if withRace {
		t.Skip("the race detector's memory would be counted, too")
	}
}
