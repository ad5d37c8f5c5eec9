package lab

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// Host is one of the servers of a world.
type Host struct {
	// Name is the DNS name that it answers to.
	Name string

	world  *World
	server *http.Server
	tls    *tls.Config

	// Guarded by world.mu.
	faults hostFaults
	cert   tls.Certificate
	port   int // 0 until known
	// loopback says that the world itself opened the port, and may again.
	loopback bool

	mu          sync.Mutex // guards the rest; never held across I/O
	listeners   map[net.Listener]bool
	conns       map[*conn]bool
	connections int
	running     int // requests
	most        int
	log         []*Request
}

// Request is one request that a host has read.
type Request struct {
	Method string
	Path   string // without the query, which may hold a signature
	Range  string // the Range header; empty means the whole
	// Credential is the scheme of the Authorization header; empty means none.
	Credential string
	// Fields are the names of the request's header fields, sorted.
	Fields []string
	// Status is what was answered; 0 means nothing (yet).
	Status int
	// Bytes counts the body bytes handed to the network so far.
	Bytes int64
}

// String is method and path.
func (r Request) String() string { return r.Method + " " + r.Path }

func newHost(w *World, name string, honest http.HandlerFunc) *Host {
	h := &Host{
		Name:      name,
		world:     w,
		cert:      w.Certificate(name),
		listeners: map[net.Listener]bool{},
		conns:     map[*conn]bool{},
	}
	h.tls = &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return h.certificate(), nil },
		NextProtos:     []string{"http/1.1"}, // what runtimes speak to registries
		Time:           w.now,
	}
	h.server = &http.Server{
		Handler: h.front(honest),
		// net/http reports each refused handshake here; they are meant.
		ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				w.wg.Add(1)
			case http.StateClosed, http.StateHijacked:
				w.wg.Done()
			}
		},
	}
	return h
}

// Serve serves l until the world is closed, or until Refused breaks the host
// (then only a host that World.Start started listens again). It returns at
// once, and it does not change Port: a listener in memory stands for the
// scheme's own port unless SetPort says otherwise.
func (h *Host) Serve(l net.Listener) {
	h.world.mu.Lock()
	closed := h.world.closed
	if !closed {
		h.world.wg.Add(1)
	}
	h.world.mu.Unlock()
	if closed {
		l.Close()
		return
	}
	own := &listener{Listener: l, host: h}
	h.mu.Lock()
	h.listeners[own] = true
	h.mu.Unlock()
	go func() {
		defer h.world.wg.Done()
		_ = h.server.Serve(own) // ends only with the listener
		h.mu.Lock()
		delete(h.listeners, own)
		h.mu.Unlock()
	}()
}

// Port is the port in the host's addresses: the listener's after World.Start,
// else what SetPort said, else 0, which means the scheme's own.
func (h *Host) Port() int {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	return h.port
}

// SetPort sets the port that references and redirects name; 0 means the
// scheme's own.
func (h *Host) SetPort(port int) {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	h.port = port
}

// Address is the name with the port, without it where it is the scheme's own.
func (h *Host) Address() string {
	port := h.Port()
	if port == 0 || port == 443 && !h.world.plain || port == 80 && h.world.plain {
		return h.Name
	}
	return net.JoinHostPort(h.Name, strconv.Itoa(port))
}

// SetCertificate replaces the host's own certificate for all handshakes from
// now on; Heal does not undo it.
func (h *Host) SetCertificate(c tls.Certificate) {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	h.cert = c
}

// Requests are the requests so far, in the order of their arrival.
func (h *Host) Requests() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Request, len(h.log))
	for i, r := range h.log {
		all[i] = *r
	}
	return all
}

// Count counts the requests of a method (empty means any) whose path begins
// with prefix and that were answered with status (0 means any).
func (h *Host) Count(method, prefix string, status int) int {
	n := 0
	for _, r := range h.Requests() {
		if (method == "" || r.Method == method) && strings.HasPrefix(r.Path, prefix) && (status == 0 || r.Status == status) {
			n++
		}
	}
	return n
}

// Connections counts the connections that the host has accepted.
func (h *Host) Connections() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.connections
}

// MostAtOnce is how many requests the host was answering at the same time, at most.
func (h *Host) MostAtOnce() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.most
}

// enter counts a request that is being answered; leave ends it.
func (h *Host) enter() (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running++
	h.most = max(h.most, h.running)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.running--
	}
}

// listen opens the host's loopback port, the same one as before if it had one.
func (h *Host) listen() error {
	l, err := listenLoopback(h.Port())
	if err != nil {
		return fmt.Errorf("lab: %s: %w", h.Name, err)
	}
	h.world.mu.Lock()
	h.port, h.loopback = l.Addr().(*net.TCPAddr).Port, true
	refused := h.faults.conn.refused // broken before the start
	h.world.mu.Unlock()
	if refused {
		l.Close()
		return nil
	}
	h.Serve(l)
	return nil
}

func (h *Host) stopListening() {
	h.mu.Lock()
	var all []net.Listener
	for l := range h.listeners {
		all = append(all, l)
	}
	h.mu.Unlock()
	for _, l := range all {
		l.Close()
	}
}

func (h *Host) dropConnections() {
	h.mu.Lock()
	var all []*conn
	for c := range h.conns {
		all = append(all, c)
	}
	h.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

func (h *Host) isLoopback() bool {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	return h.loopback
}

func (h *Host) state() hostFaults {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	return h.faults
}

// stateAndHealed reads both at once: a stall must wait for the end of its own
// fault, not for that of a later one.
func (h *Host) stateAndHealed() (hostFaults, context.Context) {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	return h.faults, h.world.healed
}

func (h *Host) certificate() *tls.Certificate {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	if h.faults.conn.certificate != nil {
		return h.faults.conn.certificate
	}
	cert := h.cert
	return &cert
}
