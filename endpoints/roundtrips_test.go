package endpoints_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/simnet"
	"github.com/pullwalk/pullwalk/reach"
)

// far is a registry, token server and blob host that are all one round trip away,
// and nothing else takes time: elapsed time counts sequential round trips.
type far struct {
	net    *simnet.Net
	roots  *x509.CertPool
	blobs  map[string][]byte
	types  map[string]string
	tag    string
	layers []string

	mu      sync.Mutex
	running map[string]int
	most    int // requests at once at one host
}

const roundTripTime = 100 * time.Millisecond

var farHosts = map[string]string{"registry.corp.test": "10.20.0.4:443", "auth.corp.test": "10.20.0.5:443", "blobs.corp.test": "10.20.0.6:443"}

func newFar(t *testing.T, layers int) *far {
	f := &far{net: simnet.New(), roots: x509.NewCertPool(), blobs: map[string][]byte{}, types: map[string]string{}, running: map[string]int{}}
	put := func(body []byte, mediaType string) string {
		s := sha256.Sum256(body)
		d := "sha256:" + hex.EncodeToString(s[:])
		f.blobs[d], f.types[d] = body, mediaType
		return d
	}
	type desc = map[string]any
	var list []desc
	for i := range layers {
		body := make([]byte, 200_000+i)
		d := put(body, "")
		f.layers = append(f.layers, d)
		list = append(list, desc{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": d, "size": len(body)})
	}
	const manifestType, indexType = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
	manifest, _ := json.Marshal(desc{"schemaVersion": 2, "mediaType": manifestType, "config": desc{"mediaType": "application/vnd.oci.image.config.v1+json", "digest": put([]byte("{}"), ""), "size": 2}, "layers": list})
	index, _ := json.Marshal(desc{"schemaVersion": 2, "mediaType": indexType, "manifests": []desc{{"mediaType": manifestType, "digest": put(manifest, manifestType), "size": len(manifest), "platform": desc{"os": "linux", "architecture": "amd64"}}}})
	f.tag = put(index, indexType)

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "corp"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	for name := range farHosts {
		tmpl.DNSNames = append(tmpl.DNSNames, name)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	f.roots.AddCert(cert)
	f.net.Route(netip.MustParsePrefix("10.20.0.0/16"), reach.Route{Interface: "eth0", OnLink: true})
	for name, h := range map[string]http.HandlerFunc{"registry.corp.test": f.registry, "auth.corp.test": f.auth, "blobs.corp.test": f.store} {
		ap := netip.MustParseAddrPort(farHosts[name])
		l := tls.NewListener(f.net.Listen(ap), &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"http/1.1"}})
		s := &http.Server{Handler: f.count(h), ErrorLog: log.New(io.Discard, "", 0)}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
	}
	t.Cleanup(f.net.Close)
	return f
}

func (f *far) count(h http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.running[r.Host]++
		f.most = max(f.most, f.running[r.Host])
		f.mu.Unlock()
		h(rw, r)
		f.mu.Lock()
		f.running[r.Host]--
		f.mu.Unlock()
	}
}

func (f *far) registry(rw http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer token" {
		rw.Header().Set("Www-Authenticate", `Bearer realm="https://auth.corp.test/token",service="registry.corp.test",scope="repository:team/app:pull"`)
		rw.WriteHeader(401)
		return
	}
	id := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if strings.Contains(r.URL.Path, "/blobs/") {
		http.Redirect(rw, r, "https://blobs.corp.test/"+id+"?sig=x", http.StatusTemporaryRedirect)
		return
	}
	if id == "1" {
		id = f.tag
	}
	rw.Header().Set("Content-Type", f.types[id])
	rw.Header().Set("Docker-Content-Digest", id)
	rw.Header().Set("Content-Length", strconv.Itoa(len(f.blobs[id])))
	_, _ = rw.Write(f.blobs[id])
}

func (f *far) auth(rw http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(rw, `{"token":"token","access_token":"token"}`)
}

func (f *far) store(rw http.ResponseWriter, r *http.Request) {
	http.ServeContent(rw, r, "", time.Time{}, strings.NewReader(string(f.blobs[r.URL.Path[1:]])))
}

func (f *far) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	time.Sleep(roundTripTime)
	conn, err := f.net.Dialer().DialContext(ctx, network, farHosts[host])
	return &farConn{Conn: conn}, err
}

// farConn takes one round trip for every answer to what was written, whatever its
// size.
type farConn struct {
	net.Conn
	wrote atomic.Bool
}

func (c *farConn) Write(p []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(p)
}

func (c *farConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p) // net/http reads before it writes
	if c.wrote.Swap(false) {
		time.Sleep(roundTripTime)
	}
	return n, err
}

type basic struct{}

func (basic) Resolve(authn.Resource) (authn.Authenticator, error) {
	return &authn.Basic{Username: "u", Password: "p"}, nil
}

// touch walks the image and says how many sequential round trips that took.
func (f *far) touch(t *testing.T, concurrency int) int {
	start := time.Now()
	m, err := (&endpoints.Checker{DialContext: f.DialContext, Roots: f.roots, Keychain: basic{}, Platform: "linux/amd64", Concurrency: concurrency}).Check(t.Context(), "registry.corp.test/team/app:1")
	require.NoError(t, err)
	require.True(t, m.Held, "%s %v", m.Inconclusive, m.Findings())
	return int(time.Since(start) / roundTripTime)
}

// pull makes the requests of containerd 2 with an ordinary client, up to the first
// byte of the last layer: HEAD, token, HEAD, GET, token, GET, GET, config, and the
// layers three at a time.
func (f *far) pull(t *testing.T) int {
	start := time.Now()
	client := &http.Client{Transport: &http.Transport{DialContext: f.DialContext, TLSClientConfig: &tls.Config{RootCAs: f.roots}}}
	defer func() {
		client.CloseIdleConnections()
		time.Sleep(time.Minute) // net/http may be dialling connections that nobody needs any more
	}()
	ask := func(method, u, token string, whole bool) {
		req, err := http.NewRequestWithContext(t.Context(), method, u, nil)
		require.NoError(t, err)
		if token != "" {
			req.Header.Set("Authorization", token)
		}
		resp, err := client.Do(req)
		require.NoError(t, err)
		if whole {
			_, _ = io.Copy(io.Discard, resp.Body)
		} else {
			_, _ = resp.Body.Read(make([]byte, 1))
		}
		_ = resp.Body.Close()
	}
	base := "https://registry.corp.test/v2/team/app/"
	realm := "https://auth.corp.test/token?" + url.Values{"service": {"registry.corp.test"}}.Encode()
	ask("HEAD", base+"manifests/1", "", true)
	ask("POST", realm, "", true)
	ask("HEAD", base+"manifests/1", "Bearer token", true)
	ask("GET", base+"manifests/"+f.tag, "", true)
	ask("POST", realm, "", true)
	ask("GET", base+"manifests/"+f.tag, "Bearer token", true)
	for d, mediaType := range f.types {
		if strings.Contains(mediaType, "manifest.v1") {
			ask("GET", base+"manifests/"+d, "Bearer token", true)
		}
	}
	s := sha256.Sum256([]byte("{}"))
	ask("GET", base+"blobs/sha256:"+hex.EncodeToString(s[:]), "Bearer token", true)
	slots := make(chan struct{}, 3)
	var wg sync.WaitGroup
	for _, d := range f.layers {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ask("GET", base+"blobs/"+d, "Bearer token", true)
		})
	}
	wg.Wait()
	return int(time.Since(start) / roundTripTime)
}

// Many layers may not cost many round trips, nor be asked for in a burst.
func TestRoundTripsOfATouch(t *testing.T) {
	t.Parallel()
	for _, c := range []int{1, 3, 6} {
		t.Run(fmt.Sprintf("%d at once", c), func(t *testing.T) {
			t.Parallel()
			count := func(layers int) (n int) {
				synctest.Test(t, func(t *testing.T) {
					f := newFar(t, layers)
					n = f.touch(t, c)
					assert.LessOrEqual(t, f.most, c)
				})
				return n
			}
			one := count(1)
			for _, layers := range []int{6, 24} {
				many := count(layers)
				t.Logf("%d layers over %d connections: %d round trips, one layer %d", layers, c, many, one)
				assert.LessOrEqual(t, many, one+(layers+c-1)/c+3)
			}
		})
	}
}

// A look may not take longer than the pull that it stands for.
func TestNoMoreRoundTripsThanTheRuntime(t *testing.T) {
	t.Parallel()
	for _, layers := range []int{1, 8, 24} {
		var ours, runtime int
		synctest.Test(t, func(t *testing.T) { ours = newFar(t, layers).touch(t, 3) })
		synctest.Test(t, func(t *testing.T) { runtime = newFar(t, layers).pull(t) })
		t.Logf("%d layers: %d round trips, containerd's order %d", layers, ours, runtime)
		assert.LessOrEqual(t, ours, runtime)
	}
}
