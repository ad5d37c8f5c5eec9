package tlsauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// shake is one handshake with one hello.
type shake struct {
	hello   Hello
	spare   bool  // nobody goes on with this connection, so it may be read from
	mss     int   // clamp of the segments, 0 = none
	dialErr error // *classify.StageError, or the end of the caller's context

	addr    string
	conn    *tls.Conn // nil unless the handshake completed
	err     error
	silent  bool // our own limit ended it
	client  clientDemand
	refused error // the server's word about our client certificate, after the handshake
	state   tls.ConnectionState
	elapsed time.Duration
}

// connect dials the endpoint once.
func (l *look) connect(ctx context.Context) (net.Conn, error) {
	return l.connectBy(ctx, l.c.dialer())
}

// connectBy dials once, within the limit. It returns when ctx ends even if the
// dialer does not; a connection that comes later is closed.
func (l *look) connectBy(ctx context.Context, dialer Dialer) (net.Conn, error) {
	limit := l.c.limit()
	dctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	got := make(chan result)
	go func() {
		conn, err := dialer.DialContext(dctx, "tcp", l.address)
		select {
		case got <- result{conn, err}:
		case <-dctx.Done():
			if conn != nil {
				_ = conn.Close()
			}
		}
	}()
	fail := func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		stage := &classify.StageError{Stage: classify.StageConnect, Endpoint: l.endpoint(), Address: l.address, Err: err}
		var lookup *net.DNSError
		if errors.As(err, &lookup) {
			stage.Stage, stage.Endpoint, stage.Address = classify.StageLookup, l.name, ""
		}
		if errors.Is(context.Cause(dctx), errLimit) {
			stage.Limit = limit
		}
		return stage
	}
	select {
	case r := <-got:
		if r.err != nil {
			return nil, fail(r.err)
		}
		return r.conn, nil
	case <-dctx.Done():
		return nil, fail(dctx.Err())
	}
}

func (c *Checker) dialer() Dialer {
	if c.Dialer != nil {
		return c.Dialer
	}
	return SystemDialer{}
}

// run makes the handshake on raw, which it closes unless it completes.
func (s *shake) run(ctx context.Context, l *look, raw net.Conn) {
	limit := l.c.limit()
	hctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	if a := raw.RemoteAddr(); a != nil {
		s.addr = a.String()
	}
	conn := tls.Client(raw, s.hello.config(l.name, func(info *tls.CertificateRequestInfo) *tls.Certificate { return s.client.answer(info, l.pairs) }))
	start := time.Now()
	s.err = conn.HandshakeContext(hctx)
	s.elapsed = time.Since(start)
	if s.err != nil {
		_ = raw.Close()
		s.silent = ctx.Err() == nil && errors.Is(s.err, context.DeadlineExceeded) && errors.Is(context.Cause(hctx), errLimit)
		return
	}
	s.state, s.conn = conn.ConnectionState(), conn
	if s.spare {
		s.refused = s.client.settle(hctx, conn, s.state.Version, limit/settleShare)
	}
	if len(s.state.PeerCertificates) == 0 { // crypto/tls refuses this itself; judged chains have a leaf
		s.err, s.conn = errors.New("the server sent no certificate"), nil
		_ = raw.Close()
	}
}

func (s *shake) done() bool { return s.conn != nil }

// certs are the certificates that are looked at, the leaf first.
func (s *shake) certs() []*x509.Certificate {
	certs, _ := bounded(s.state.PeerCertificates)
	return certs
}

// like says that what was judged of first holds for s, too, and that nothing was
// read from its connection to see whether the server takes a client certificate.
func (s *shake) like(first *shake) bool {
	return !s.client.made() && slices.EqualFunc(s.certs(), first.certs(), (*x509.Certificate).Equal)
}

// ended says that the caller's context, and nothing else, ended this handshake.
func (s *shake) ended(ctx context.Context) bool {
	if ctx.Err() == nil || s.done() {
		return false
	}
	if s.dialErr != nil {
		var stage *classify.StageError
		return !errors.As(s.dialErr, &stage)
	}
	return errors.Is(s.err, ctx.Err())
}

func (s *shake) remote(fallback string) string {
	if s.addr != "" {
		return s.addr
	}
	return fallback
}

func (s *shake) handshake() Handshake {
	h := Handshake{
		Hello: s.hello, Done: s.done(), ElapsedMS: s.elapsed.Milliseconds(),
		ClientCertificateRequested: s.client.made(), ClientCertificate: s.client.offered(), SegmentSize: s.mss,
	}
	if s.done() {
		h.Version, h.Cipher = tls.VersionName(s.state.Version), tls.CipherSuiteName(s.state.CipherSuite)
		if s.state.CurveID != 0 {
			h.Curve = s.state.CurveID.String()
		}
	}
	return h
}

// finding says why a handshake failed. classical is that of the classical hello at
// the same endpoint, nil unless it completed.
func (s *shake) finding(l *look, classical *shake) classify.Finding {
	if s.dialErr != nil {
		return classify.Error(s.dialErr)
	}
	stage := &classify.StageError{Stage: classify.StageHandshake, Endpoint: l.endpoint(), Address: s.remote(l.address), Err: s.err}
	if s.silent {
		stage.Limit = l.c.limit()
		if f := l.path(s, classical); f != nil {
			return f.WithError(stage)
		}
		if s.hello == HelloLarge && classical != nil {
			return l.found(classify.RouteLargeHelloDropped, fmt.Sprintf(
				"a ClientHello of more than one segment got no answer within %v, while a small one completed the handshake", stage.Limit), s,
				classify.Fact{Key: classify.FactLimit, Value: stage.Limit.String()}).WithError(stage)
		}
		return l.found(classify.EndpointTLSHandshakeTimeout, fmt.Sprintf(
			"connected, but the TLS handshake was not answered to its end within %v", stage.Limit), s,
			classify.Fact{Key: classify.FactLimit, Value: stage.Limit.String()}).WithError(stage)
	}
	f := classify.Error(stage)
	f.Facts = append(slices.Clone(f.Facts), classify.Fact{Key: classify.FactHello, Value: string(s.hello)})
	if f.Fact(classify.FactAlert) != "" && s.client.made() {
		f = s.client.refine(l, f)
	}
	f.Endpoint = l.endpoint()
	if s.hello == HelloLarge && classical != nil && f.Layer == classify.LayerEndpoint {
		// A middlebox may also reset what it cannot reassemble.
		f.Alternatives = append(slices.Clone(f.Alternatives), classify.RouteLargeHelloDropped)
	}
	return f
}
