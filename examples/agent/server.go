package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// Limits of the server.
const (
	headLimit  = 5 * time.Second  // TLS handshake, and then header
	readLimit  = 10 * time.Second // body
	writeLimit = 30 * time.Second
	idleLimit  = 30 * time.Second
	farewell   = 5 * time.Second // for answers that are being written at the end
	retryAfter = "10"            // seconds; what runs may take a minute, most ends in one
)

// serve answers until ctx ends. Diagnoses that run then end with what they know.
func serve(ctx context.Context, m machine, l listening, concurrent int, stderr io.Writer) error {
	if err := m.seen(); err != nil {
		return err
	}
	listener, err := l.open()
	if err != nil {
		return err
	}
	logger := log.New(stderr, "agent: ", 0)
	logger.Printf("listening on %s", listener.Addr())
	return answer(ctx, listener, newHandler(m, l, concurrent, logger))
}

func answer(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headLimit, IdleTimeout: idleLimit, MaxHeaderBytes: 16 << 10,
		ConnContext: withGuest, ConnState: rest,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0), // net/http's complaints about who connects
	}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		if server.Shutdown(late) != nil {
			server.Close()
		}
		ended <- nil
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

// handler is the agent's interface.
type handler struct {
	machine machine
	listening
	slots chan struct{} // one for each request that is answered
	log   *log.Logger
}

func newHandler(m machine, l listening, concurrent int, logger *log.Logger) http.Handler {
	h := &handler{machine: m, listening: l, slots: make(chan struct{}, concurrent), log: logger}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.Handle("GET /version", h.authorized(http.HandlerFunc(h.version)))
	mux.Handle("POST "+agentclient.Path, h.authorized(http.HandlerFunc(h.diagnose)))
	// A page in a browser on the same machine reaches loopback, too.
	return h.named(http.NewCrossOriginProtection().Handler(mux))
}

// named refuses requests to loopback under a name of somebody else: a browser sends
// them when a page has pointed its own name here (DNS rebinding).
func (h *handler) named(next http.Handler) http.Handler {
	if !h.loopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = strings.Trim(r.Host, "[]")
		}
		addr, err := netip.ParseAddr(host)
		ownName := strings.EqualFold(host, "localhost") || host == agentclient.ServerName
		if !ownName && (err != nil || !addr.Unmap().IsLoopback()) {
			refuse(w, http.StatusForbidden, "want a loopback address or localhost as the host, got "+strconv.Quote(r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authorized lets requests with a right token pass. Without any token to compare
// with, anybody on loopback may ask.
func (h *handler) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			given = ""
		}
		allowed, err := h.allows(r.Context(), given)
		switch {
		case errors.Is(err, errBusy):
			w.Header().Set("Retry-After", retryAfter)
			refuse(w, http.StatusTooManyRequests, err.Error())
		case err != nil:
			h.log.Print(err)
			refuse(w, http.StatusServiceUnavailable, "the agent cannot check the token")
		case !allowed:
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "a bearer token is needed, and it must be one that the agent takes")
		default:
			received(r)
			next.ServeHTTP(w, r)
		}
	})
}

// allows reports whether a token is the agent's own, or one of a user that may ask.
func (l listening) allows(ctx context.Context, given string) (bool, error) {
	if l.tokenFile == "" && l.review == nil {
		return true, nil
	}
	if l.tokenFile != "" {
		token, err := l.token()
		if err != nil {
			return false, err
		}
		// Sums have one length, and so nothing is told by how long a comparison takes.
		want, got := sha256.Sum256(token), sha256.Sum256([]byte(given))
		if subtle.ConstantTimeCompare(want[:], got[:]) == 1 {
			return true, nil
		}
	}
	if l.review == nil {
		return false, nil
	}
	return l.review.allows(ctx, given)
}

func (h *handler) version(w http.ResponseWriter, _ *http.Request) {
	out := struct {
		Version  string `json:"version"`
		Revision string `json:"revision,omitempty"`
		Schema   string `json:"schema"`
		Node     string `json:"node,omitempty"`
	}{Schema: pullwalk.Schema, Node: h.machine.node}
	if info, ok := debug.ReadBuildInfo(); ok {
		out.Version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				out.Revision = s.Value
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// diagnose answers with one result per image, each a JSON document on a line of
// its own. It ends when the client goes away.
func (h *handler) diagnose(w http.ResponseWriter, r *http.Request) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		w.Header().Set("Retry-After", retryAfter)
		refuse(w, http.StatusTooManyRequests, "as many diagnoses run as this agent does at once")
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readLimit))
	req, err := agentclient.DecodeRequest(http.MaxBytesReader(w, r.Body, agentclient.MaxRequest))
	// From here on net/http reads to learn that the client has gone.
	_ = control.SetReadDeadline(time.Time{})
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit))
		return
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body: "+err.Error())
		return
	}
	if req.Node != "" && req.Node != h.machine.node {
		refuse(w, http.StatusMisdirectedRequest, "this is the agent of another node")
		return
	}
	started := time.Now()
	results, err := h.machine.diagnose(r.Context(), req)
	if err != nil {
		code := http.StatusInternalServerError
		switch {
		case errors.As(err, &invalidQuestion{}):
			code = http.StatusBadRequest
		case errors.As(err, &unwelcome{}):
			code = http.StatusForbidden
		}
		refuse(w, code, err.Error())
		return
	}
	for _, res := range results {
		h.log.Printf("%s: %s after %v", classify.Redact(res.Image.Reference, 256), res.Verdict, time.Since(started).Round(time.Millisecond))
	}
	_ = control.SetWriteDeadline(time.Now().Add(writeLimit))
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, res := range results {
		if enc.Encode(res) != nil {
			return // the client has gone
		}
	}
}

// refuse answers with why not. What others wrote is in the reason, redacted.
func refuse(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": classify.Redact(reason, 300)})
}
