package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cuelabs.dev/go/oci/ociregistry"
	"cuelabs.dev/go/oci/ociregistry/ocimem"
	"cuelabs.dev/go/oci/ociregistry/ociserver"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
)

// ociRegistry is a registry that shares no code with the CNCF distribution:
// ociregistry of CUE Labs, in memory, behind TLS and Basic authentication.
type ociRegistry struct {
	server *httptest.Server
	roots  *x509.CertPool
	image  v1.Image
}

func newOCIRegistry(t *testing.T, opts *ociserver.Options) *ociRegistry {
	t.Helper()
	return serveOCIRegistry(t, ocimem.New(), opts)
}

func serveOCIRegistry(t *testing.T, backend ociregistry.Interface, opts *ociserver.Options) *ociRegistry {
	t.Helper()
	honest := ociserver.New(backend, opts)
	r := &ociRegistry{}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if user, password, _ := req.BasicAuth(); user != reader || password != readerPassword {
			rw.Header().Set("Www-Authenticate", `Basic realm="corp"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		honest.ServeHTTP(rw, req)
	}))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{registryName}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	ca, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	r.roots = x509.NewCertPool()
	r.roots.AddCert(ca)
	r.server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"http/1.1"}}
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.server.StartTLS()
	t.Cleanup(r.server.Close)

	r.image, err = random.Image(200<<10, 3)
	require.NoError(t, err)
	ref, err := name.ParseReference(registryName + "/" + repository + ":v1")
	require.NoError(t, err)
	client := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.roots}, DialContext: r.DialContext}
	t.Cleanup(client.CloseIdleConnections)
	require.NoError(t, remote.Write(ref, r.image, remote.WithTransport(client), remote.WithAuth(&authn.Basic{Username: reader, Password: readerPassword}), remote.WithContext(t.Context())))
	return r
}

// DialContext leads every name to the registry.
func (r *ociRegistry) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, r.server.Listener.Addr().String())
}

func (r *ociRegistry) checker(runtime string) *endpoints.Checker {
	return &endpoints.Checker{DialContext: r.DialContext, Roots: r.roots, Keychain: oneCredential{}, Platform: "linux/amd64", Complete: true, Runtime: runtime}
}

type oneCredential struct{}

func (oneCredential) Resolve(authn.Resource) (authn.Authenticator, error) {
	return &authn.Basic{Username: reader, Password: readerPassword}, nil
}

func TestAnotherRegistryImplementation(t *testing.T) {
	for _, tt := range []struct {
		name    string
		runtime string
		opts    *ociserver.Options
	}{
		{"as containerd", "containerd", nil},
		{"as CRI-O", "crio", nil},
		{"as docker", "dockerd", nil},
		{"no digest announced", "containerd", &ociserver.Options{OmitDigestFromTagGetResponse: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newOCIRegistry(t, tt.opts)
			digest, err := r.image.Digest()
			require.NoError(t, err)
			m, err := r.checker(tt.runtime).Check(t.Context(), registryName+"/"+repository+":v1")
			require.NoError(t, err)
			require.True(t, m.Held && m.Complete, "%s %v", m.Inconclusive, m.Findings())
			require.Empty(t, m.Findings())
			require.Equal(t, digest.String(), m.Digest)
			require.Equal(t, 3, m.Layers)
			pinged := strings.HasSuffix(m.Requests[0].URL, "/v2/")
			require.Equal(t, tt.runtime != "containerd", pinged, m.Requests[0].URL)

			c := r.checker(tt.runtime)
			c.Complete = false
			m, err = c.Check(t.Context(), registryName+"/"+repository+"@"+digest.String())
			require.NoError(t, err)
			require.True(t, m.Held, "%s %v", m.Inconclusive, m.Findings())
			require.False(t, m.Complete)

			m, err = c.Check(t.Context(), registryName+"/"+repository+":missing")
			require.NoError(t, err)
			require.False(t, m.Held)
			require.Equal(t, classify.ImageManifestUnknown, m.Findings()[len(m.Findings())-1].Cause)
			m, err = c.Check(t.Context(), registryName+"/other/app:v1")
			require.NoError(t, err)
			require.Equal(t, classify.ImageRepositoryUnknown, m.Findings()[len(m.Findings())-1].Cause)

			c.Keychain = nil
			m, err = c.Check(t.Context(), registryName+"/"+repository+":v1")
			require.NoError(t, err)
			require.Equal(t, classify.IdentityNoBasicAuth, m.Findings()[len(m.Findings())-1].Cause)
		})
	}
}

// A layer that the registry lost after the manifest was pushed.
func TestAnotherRegistryLosesALayer(t *testing.T) {
	backend := ocimem.New()
	r := serveOCIRegistry(t, backend, nil)
	layers, err := r.image.Layers()
	require.NoError(t, err)
	lost, err := layers[1].Digest()
	require.NoError(t, err)
	require.NoError(t, backend.DeleteBlob(t.Context(), repository, ociregistry.Digest(lost.String())))
	m, err := r.checker("containerd").Check(t.Context(), registryName+"/"+repository+":v1")
	require.NoError(t, err)
	require.False(t, m.Held || m.Complete)
	require.Len(t, m.Findings(), 1)
	require.Equal(t, classify.ImageBlobUnknown, m.Findings()[0].Cause)
}
