package pullwalk_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// startLab puts a private registry on loopback and returns how a node of it
// asks.
func startLab(tb testing.TB, layers ...int) (*lab.World, *pullwalk.Options) {
	tb.Helper()
	w, err := lab.New(lab.Options{LayerSizes: layers, Platforms: []string{"linux/amd64"}})
	if err != nil {
		tb.Fatal(err)
	}
	if err := w.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(w.Close)
	keychain, err := tlsauth.DockerConfig(w.DockerConfig())
	if err != nil {
		tb.Fatal(err)
	}
	return w, &pullwalk.Options{
		Node: pullwalk.Node{FS: w.FS(), DNS: w.Exchanger()}, Keychain: keychain, Platform: "linux/amd64",
	}
}

// BenchmarkDiagnoseHealthy is what an agent does again and again: every hop of
// three hosts, two handshakes each, first bytes of three layers, on loopback.
func BenchmarkDiagnoseHealthy(b *testing.B) {
	w, opts := startLab(b)
	b.ReportAllocs()
	for b.Loop() {
		res, err := pullwalk.Diagnose(b.Context(), w.Image(), opts)
		if err != nil || res.Verdict != pullwalk.StatusOK {
			b.Fatalf("%v %v", err, res)
		}
	}
}

// BenchmarkDiagnoseComplete downloads and checks 64 MiB. The bytes per second
// count TLS on both sides and the making of the layer, too; the allocations show
// that no layer is kept.
func BenchmarkDiagnoseComplete(b *testing.B) {
	const size = 64 << 20
	w, opts := startLab(b, size)
	opts.Pull = pullwalk.Complete
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		res, err := pullwalk.Diagnose(b.Context(), w.Image(), opts)
		if err != nil || res.Proof == nil {
			b.Fatalf("%v %v", err, res)
		}
	}
}

// A complete pull keeps nothing of the layers: what it allocates does not grow
// with them. Not parallel, so that nobody else allocates meanwhile.
func TestCompleteKeepsNoLayer(t *testing.T) {
	allocated := func(size int) uint64 {
		w, opts := startLab(t, size)
		opts.Pull = pullwalk.Complete
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		res, err := pullwalk.Diagnose(t.Context(), w.Image(), opts)
		require.NoError(t, err)
		require.NotNil(t, res.Proof)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	small, large := allocated(1<<20), allocated(33<<20)
	require.Less(t, large, small+8<<20, "32 MiB more of a layer, and the server's part of it")
}

// BenchmarkDiagnoseAll asks for fifty images of one registry, together and each
// alone. The metrics are what the hosts were asked for per image.
func BenchmarkDiagnoseAll(b *testing.B) {
	const n = 50
	each := func(ctx context.Context, images []string, opts *pullwalk.Options) (all []*pullwalk.Result, err error) {
		for _, image := range images {
			res, err := pullwalk.Diagnose(ctx, image, opts)
			if err != nil {
				return nil, err
			}
			all = append(all, res)
		}
		return all, nil
	}
	for _, way := range []struct {
		name string
		look func(context.Context, []string, *pullwalk.Options) ([]*pullwalk.Result, error)
	}{{"together", pullwalk.DiagnoseAll}, {"alone", each}} {
		b.Run(way.name, func(b *testing.B) {
			w, opts := startLab(b)
			var images []string
			for i := range n {
				images = append(images, fmt.Sprintf("%s/%s:v%d@%s", w.Registry.Address(), lab.Repository, i, w.Digest()))
			}
			count := func() (connections, requests, queries int) {
				for _, h := range []*lab.Host{w.Registry, w.Token, w.Blobs} {
					connections += h.Connections()
					requests += len(h.Requests())
				}
				return connections, requests, len(w.Queries())
			}
			connections, requests, queries := count()
			b.ReportAllocs()
			for b.Loop() {
				all, err := way.look(b.Context(), images, opts)
				if err != nil || len(all) != n || all[n-1].Verdict != pullwalk.StatusOK {
					b.Fatalf("%v %v", err, all)
				}
			}
			c, r, q := count()
			per := float64(b.N * n)
			b.ReportMetric(float64(c-connections)/per, "connections/image")
			b.ReportMetric(float64(r-requests)/per, "requests/image")
			b.ReportMetric(float64(q-queries)/per, "queries/image")
		})
	}
}
