// Package integration diagnoses pulls from a real registry, the CNCF
// distribution, behind TLS on the loopback interface: no registry code of ours
// answers here.
package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/auth/token"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/middleware/redirect"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/dnscheck"
)

const (
	registryName = "registry.corp.test"
	authName     = "auth.corp.test"
	blobsName    = "blobs.corp.test"
	service      = "registry.corp.test"
	issuer       = "corp-token-server"
	repository   = "team/app"

	reader, readerPassword = "reader", "reader-password-of-this-test"
	pusher, pusherPassword = "pusher", "pusher-password-of-this-test"
)

// world is a distribution registry with a token server and a blob host of their
// own.
type world struct {
	dir      string // the registry's storage
	ca       *x509.Certificate
	caKey    *ecdsa.PrivateKey
	signer   jose.Signer
	ports    map[string]string // name -> port
	servers  map[string]*httptest.Server
	index    v1.ImageIndex
	mu       sync.Mutex
	hostless map[string]bool // names that DNS does not know
	grant    bool            // the token server grants what may be granted
}

func newWorld(t *testing.T) *world {
	t.Helper()
	logrus.SetOutput(io.Discard)
	w := &world{dir: t.TempDir(), ports: map[string]string{}, servers: map[string]*httptest.Server{}, hostless: map[string]bool{}, grant: true}
	w.newAuthority(t)
	jwks := w.newSigner(t)
	w.serve(t, authName, http.HandlerFunc(w.token), nil)
	w.serve(t, blobsName, http.FileServer(http.Dir(w.dir)), nil)
	w.serve(t, registryName, w.registry(t, jwks), nil)
	w.push(t)
	return w
}

func (w *world) newAuthority(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Integration Root"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	w.ca, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	w.caKey = key
}

func (w *world) certificate(t *testing.T, names ...string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, w.ca, &key.PublicKey, w.caKey)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// newSigner makes the key of the token server, and the file by which the
// registry knows it.
func (w *world) newSigner(t *testing.T) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	const kid = "integration"
	w.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	require.NoError(t, err)
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: kid, Algorithm: "ES256"}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "jwks.json")
	require.NoError(t, os.WriteFile(file, set, 0o600))
	return file
}

func (w *world) registry(t *testing.T, jwks string) http.Handler {
	config := &configuration.Configuration{
		Storage: configuration.Storage{
			"filesystem": configuration.Parameters{"rootdirectory": w.dir},
		},
		Middleware: map[string][]configuration.Middleware{
			"storage": {{Name: "redirect", Options: configuration.Parameters{"baseurl": "https://" + w.address(blobsName)}}},
		},
		Auth: configuration.Auth{"token": configuration.Parameters{
			"realm": "https://" + w.address(authName) + "/token", "issuer": issuer, "service": service, "jwks": jwks, "rootcertbundle": "",
		}},
	}
	config.HTTP.Secret = "not used: one instance"
	config.Log.Level = "panic"
	config.Log.AccessLog.Disabled = true
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return handlers.NewApp(ctx, config)
}

// token is a token server that grants the pusher everything and the reader to
// pull.
func (w *world) token(rw http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	user, password, _ := r.BasicAuth()
	if r.Method == http.MethodPost {
		user, password = r.PostForm.Get("username"), r.PostForm.Get("password")
	}
	allowed := map[string]bool{}
	switch {
	case user == pusher && password == pusherPassword:
		allowed = map[string]bool{"pull": true, "push": true}
	case user == reader && password == readerPassword:
		allowed = map[string]bool{"pull": true}
	case user != "":
		http.Error(rw, `{"errors":[{"code":"UNAUTHORIZED","message":"incorrect username or password"}]}`, http.StatusUnauthorized)
		return
	}
	w.mu.Lock()
	grant := w.grant
	w.mu.Unlock()
	var access []*token.ResourceActions
	for _, scope := range r.Form["scope"] {
		parts := strings.SplitN(scope, ":", 3)
		if len(parts) != 3 {
			continue
		}
		a := &token.ResourceActions{Type: parts[0], Name: parts[1], Actions: []string{}}
		for _, action := range strings.Split(parts[2], ",") {
			if allowed[action] && (grant || user == pusher) {
				a.Actions = append(a.Actions, action)
			}
		}
		access = append(access, a)
	}
	now := time.Now()
	claims := token.ClaimSet{
		Issuer: issuer, Subject: user, Audience: []string{service}, Access: access,
		IssuedAt: now.Unix(), NotBefore: now.Add(-time.Minute).Unix(), Expiration: now.Add(5 * time.Minute).Unix(),
	}
	signed, err := jwt.Signed(w.signer).Claims(claims).Serialize()
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(rw).Encode(map[string]any{"token": signed, "access_token": signed, "expires_in": 300})
}

// serve puts handler on the loopback interface under name, in place of what was
// there.
func (w *world) serve(t *testing.T, host string, handler http.Handler, cert *tls.Certificate) {
	if cert == nil {
		c := w.certificate(t, host)
		cert = &c
	}
	s := httptest.NewUnstartedServer(handler)
	if port, ok := w.ports[host]; ok {
		_ = s.Listener.Close()
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		require.NoError(t, err)
		s.Listener = l
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"http/1.1"}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	w.ports[host], w.servers[host] = u.Port(), s
}

func (w *world) address(host string) string { return host + ":" + w.ports[host] }

func (w *world) image() string { return w.address(registryName) + "/" + repository + ":v1" }

// push stores an index of two platforms with four layers each, by an ordinary
// client.
func (w *world) push(t *testing.T) {
	w.index = empty.Index
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := random.Image(96<<10, 4)
		require.NoError(t, err)
		file, err := img.ConfigFile()
		require.NoError(t, err)
		file = file.DeepCopy()
		file.OS, file.Architecture = "linux", arch
		img, err = mutate.ConfigFile(img, file)
		require.NoError(t, err)
		w.index = mutate.AppendManifests(w.index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	ref, err := name.ParseReference(w.image())
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(w.ca)
	client := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+port)
		},
	}
	t.Cleanup(client.CloseIdleConnections)
	require.NoError(t, remote.WriteIndex(ref, w.index, remote.WithTransport(client),
		remote.WithAuth(&authn.Basic{Username: pusher, Password: pusherPassword}), remote.WithContext(t.Context())))
}

// files is the node's file tree.
func (w *world) files() fs.FS {
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.ca.Raw})
	return fstest.MapFS{
		"etc/resolv.conf":                   {Data: []byte("nameserver 127.0.0.1\n")},
		"etc/hosts":                         {Data: []byte("127.0.0.1 localhost\n")},
		"etc/ssl/certs/ca-certificates.crt": {Data: bundle},
	}
}

// resolve answers for the node's nameserver.
func (w *world) resolve(_ context.Context, _ netip.AddrPort, _ string, q dnscheck.Question) (dnscheck.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	host := strings.TrimSuffix(q.Name, ".")
	if _, ok := w.ports[host]; !ok || w.hostless[host] {
		return dnscheck.Answer{RCode: "NXDOMAIN", RecursionAvailable: true}, nil
	}
	a := dnscheck.Answer{RCode: "NOERROR", RecursionAvailable: true, TTLSeconds: 60}
	if q.Type == "A" {
		a.Addresses = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	}
	return a, nil
}
