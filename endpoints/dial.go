package endpoints

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/wire"
)

func (c *Checker) allow() func(netip.AddrPort) error {
	if c.AllowAddr != nil {
		return c.AllowAddr
	}
	return wire.DenyPlatform
}

// dial returns how a connection to the host of u is made; for https with a
// verified certificate, before anything is sent.
func (c *Checker) dial(u *url.URL) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := c.connect(ctx, u)
		if err != nil || u.Scheme != "https" {
			return conn, err
		}
		return c.handshake(ctx, u, conn)
	}
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
	if !over(ctx) && over(inner) {
		se.Limit = limit
	}
	return se
}

func (c *Checker) connect(ctx context.Context, u *url.URL) (net.Conn, error) {
	inner, limit, cancel := limited(ctx, c.Connect, defaultConnect)
	defer cancel()
	d := c.Dialer
	if d == nil {
		d = &net.Dialer{ControlContext: wire.Guard(c.allow())}
	}
	conn, err := d.DialContext(inner, "tcp", hostPort(u))
	if err != nil {
		stage := classify.StageConnect
		var de *net.DNSError
		if errors.As(err, &de) {
			stage = classify.StageLookup
		}
		return nil, staged(ctx, inner, stage, u, limit, err)
	}
	// A Dialer of the caller's resolves names itself: look before a byte is sent.
	if ta, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		if err := c.allow()(ta.AddrPort()); err != nil {
			_ = conn.Close()
			return nil, staged(ctx, inner, classify.StageConnect, u, 0, &wire.DeniedError{Addr: ta.AddrPort(), Err: err})
		}
	}
	return conn, nil
}

// curves are set because their default depends on the go line of the program
// that uses this package; these are those of runtimes built since Go 1.24.
var curves = []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

func (c *Checker) handshake(ctx context.Context, u *url.URL, conn net.Conn) (net.Conn, error) {
	inner, limit, cancel := limited(ctx, c.Handshake, defaultHandshake)
	defer cancel()
	tc := tls.Client(conn, &tls.Config{ServerName: u.Hostname(), RootCAs: c.Roots, Time: c.Now, MinVersion: tls.VersionTLS12, CurvePreferences: curves})
	if err := tc.HandshakeContext(inner); err != nil {
		_ = conn.Close()
		return nil, staged(ctx, inner, classify.StageHandshake, u, limit, err)
	}
	return tc, nil
}

// chooseScheme finds out what a loopback registry speaks, as containerd does:
// TLS first, plain http if what answers is no TLS. Containerd would take any
// certificate there; a connection that was not verified gets no request from us.
func (t *trip) chooseScheme(ctx context.Context) error {
	u := *t.w.Base
	u.Scheme = "https"
	conn, err := t.c.dial(&u)(ctx)
	var (
		record tls.RecordHeaderError
		cert   *tls.CertificateVerificationError
	)
	switch {
	case err == nil:
		t.w.Base = &u
		p, err := t.pool(&u, RoleManifest, "the image name")
		if err != nil {
			_ = conn.Close()
			return err
		}
		p.Put(conn)
	case errors.As(err, &record): // not TLS: plain http it is
	case errors.As(err, &cert):
		r := &RequestReport{Operation: classify.OperationResolveManifest, Role: RoleManifest, Method: "HEAD", URL: u.String(), Host: hostPort(&u), Hop: 1, endpoint: u.Host}
		f := classify.Error(err)
		r.warn(f)
		r.unknown("the loopback registry's certificate is not trusted; the runtime would not look at it, and nothing is sent over such a connection")
		t.note(r)
		return err
	}
	return nil
}
