// Package lab is a private registry with everything that one pull of it
// touches, on the loopback interface: a registry with token authentication, a
// token host of its own, a blob host behind a redirect, a private certificate
// authority and a nameserver with a private zone. It needs no privileges and no
// network, runs wherever Go runs, and every part of it can be broken and healed
// while it serves.
//
// Tests and the examples use it. The hosts are ordinary net/http servers that
// serve any net.Listener, so the same world also works over a network in memory
// inside a testing/synctest bubble: nothing in it sleeps or sets a timer.
package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// The fixed names of the world. All of them end in .test (RFC 6761), so that
// none can be mistaken for, or reach, a real host.
const (
	RegistryName = "registry.corp.test"
	TokenName    = "auth.corp.test"
	BlobsName    = "blobs.corp.test"
	Repository   = "team/app"
	Tag          = "v1"
)

// The reader is the only user that the world knows; it may pull Repository and
// nothing else.
const (
	Username = "reader"
	Password = "reader-secret-for-tests"
)

// Marks that stand in every secret of the world (Password is its own mark). A
// leak test searches its outputs for what World.Secrets returns.
const (
	TokenMark     = "TOKEN-SECRET-MARK"
	SignatureMark = "SIGNATURE-SECRET-MARK"
)

// Options describe a world. The zero value is a good one.
type Options struct {
	// LayerSizes are the sizes in bytes of the layers that each platform's
	// image has. Contents are pseudo-random, the same in every world, and made
	// while they are sent, so a large layer costs time and no memory. Nil means
	// three small layers.
	LayerSizes []int
	// Layers are the contents of the layers, for an image that is to be unpacked
	// and run: tar files, not compressed. The image's program is /app. Nil means
	// layers of LayerSizes, which no runtime can unpack.
	Layers [][]byte
	// Platforms are the platforms in the image index, as os/arch[/variant].
	// Nil means linux/amd64 and linux/arm64.
	Platforms []string
	// Now dates certificates and tokens. Nil means time.Now.
	Now func() time.Time
	// Plain serves plain http everywhere: no TLS, no certificates.
	Plain bool
}

// World is one private registry with everything that a pull of it touches.
// Make one with New; the zero value is of no use. All methods may be called at
// the same time.
type World struct {
	// Registry serves manifests and redirects blobs, Token serves tokens,
	// Blobs serves the bytes of config and layers.
	Registry, Token, Blobs *Host

	plain   bool
	now     func() time.Time
	key     []byte // signs tokens and blob addresses
	image   *image
	ca      *authority
	otherCA *authority // the one nobody trusts

	wg sync.WaitGroup // everything that runs on behalf of the world

	mu         sync.Mutex // never held across I/O or waits
	faults     worldFaults
	healed     context.Context // ends at the next Heal or Close: releases what stalls
	heal       context.CancelFunc
	closed     bool
	nameserver *nameserver // nil until Start
	queries    []string
	violations []string
}

// New makes a world that does not listen anywhere yet: authority, certificates,
// image and hosts. It fails only for a malformed or repeated platform or a
// negative layer size. Call Start to put it on the loopback interface, or hand
// each host a listener with Host.Serve.
func New(o Options) (*World, error) {
	if o.LayerSizes == nil {
		o.LayerSizes = []int{4 << 10, 33_333, 64 << 10}
	}
	if o.Platforms == nil {
		o.Platforms = []string{"linux/amd64", "linux/arm64"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	w := &World{plain: o.Plain, now: o.Now, key: make([]byte, 32)}
	rand.Read(w.key) // never fails (crypto/rand)
	w.healed, w.heal = context.WithCancel(context.Background())

	var err error
	if w.image, err = newImage(o.Platforms, o.layers); err != nil {
		return nil, err
	}
	if w.ca, err = newAuthority("Corp Test Root CA", w.now()); err != nil {
		return nil, err
	}
	if w.otherCA, err = newAuthority("Unknown Test Root CA", w.now()); err != nil {
		return nil, err
	}
	w.Registry = newHost(w, RegistryName, w.serveRegistry)
	w.Token = newHost(w, TokenName, w.serveToken)
	w.Blobs = newHost(w, BlobsName, w.serveBlobs)
	return w, nil
}

// Start opens the loopback listeners of the three hosts and of the nameserver,
// each on a free port, and serves them until Close. Call it once.
func (w *World) Start() error {
	for _, h := range w.hosts() {
		if err := h.listen(); err != nil {
			w.Close()
			return err
		}
	}
	ns, err := w.startNameserver()
	if err != nil {
		w.Close()
		return err
	}
	w.mu.Lock()
	w.nameserver = ns
	w.mu.Unlock()
	return nil
}

// Close ends everything: listeners, connections, stalled requests. When it
// returns no goroutine of the world is left. It may be called more than once.
func (w *World) Close() {
	w.mu.Lock()
	w.closed = true
	heal, ns := w.heal, w.nameserver
	w.nameserver = nil
	w.mu.Unlock()

	heal()
	for _, h := range w.hosts() {
		// First below TLS: the farewell that a TLS connection sends blocks on a peer
		// that does not read, and net/http waits for it with a mutex held, which in a
		// synctest bubble stops the clock that would end it.
		h.dropConnections()
		h.server.Close()
		h.dropConnections() // net/http forgets those that a handler has taken over
	}
	if ns != nil {
		ns.close()
	}
	w.wg.Wait()
}

// Break makes the faults true, in addition to those that already are. A fault
// of a host's listener or connections also ends the connections that are open,
// so that no kept-alive connection hides it.
func (w *World) Break(faults ...Fault) {
	before := w.connFaults()
	w.apply(faults)
	for i, h := range w.hosts() {
		if now := h.state().conn; now != before[i] {
			if now.refused {
				h.stopListening()
			}
			h.dropConnections()
		}
	}
}

func (w *World) apply(faults []Fault) {
	w.mu.Lock()
	defer w.mu.Unlock() // also when a fault panics
	for _, f := range faults {
		f(w)
	}
}

// Heal removes every fault and releases every request that stalls (its
// connection is closed). The error is about a port that Refused gave up and
// that cannot be had again.
func (w *World) Heal() error {
	before := w.connFaults()
	w.mu.Lock()
	w.faults = worldFaults{}
	for _, h := range w.hosts() {
		h.faults = hostFaults{}
	}
	release := w.heal
	if !w.closed {
		w.healed, w.heal = context.WithCancel(context.Background())
	}
	w.mu.Unlock()
	release()

	var errs []error
	for i, h := range w.hosts() {
		if before[i] == (connFaults{}) {
			continue
		}
		h.dropConnections()
		if before[i].refused && h.isLoopback() {
			errs = append(errs, h.listen())
		}
	}
	return errors.Join(errs...)
}

// Image is the reference of the image that exists, with the registry's port
// where it is not the scheme's own: registry.corp.test:40001/team/app:v1.
func (w *World) Image() string { return w.Registry.Address() + "/" + Repository + ":" + Tag }

// MissingTag is a reference in the same repository whose tag does not exist.
func (w *World) MissingTag() string {
	return w.Registry.Address() + "/" + Repository + ":no-such-tag"
}

// ImageByDigest is the reference of the same image by its index digest.
func (w *World) ImageByDigest() string {
	return w.Registry.Address() + "/" + Repository + "@" + w.image.index.digest.String()
}

// Violations says, without repeating the secret, each time that a credential
// came where it must not go: a password to another host than the token host, a
// token to another than the registry, anything to the blob host, anything in
// the clear. Nil means none.
func (w *World) Violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.violations...)
}

// Queries are the DNS questions so far, in order, as "udp A registry.corp.test.".
func (w *World) Queries() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.queries...)
}

func (w *World) hosts() [3]*Host { return [3]*Host{w.Registry, w.Token, w.Blobs} }

func (w *World) scheme() string {
	if w.plain {
		return "http"
	}
	return "https"
}

// state returns what is broken now.
func (w *World) state() worldFaults {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults
}

func (w *World) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *World) connFaults() (all [3]connFaults) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, h := range w.hosts() {
		all[i] = h.faults.conn
	}
	return all
}

func (w *World) violation(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// listenLoopback opens a loopback port; 0 means a free one.
func listenLoopback(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
