package pullwalk_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/pullwalk/pullwalk/internal/lab"
)

// basicRegistry is a registry as small ones are: no token server, Basic at the
// registry itself, blobs from the same host, and an image without an index.
type basicRegistry struct {
	documents map[string]document // by path
	redirects bool
	refuses   func(*http.Request) int // a status to refuse with; nil or 0 = none

	mu  sync.Mutex
	log []lab.Request
}

type document struct{ mediaType, digest, body string }

func newDocument(mediaType, body string) document {
	sum := sha256.Sum256([]byte(body))
	return document{mediaType, "sha256:" + hex.EncodeToString(sum[:]), body}
}

// serveBasic starts one with the certificate of the image's registry. With a store
// it redirects blobs to http://store.corp.test, where they are served in the
// clear and to everybody.
func serveBasic(w *world, at, store netip.AddrPort) *basicRegistry {
	layer := newDocument("application/vnd.oci.image.layer.v1.tar", strings.Repeat("layer\n", 1000))
	config := newDocument("application/vnd.oci.image.config.v1+json", `{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["`+layer.digest+`"]}}`)
	descriptor := func(d document) string {
		return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d}`, d.mediaType, d.digest, len(d.body))
	}
	manifest := newDocument("application/vnd.oci.image.manifest.v1+json",
		fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}`, descriptor(config), descriptor(layer)))
	b := &basicRegistry{redirects: store.IsValid(), documents: map[string]document{
		"/v2/team/app/manifests/v1":                 manifest,
		"/v2/team/app/manifests/" + manifest.digest: manifest,
		"/v2/team/app/blobs/" + config.digest:       config,
		"/v2/team/app/blobs/" + layer.digest:        layer,
	}}
	name, _, _ := strings.Cut(w.image, "/")
	cert := w.lab.Certificate(name)
	server := &http.Server{Handler: b, ErrorLog: log.New(io.Discard, "", 0)}
	l := tls.NewListener(w.net.Listen(at), &tls.Config{Certificates: []tls.Certificate{cert}})
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) })
	if b.redirects {
		l := w.net.Listen(store)
		wg.Go(func() { _ = server.Serve(l) })
	}
	w.closers = append(w.closers, func() { server.Close(); wg.Wait() })
	return b
}

func (b *basicRegistry) requests() []lab.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]lab.Request(nil), b.log...)
}

func (b *basicRegistry) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	d, found := b.documents[r.URL.Path]
	status := http.StatusOK
	refused := 0
	if b.refuses != nil {
		refused = b.refuses(r)
	}
	switch {
	case refused != 0:
		status = refused
	case r.Host == "store.corp.test" && found:
	case user != lab.Username || password != lab.Password:
		status = http.StatusUnauthorized
		rw.Header().Set("Www-Authenticate", `Basic realm="corp registry"`)
	case !found:
		status = http.StatusNotFound
	case b.redirects && strings.Contains(r.URL.Path, "/blobs/"):
		status = http.StatusTemporaryRedirect
		rw.Header().Set("Location", "http://store.corp.test"+r.URL.Path)
	}
	if status == http.StatusOK {
		rw.Header().Set("Content-Type", d.mediaType)
		rw.Header().Set("Docker-Content-Digest", d.digest)
		rw.Header().Set("Content-Length", fmt.Sprint(len(d.body)))
	}
	b.mu.Lock()
	b.log = append(b.log, lab.Request{Method: r.Method, Path: r.URL.Path, Status: status, Bytes: int64(len(d.body))})
	b.mu.Unlock()
	rw.WriteHeader(status)
	if status == http.StatusOK && r.Method == http.MethodGet {
		io.WriteString(rw, d.body)
	}
}
