package pullwalk_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
)

// crowd makes n diagnoses at once.
func crowd(t testing.TB, n int, image string, opts *pullwalk.Options) []*pullwalk.Result {
	t.Helper()
	results := make([]*pullwalk.Result, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { results[i], errs[i] = pullwalk.Diagnose(t.Context(), image, opts) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return results
}

// openRegistry serves one image to anybody, in the clear, on the node itself.
func openRegistry(t testing.TB, w *world) (image string) {
	t.Helper()
	served := map[string][]byte{}
	put := func(content []byte) map[string]any {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
		served[digest] = content
		return map[string]any{"digest": digest, "size": len(content)}
	}
	const mediaType = "application/vnd.oci.image.manifest.v1+json"
	config, layer := put([]byte("{}")), put(make([]byte, 100_000))
	config["mediaType"], layer["mediaType"] = "application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip"
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": mediaType, "config": config, "layers": []any{layer}})
	require.NoError(t, err)
	tagged := put(manifest)["digest"].(string)
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		name := path.Base(r.URL.Path)
		if name == "v2" {
			return
		}
		if name == "v1" {
			name = tagged
		}
		if name == tagged {
			rw.Header().Set("Content-Type", mediaType)
			rw.Header().Set("Docker-Content-Digest", tagged)
		}
		http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(served[name]))
	})}
	listener := w.net.Listen(netip.MustParseAddrPort("127.0.0.1:5000"))
	go func() { _ = server.Serve(listener) }()
	w.closers = append(w.closers, func() { _ = server.Close() })
	return "127.0.0.1:5000/team/app:v1"
}

// A thousand diagnoses in one process at once: each has its verdict, and the bubble
// ends only when no goroutine is left. Most go without TLS: a thousand with all
// their handshakes hold as well, and take half a minute of two processors.
func TestAThousandAtOnce(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]pullwalk.Status{"": pullwalk.StatusOK, "net silent 127.0.0.1:5000": pullwalk.StatusFailed} {
		inWorld(t, "route 127.0.0.0/8 dev lo\nlogin none\n"+fault, func(t *testing.T, w *world) {
			for _, res := range crowd(t, 1000, openRegistry(t, w), &w.opts) {
				require.Equal(t, want, res.Verdict, res.String())
			}
		})
	}
	inWorld(t, "", func(t *testing.T, w *world) {
		for _, res := range crowd(t, 50, w.image, &w.opts) {
			require.Equal(t, pullwalk.StatusOK, res.Verdict, res.String())
		}
	})
}

// The same in one call.
func TestAThousandImages(t *testing.T) {
	t.Parallel()
	inWorld(t, "route 127.0.0.0/8 dev lo\nlogin none", func(t *testing.T, w *world) {
		var images []string
		image := openRegistry(t, w)
		for i := range 1000 {
			images = append(images, strings.Replace(image, "app", fmt.Sprint("app", i), 1))
		}
		all, err := pullwalk.DiagnoseAll(t.Context(), images, &w.opts)
		require.NoError(t, err)
		for _, res := range all {
			require.Equal(t, pullwalk.StatusOK, res.Verdict, res.String())
		}
	})
}

// BenchmarkAThousandAtOnce is the same in real time. Where the machine is too small
// for that, so that answers are read late, a verdict is open and not wrong.
func BenchmarkAThousandAtOnce(b *testing.B) {
	w := newWorld(b, "route 127.0.0.0/8 dev lo\nlogin none", nil, nil)
	defer w.close()
	image, open := openRegistry(b, w), 0
	b.ReportAllocs()
	for b.Loop() {
		for _, res := range crowd(b, 1000, image, &w.opts) {
			switch res.Verdict {
			case pullwalk.StatusOK, pullwalk.StatusDegraded:
			case pullwalk.StatusInconclusive:
				open++
			default:
				b.Fatal(res)
			}
		}
	}
	b.ReportMetric(float64(open)/float64(b.N), "open/op")
}
