package pullwalk_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/internal/lab"
)

func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// manyRoots is a bundle as large as a node's.
func manyRoots(t testing.TB, n int) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	var bundle []byte
	for i := range n {
		c := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: fmt.Sprintf("Root %d", i)},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		}
		der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
		require.NoError(t, err)
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return bundle
}

// TestLiveHeapOfAResult keeps results and measures what the heap holds because of
// them, and what it still holds when they are let go: not the trusted roots, which
// every diagnosis reads, not a connection, nothing. Not parallel, so that nobody
// else allocates meanwhile.
func TestLiveHeapOfAResult(t *testing.T) {
	for _, tt := range []struct {
		name    string
		fault   func(*lab.World) lab.Fault
		verdict pullwalk.Status
	}{
		{"healthy", nil, pullwalk.StatusOK},
		{"unknown authority", func(w *lab.World) lab.Fault { return lab.UntrustedCA(w.Registry) }, pullwalk.StatusFailed},
		{"expired", func(w *lab.World) lab.Fault { return lab.ExpiredCert(w.Blobs) }, pullwalk.StatusFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, opts := startLab(t)
			if tt.fault != nil {
				w.Break(tt.fault(w))
			}
			files := w.FS().(fstest.MapFS)
			files["etc/ssl/certs/ca-certificates.crt"] = &fstest.MapFile{Data: append(manyRoots(t, 150), w.AuthorityPEM()...)}
			opts.Node.FS = files
			look := func() *pullwalk.Result {
				res, err := pullwalk.Diagnose(t.Context(), w.Image(), opts)
				require.NoError(t, err)
				require.Equal(t, tt.verdict, res.Verdict, res.String())
				return res
			}
			look() // what the process needs once
			before := liveHeap()
			const n = 20
			kept := make([]*pullwalk.Result, n)
			for i := range kept {
				kept[i] = look()
			}
			with := liveHeap()
			runtime.KeepAlive(kept)
			clear(kept)
			without := liveHeap()
			t.Logf("a result holds %d KiB; %d KiB stay of a diagnosis, with the log of the servers", (with-without)/n>>10, (without-before)/n>>10)
			require.Less(t, (with-without)/n, int64(1<<20))
			require.Less(t, (without-before)/n, int64(64<<10), "nothing of a diagnosis outlives its result")
		})
	}
}
