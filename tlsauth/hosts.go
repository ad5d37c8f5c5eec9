package tlsauth

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// hosts sends each request to its own host, and over verified TLS where the URL
// says https. It is used by one goroutine.
type hosts struct {
	c     *Checker // with a dialer and roots
	pools map[string]*registry.Pool
	skew  *time.Duration // how far our clock is behind the first verified host that tells the time
}

// RoundTrip makes hosts an [http.RoundTripper].
func (h *hosts) RoundTrip(req *http.Request) (*http.Response, error) {
	key := req.URL.Scheme + "://" + req.URL.Host
	pool := h.pools[key]
	if pool == nil {
		u := req.URL
		pool = &registry.Pool{Header: h.c.requestLimit(), Dial: func(ctx context.Context) (net.Conn, error) { return h.dial(ctx, u) }}
		h.pools[key] = pool
	}
	resp, err := pool.RoundTrip(req)
	if err == nil && h.skew == nil && req.URL.Scheme == "https" {
		if behind, ok := skewOf(resp.Header, h.c.now()); ok {
			h.skew = &behind
			h.c.Seen.Clock(req.URL.Host, behind)
		}
	}
	return resp, err
}

func (h *hosts) close() {
	for _, p := range h.pools {
		p.Close()
	}
}

func (h *hosts) dial(ctx context.Context, u *url.URL) (net.Conn, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	hellos, err := h.c.hellos()
	if err != nil {
		return nil, err
	}
	look := &look{c: h.c, address: net.JoinHostPort(u.Hostname(), port), name: u.Hostname(), port: port, hellos: hellos[:1]}
	if u.Scheme == "http" { // an anonymous token request to a realm that is in clear
		conn, err := look.connect(ctx)
		if refusedAddress(err) {
			f := look.addressDenied(&attempt{dialErr: err})
			return nil, &registry.UnreachedError{Findings: []classify.Finding{f}, Inconclusive: f.Summary}
		}
		return conn, err
	}
	rep, conn, err := look.run(ctx)
	switch {
	case err != nil:
		return nil, err
	case conn == nil:
		return nil, &registry.UnreachedError{Findings: rep.findings, Inconclusive: rep.Inconclusive}
	}
	return conn, nil
}

// guarded is the default dialer of CheckAccess. Image names and token realms are
// chosen by others: a probe that follows them must not become a way to the
// platform's metadata services.
func guarded() *net.Dialer { return &net.Dialer{ControlContext: registry.Guard(registry.DenyPlatform)} }
