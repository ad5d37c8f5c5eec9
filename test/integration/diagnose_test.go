package integration

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/tlsauth"
)

func (w *world) diagnose(t *testing.T, image, password string, mode pullwalk.PullMode) *pullwalk.Result {
	t.Helper()
	secret, err := json.Marshal(map[string]any{"auths": map[string]any{
		w.address(registryName): map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(reader + ":" + password))},
	}})
	require.NoError(t, err)
	keychain, err := tlsauth.DockerConfig(secret)
	require.NoError(t, err)
	res, err := pullwalk.Diagnose(t.Context(), image, &pullwalk.Options{
		Node:     pullwalk.Node{FS: w.files(), DNS: dnscheck.ExchangerFunc(w.resolve)},
		Keychain: keychain, Platform: "linux/arm64", Pull: mode,
	})
	require.NoError(t, err)
	doc, err := json.Marshal(res)
	require.NoError(t, err)
	for _, text := range []string{string(doc), res.String(), res.Markdown()} {
		require.NotContains(t, text, readerPassword)
		require.NotContains(t, text, "eyJ", "a token")
	}
	return res
}

func TestHealthyCompletePullIsProved(t *testing.T) {
	w := newWorld(t)
	res := w.diagnose(t, w.image(), readerPassword, pullwalk.Complete)
	require.Equal(t, pullwalk.StatusOK, res.Verdict, res.String())
	require.NoError(t, res.Err())
	require.NotNil(t, res.Proof)
	require.Equal(t, 4, res.Proof.Layers)
	digest, err := w.index.Digest()
	require.NoError(t, err)
	require.Equal(t, digest.String(), res.Proof.Digest)
	require.Equal(t, w.transferSize(t, "arm64"), res.Proof.Bytes)
	var hosts []string
	for _, h := range res.Hosts() {
		hosts = append(hosts, h.Host)
		require.True(t, h.Private)
	}
	require.ElementsMatch(t, []string{w.address(registryName), w.address(authName), w.address(blobsName)}, hosts)
}

func TestTouchIsNoProof(t *testing.T) {
	w := newWorld(t)
	res := w.diagnose(t, w.image(), readerPassword, pullwalk.Touch)
	require.Equal(t, pullwalk.StatusOK, res.Verdict, res.String())
	require.Nil(t, res.Proof)
}

// transferSize is what a pull of one platform transfers, from the manifest that
// was pushed.
func (w *world) transferSize(t *testing.T, arch string) int64 {
	m := w.manifest(t, arch)
	size := m.Config.Size
	for _, l := range m.Layers {
		size += l.Size
	}
	return size
}

func (w *world) manifest(t *testing.T, arch string) *v1.Manifest {
	list, err := w.index.IndexManifest()
	require.NoError(t, err)
	for _, d := range list.Manifests {
		if d.Platform.Architecture == arch {
			img, err := w.index.Image(d.Digest)
			require.NoError(t, err)
			m, err := img.Manifest()
			require.NoError(t, err)
			return m
		}
	}
	t.Fatalf("no manifest for %s", arch)
	return nil
}

// blobFile is where the registry's storage, and so the blob host, keeps a blob.
func (w *world) blobFile(h v1.Hash) string {
	return filepath.Join(w.dir, "docker", "registry", "v2", "blobs", h.Algorithm, h.Hex[:2], h.Hex, "data")
}

func TestBrokenPulls(t *testing.T) {
	other := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte("<html><title>Sign in to the network</title></html>"))
	})
	tests := []struct {
		name     string
		breaks   func(*testing.T, *world)
		image    string // suffix after host; "" = the image
		password string
		cause    classify.Cause
		host     string
		port     bool
	}{
		{name: "no such blob host", breaks: func(_ *testing.T, w *world) { w.hostless[blobsName] = true }, cause: classify.DNSNXDOMAIN, host: blobsName},
		{name: "no such token host", breaks: func(_ *testing.T, w *world) { w.hostless[authName] = true }, cause: classify.DNSNXDOMAIN, host: authName},
		{name: "blob host gone", breaks: func(_ *testing.T, w *world) { w.servers[blobsName].Close() }, cause: classify.EndpointConnectionRefused, host: blobsName, port: true},
		{name: "registry gone", breaks: func(_ *testing.T, w *world) { w.servers[registryName].Close() }, cause: classify.EndpointConnectionRefused, host: registryName, port: true},
		{name: "certificate of the blob host is for another name", breaks: func(t *testing.T, w *world) {
			w.servers[blobsName].Close()
			c := w.certificate(t, "gateway.corp.test")
			w.serve(t, blobsName, http.NotFoundHandler(), &c)
		}, cause: classify.TLSHostnameMismatch, host: blobsName, port: true},
		{name: "another authority signs the token host", breaks: func(t *testing.T, w *world) {
			w.servers[authName].Close()
			var foreign world
			foreign.newAuthority(t)
			c := foreign.certificate(t, authName)
			w.serve(t, authName, http.NotFoundHandler(), &c)
		}, cause: classify.TLSUnknownAuthority, host: authName, port: true},
		{name: "a portal answers for the registry", breaks: func(t *testing.T, w *world) {
			w.servers[registryName].Close()
			w.serve(t, registryName, other, nil)
		}, cause: classify.EndpointHTMLInsteadOfRegistry, host: registryName, port: true},
		{name: "wrong password", password: "not-it", cause: classify.IdentityBadCredentials, host: authName, port: true},
		{name: "no right on the repository", breaks: func(_ *testing.T, w *world) { w.grant = false }, cause: classify.IdentityInsufficientScope, host: authName, port: true},
		{name: "no such tag", image: "/" + repository + ":v2", cause: classify.ImageManifestUnknown, host: registryName, port: true},
		{name: "a layer's file is gone", breaks: func(t *testing.T, w *world) {
			require.NoError(t, os.Remove(w.blobFile(w.manifest(t, "arm64").Layers[2].Digest)))
		}, cause: classify.ImageBlobUnknown, host: registryName, port: true},
		{name: "a layer is not what its digest says", breaks: func(t *testing.T, w *world) {
			l := w.manifest(t, "arm64").Layers[1]
			require.NoError(t, os.WriteFile(w.blobFile(l.Digest), make([]byte, l.Size), 0o600))
		}, cause: classify.ImageDigestMismatch, host: blobsName, port: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tt.breaks != nil {
				tt.breaks(t, w)
			}
			image, password := w.image(), readerPassword
			if tt.image != "" {
				image = w.address(registryName) + tt.image
			}
			if tt.password != "" {
				password = tt.password
			}
			res := w.diagnose(t, image, password, pullwalk.Complete)
			require.Equal(t, pullwalk.StatusFailed, res.Verdict, res.String())
			require.NotNil(t, res.Primary)
			host := tt.host
			if tt.port {
				host = w.address(tt.host)
			}
			require.Equal(t, tt.cause, res.Primary.Cause, res.String())
			require.Equal(t, host, res.Primary.Endpoint, res.String())
			require.Nil(t, res.Proof)
			require.Error(t, res.Err())
		})
	}
}
