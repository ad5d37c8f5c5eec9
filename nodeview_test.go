package pullwalk_test

import (
	"context"
	"io/fs"
	"maps"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// hanging is a file tree on a mount that does not answer.
type hanging chan struct{}

func (h hanging) Open(string) (fs.File, error) {
	<-h
	return nil, fs.ErrNotExist
}

func TestFilesThatCannotBeReadInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := make(hanging)
		defer close(tree)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		res, err := pullwalk.Diagnose(ctx, asked, &pullwalk.Options{Node: pullwalk.Node{FS: tree}, Events: []classify.EventRecord{failedPull(asked, saysTimeout)}})
		require.NoError(t, err)
		require.Equal(t, classify.RouteConnectTimeout, res.Reported.Reading.Best.Cause, "what the cluster said is known all the same")
		require.Equal(t, "unknown", res.Reported.Agrees)
		require.LessOrEqual(t, time.Since(start), 1250*time.Millisecond)
		require.Equal(t, pullwalk.StatusInconclusive, res.Verdict)
		require.Contains(t, res.Inconclusive, "not read in time")
	})
}

// loopback is a world on loopback, and the files of its node to change.
func loopback(t *testing.T) (*lab.World, fstest.MapFS, *pullwalk.Options) {
	t.Helper()
	w, err := lab.New(lab.Options{})
	require.NoError(t, err)
	require.NoError(t, w.Start())
	t.Cleanup(w.Close)
	keychain, err := tlsauth.DockerConfig(w.DockerConfig())
	require.NoError(t, err)
	files := maps.Clone(w.FS().(fstest.MapFS))
	return w, files, &pullwalk.Options{Node: pullwalk.Node{FS: files, DNS: w.Exchanger()}, Keychain: keychain, Platform: "linux/amd64"}
}

func link(target string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

// A Go program reads SSL_CERT_FILE of its own environment; the runtime's counts.
func TestRootsOfTheRuntimesEnvironment(t *testing.T) {
	t.Parallel()
	w, files, opts := loopback(t)
	files["opt/ca.pem"] = files["etc/ssl/certs/ca-certificates.crt"]
	delete(files, "etc/ssl/certs/ca-certificates.crt")
	files["proc/self/ns/net"] = link("net:[7]")
	files["proc/81/comm"] = &fstest.MapFile{Data: []byte("containerd\n")}
	processOfRoot(files, "81", "/usr/bin/containerd")
	files["proc/81/ns/net"] = link("net:[7]")
	files["proc/81/environ"] = &fstest.MapFile{Data: []byte("SSL_CERT_FILE=/opt/ca.pem\x00")}
	res, err := pullwalk.Diagnose(t.Context(), w.Image(), opts)
	require.NoError(t, err)
	require.Equal(t, pullwalk.StatusOK, res.Verdict, res.String())
	require.Equal(t, []string{"/opt/ca.pem"}, res.Vantage.Roots)
}

// From a pod's network everything may work that does not work from the node's.
func TestAnotherNetworkThanTheNodes(t *testing.T) {
	t.Parallel()
	w, files, opts := loopback(t)
	files["proc/self/ns/net"] = link("net:[4026532999]")
	files["proc/1/ns/net"] = link("net:[4026531840]")
	files["proc/1/ns/pid"] = link("pid:[4026531836]")
	res, err := pullwalk.Diagnose(t.Context(), w.Image(), opts)
	require.NoError(t, err)
	require.Equal(t, pullwalk.StatusDegraded, res.Verdict, res.String())
	require.Equal(t, classify.NodeVantageNotNode, res.Findings[0].Cause)
}
