package endpoints

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

func (c *Checker) allow() func(netip.AddrPort) error {
	if c.AllowAddr != nil {
		return c.AllowAddr
	}
	return registry.DenyPlatform
}

// dial returns how a connection to the host of u is made with the settings of src:
// through the proxy that holds for u, and for https with a verified certificate
// before anything is sent, also where the runtime does not verify.
func (w *walk) dial(u *url.URL, src noderuntime.Source) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := w.connect(ctx, u, src)
		if err != nil || u.Scheme != "https" {
			return conn, err
		}
		return w.c.handshake(ctx, u, src, conn)
	}
}

// proxy returns the proxy for u, nil for none.
func (w *walk) proxy(u *url.URL) (*url.URL, error) {
	if w.c.Proxy == nil {
		return nil, nil
	}
	return w.c.Proxy(u)
}

func (w *walk) connect(ctx context.Context, u *url.URL, src noderuntime.Source) (net.Conn, error) {
	proxy, err := w.proxy(u)
	if err != nil {
		return nil, &classify.StageError{Stage: classify.StageProxyConnect, Endpoint: u.Host, Err: err}
	}
	if proxy == nil {
		conn, err := w.c.connect(ctx, u)
		if err == nil {
			w.reached(u, conn)
		}
		return conn, err
	}
	if proxy.Scheme != "http" && proxy.Scheme != "https" && !registry.IsSOCKS(proxy) {
		return nil, &classify.StageError{Stage: classify.StageProxyConnect, Endpoint: u.Host, Err: registry.ErrProxyScheme}
	}
	conn, err := w.c.connect(ctx, proxy)
	if err != nil {
		var se *classify.StageError
		if errors.As(err, &se) {
			return nil, &classify.StageError{Stage: classify.StageProxyConnect, Endpoint: proxy.Host, Limit: se.Limit, Err: se.Err}
		}
		return nil, err
	}
	w.reached(proxy, conn)
	if proxy.Scheme == "https" { // with the settings of the source, as in one net/http transport
		if conn, err = w.c.handshake(ctx, proxy, src, conn); err != nil {
			return nil, err
		}
	}
	switch {
	case registry.Forward(proxy, u.Scheme):
		return conn, nil
	case registry.IsSOCKS(proxy):
		return registry.SOCKS(ctx, conn, proxy, registry.HostPort(u), w.c.Header)
	}
	return registry.Connect(ctx, conn, proxy, registry.HostPort(u), cmp.Or(w.c.UserAgent, registry.DefaultAgent), w.c.Header)
}

// reached notes the address of a connection.
func (w *walk) reached(u *url.URL, conn net.Conn) {
	ta, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := u.Scheme + "://" + registry.HostPort(u)
	w.addrs[key] = append(w.addrs[key], ta.AddrPort().Addr().WithZone(""))
}

// limited gives a step its own limit, so that its end can be told from the
// caller's.
func limited(ctx context.Context, d, def time.Duration) (inner context.Context, limit time.Duration, cancel context.CancelFunc) {
	if d <= 0 {
		d = def
	}
	inner, cancel = context.WithTimeoutCause(ctx, d, errLimit)
	return inner, d, cancel
}

var errLimit = errors.New("the step's own limit was reached")

func staged(ctx, inner context.Context, stage classify.Stage, u *url.URL, limit time.Duration, err error) error {
	se := &classify.StageError{Stage: stage, Endpoint: u.Host, Err: err}
	if !registry.Over(ctx) && registry.Over(inner) {
		se.Limit = limit
	}
	return se
}

func (c *Checker) connect(ctx context.Context, u *url.URL) (net.Conn, error) {
	inner, limit, cancel := limited(ctx, c.Connect, defaultConnect)
	defer cancel()
	dial := c.DialContext
	if dial == nil {
		dial = (&net.Dialer{ControlContext: registry.Guard(c.allow())}).DialContext
	}
	conn, err := dial(inner, "tcp", registry.HostPort(u))
	if err != nil {
		stage := classify.StageConnect
		var de *net.DNSError
		if errors.As(err, &de) {
			stage = classify.StageLookup
		}
		return nil, staged(ctx, inner, stage, u, limit, err)
	}
	// A function of the caller's resolves names itself: look before a byte is sent.
	if ta, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		if err := c.allow()(ta.AddrPort()); err != nil {
			_ = conn.Close()
			return nil, staged(ctx, inner, classify.StageConnect, u, 0, &registry.DeniedError{Addr: ta.AddrPort(), Err: err})
		}
	}
	return conn, nil
}

// curves are set because their default depends on the go line of the program
// that uses this package; these are those of runtimes built since Go 1.24.
var curves = []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

func (c *Checker) handshake(ctx context.Context, u *url.URL, src noderuntime.Source, conn net.Conn) (net.Conn, error) {
	roots := c.Roots
	if len(src.CA) > 0 { // beside the node's roots, as the runtimes do
		if roots == nil {
			if roots, _ = x509.SystemCertPool(); roots == nil {
				roots = x509.NewCertPool()
			}
		}
		roots = roots.Clone()
		for _, ca := range src.CA {
			roots.AppendCertsFromPEM(ca)
		}
	}
	return c.tls(ctx, u, conn, &tls.Config{RootCAs: roots, Certificates: src.Certificates})
}

func (c *Checker) tls(ctx context.Context, u *url.URL, conn net.Conn, config *tls.Config) (net.Conn, error) {
	inner, limit, cancel := limited(ctx, c.Handshake, defaultHandshake)
	defer cancel()
	config.ServerName, config.Time, config.MinVersion, config.CurvePreferences = u.Hostname(), c.Now, tls.VersionTLS12, curves
	tc := tls.Client(registry.ReadAhead(conn), config)
	if err := tc.HandshakeContext(inner); err != nil {
		_ = conn.Close()
		return nil, staged(ctx, inner, classify.StageHandshake, u, limit, err)
	}
	return tc, nil
}

// chooseScheme finds out what a loopback registry speaks, as containerd does: TLS first,
// plain http if what answers is no TLS. Containerd would take any certificate there; a
// connection that was not verified gets no request from us. It reports false where that
// ends the walk.
func (w *walk) chooseScheme(ctx context.Context) bool {
	u := *w.run.Requests.Base
	u.Scheme = "https"
	conn, err := w.dial(&u, w.src)(ctx)
	var (
		record tls.RecordHeaderError
		cert   *tls.CertificateVerificationError
	)
	switch {
	case err == nil:
		w.run.Requests.Base = &u
		w.https = &registry.Pool{Dial: w.dial(&u, w.src), Header: w.c.Header, Idle: w.c.Idle}
		w.https.Put(conn)
	case errors.As(err, &record): // not TLS: plain http it is
	case errors.As(err, &cert):
		r := &registry.Report{Endpoint: u.Host, Request: registry.Request{
			Operation: classify.OperationResolveManifest, Role: RoleManifest, Method: "HEAD", URL: u.String(), Host: registry.HostPort(&u), Hop: 1,
		}}
		r.Fail(classify.Error(err))
		w.add(taken{step: pull.Step{ID: pull.StepResolve, Status: pull.StatusFailed, Request: r, Findings: r.Found}})
		return false
	}
	return true
}
