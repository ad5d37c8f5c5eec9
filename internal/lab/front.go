package lab

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// front is what every request meets first: the record, the watch over
// credentials, and the faults that do not depend on what is asked.
func (h *Host) front(honest http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		// The connection is counted, so the world cannot be past its Wait; a
		// hijacked one leaves that count while this handler still runs.
		h.world.wg.Add(1)
		defer h.world.wg.Done()
		defer h.enter()()

		rec := h.record(r)
		h.watch(r)
		faults, healed := h.stateAndHealed()
		out := &response{ResponseWriter: rw, host: h, rec: rec, faults: faults, request: r, healed: healed}
		switch {
		case faults.headerStall:
			// Read to the end first: only then does net/http notice a client
			// that goes away.
			_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20))
			out.stall()
		case faults.endlessHeaders:
			endlessHeaders(rw, healed)
		case faults.answer != nil:
			out.Header().Set("Content-Type", faults.answer.contentType)
			out.Header().Set("Content-Length", strconv.Itoa(len(faults.answer.body)))
			out.WriteHeader(faults.answer.status)
			_, _ = io.WriteString(out, faults.answer.body)
		case faults.tokenMoved != nil && r.URL.Path == tokenPath:
			out.Header().Set("Location", faults.tokenMoved.location+"?"+r.URL.RawQuery)
			out.WriteHeader(faults.tokenMoved.status)
		case faults.redirectLoop:
			n, _ := strconv.Atoi(r.URL.Query().Get("hop"))
			next := *r.URL
			query := next.Query()
			query.Set("hop", strconv.Itoa(n+1))
			next.RawQuery = query.Encode()
			http.Redirect(out, r, next.String(), http.StatusTemporaryRedirect)
		case slices.ContainsFunc(faults.overrides, func(f override) bool { return f(out, r) }):
		default:
			honest(out, r)
		}
		if faults.endlessBody && r.Method != http.MethodHead && out.bodyAllowed() {
			out.fill()
		}
	})
}

func (h *Host) record(r *http.Request) *Request {
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	rec := &Request{Method: r.Method, Path: r.URL.Path, Range: r.Header.Get("Range"), Credential: scheme, Fields: slices.Sorted(maps.Keys(r.Header))}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, rec)
	return rec
}

// watch notes credentials that have no business here.
func (h *Host) watch(r *http.Request) {
	w := h.world
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token := h == w.Token || h.state().tokenMoved != nil && r.URL.Path == tokenPath // it was the realm
	switch {
	case scheme == "":
	case token && strings.EqualFold(scheme, "Basic"):
	case h == w.Registry && strings.EqualFold(scheme, "Bearer"):
	default:
		w.violation("%s got %s credentials with %s %s", h.Name, scheme, r.Method, r.URL.Path)
	}
	if !token && r.Method == http.MethodPost {
		if body, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10)); strings.Contains(string(body), "password=") {
			w.violation("%s got a password with %s %s", h.Name, r.Method, r.URL.Path)
		}
	}
	address := r.URL.String()
	for _, secret := range w.Secrets() {
		if h == w.Blobs && secret == SignatureMark {
			continue // in the address by design, and so in the Referer of a redirect
		}
		if strings.Contains(address, secret) {
			w.violation("%s got a secret in the address of %s %s", h.Name, r.Method, r.URL.Path)
		}
		for key, values := range r.Header {
			if key != "Authorization" && strings.Contains(strings.Join(values, " "), secret) {
				w.violation("%s got a secret in the %s header of %s %s", h.Name, key, r.Method, r.URL.Path)
			}
		}
	}
}

// response records what goes out and lets the body faults act on it.
type response struct {
	http.ResponseWriter
	host    *Host
	rec     *Request
	faults  hostFaults
	request *http.Request
	healed  context.Context
	status  int
}

func (o *response) WriteHeader(status int) {
	if o.status == 0 {
		o.status = status
		o.host.mu.Lock()
		o.rec.Status = status
		o.host.mu.Unlock()
	}
	if o.faults.endlessBody && o.bodyAllowed() {
		o.Header().Del("Content-Length") // the end is not known: there is none
	}
	o.ResponseWriter.WriteHeader(status)
}

func (o *response) Write(p []byte) (int, error) {
	if o.status == 0 {
		o.WriteHeader(http.StatusOK)
	}
	if o.faults.bodyStall && o.status < 300 && o.request.Method != http.MethodHead && len(p) > 0 {
		_, _ = o.write(p[:1])
		o.stall()
	}
	return o.write(p)
}

func (o *response) write(p []byte) (int, error) {
	n, err := o.ResponseWriter.Write(p)
	o.host.mu.Lock()
	o.rec.Bytes += int64(n)
	o.host.mu.Unlock()
	return n, err
}

func (o *response) bodyAllowed() bool {
	return o.status >= 200 && o.status != http.StatusNoContent && o.status != http.StatusNotModified
}

// stall sends what there is and then nothing, until the client goes away or the
// fault is healed; the connection is closed then.
func (o *response) stall() {
	if o.status != 0 {
		_ = http.NewResponseController(o.ResponseWriter).Flush()
	}
	select {
	case <-o.request.Context().Done():
	case <-o.healed.Done():
	}
	panic(http.ErrAbortHandler)
}

// fill goes on for as long as somebody reads.
func (o *response) fill() {
	chunk := []byte(strings.Repeat(" ", 16<<10))
	for o.healed.Err() == nil {
		if _, err := o.write(chunk); err != nil {
			break
		}
	}
	panic(http.ErrAbortHandler)
}

// endlessHeaders sends header lines for as long as somebody reads.
func endlessHeaders(rw http.ResponseWriter, healed context.Context) {
	c, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer c.Close()
	_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
	lines := []byte(strings.Repeat("X-Filler: "+strings.Repeat("x", 100)+"\r\n", 64))
	for err == nil && healed.Err() == nil {
		_, err = c.Write(lines)
	}
}
