package tlsauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// look is one check of one endpoint.
type look struct {
	c       *Checker
	address string // what to dial
	name    string
	port    string
	hellos  []Hello

	roots   *Roots
	pairs   []pair
	seen    *Seen
	now     time.Time
	clamped []*attempt // made when the first hello was not answered at once
}

// endpoint is the host[:port] of findings; 443 goes without saying.
func (l *look) endpoint() string {
	if l.port == "443" {
		return l.name
	}
	return net.JoinHostPort(bare(l.name), l.port)
}

// found builds a finding about this endpoint.
func (l *look) found(cause classify.Cause, summary string, s *attempt, facts ...classify.Fact) classify.Finding {
	base := []classify.Fact{{Key: classify.FactAddress, Value: s.remote(l.address)}}
	if s.hello != "" {
		base = append(base, classify.Fact{Key: classify.FactHello, Value: string(s.hello)})
	}
	f := classify.New(cause, l.endpoint()+": "+summary, append(base, facts...)...)
	f.Endpoint = l.endpoint()
	return f
}

// attempt is one handshake with one hello.
type attempt struct {
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
	return l.connectBy(ctx, l.c.dial)
}

// connectBy dials once, within the limit. It returns when ctx ends even if
// dial does not; a connection that comes later is closed.
func (l *look) connectBy(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error)) (net.Conn, error) {
	limit := l.c.limit()
	dctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	got := make(chan result)
	go func() {
		conn, err := dial(dctx, "tcp", l.address)
		select {
		case got <- result{conn, err}:
		case <-dctx.Done():
			if conn != nil {
				_ = conn.Close()
			}
		}
	}()
	var r result
	select {
	case r = <-got:
	case <-dctx.Done():
		r.err = dctx.Err()
	}
	switch {
	case r.err == nil:
		return r.conn, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	stage := &classify.StageError{Stage: classify.StageConnect, Endpoint: l.endpoint(), Address: l.address, Err: r.err}
	var lookup *net.DNSError
	if errors.As(r.err, &lookup) {
		stage.Stage, stage.Endpoint, stage.Address = classify.StageLookup, l.name, ""
	}
	if errors.Is(context.Cause(dctx), errLimit) {
		stage.Limit = limit
	}
	return nil, stage
}

// make dials and makes the handshake.
func (s *attempt) make(ctx context.Context, l *look, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	raw, err := l.connectBy(ctx, dial)
	if err != nil {
		s.dialErr = err
		return
	}
	s.run(ctx, l, raw)
}

// run makes the handshake on raw, which it closes unless it completes.
func (s *attempt) run(ctx context.Context, l *look, raw net.Conn) {
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

func (s *attempt) done() bool { return s.conn != nil }

// certs are the certificates that are looked at, the leaf first.
func (s *attempt) certs() []*x509.Certificate {
	certs, _ := bounded(s.state.PeerCertificates)
	return certs
}

// like reports whether what was judged of first holds for s, too, and nothing was
// read from its connection to see whether the server takes a client certificate.
func (s *attempt) like(first *attempt) bool {
	return !s.client.asked && slices.EqualFunc(s.certs(), first.certs(), (*x509.Certificate).Equal)
}

// ended reports whether the caller's context, and nothing else, ended this handshake.
func (s *attempt) ended(ctx context.Context) bool {
	if ctx.Err() == nil || s.done() {
		return false
	}
	if s.dialErr != nil {
		var stage *classify.StageError
		return !errors.As(s.dialErr, &stage)
	}
	return errors.Is(s.err, ctx.Err())
}

func (s *attempt) remote(fallback string) string {
	if s.addr != "" {
		return s.addr
	}
	return fallback
}

func (s *attempt) handshake() Handshake {
	h := Handshake{
		Hello: s.hello, Done: s.done(), ElapsedMS: s.elapsed.Milliseconds(),
		ClientCertificateRequested: s.client.asked, ClientCertificate: s.client.offered(), SegmentSize: s.mss,
	}
	if s.done() {
		h.Version, h.Cipher = tls.VersionName(s.state.Version), tls.CipherSuiteName(s.state.CipherSuite)
		if s.state.CurveID != 0 {
			h.Curve = s.state.CurveID.String()
		}
	}
	return h
}

// The hello/MSS matrix.
const (
	// clampedMSS fits, with headers, through every path that IPv6 may use (1280
	// bytes, RFC 8200 section 5) and through tunnels within such a path.
	clampedMSS = 1000
	// matrixAfter is the silence after which an explanation is looked for, beside
	// the handshake that may still be answered.
	matrixAfter = time.Second
)

// clamp repeats the handshakes with small segments, all at once.
func (l *look) clamp(ctx context.Context) []*attempt {
	if l.c.DialSegments == nil {
		return nil
	}
	small := func(ctx context.Context, network, address string) (net.Conn, error) {
		return l.c.DialSegments(ctx, network, address, clampedMSS)
	}
	attempts := make([]*attempt, len(l.hellos))
	var all sync.WaitGroup
	for i, h := range l.hellos {
		s := &attempt{hello: h, mss: clampedMSS}
		attempts[i] = s
		all.Go(func() {
			if s.make(ctx, l, small); s.conn != nil {
				hangUp(s.conn)
			}
		})
	}
	all.Wait()
	return attempts
}

// ended is the reason of an inconclusive answer.
func ended(ctx context.Context) string {
	return "the check was ended: " + classify.Redact(context.Cause(ctx).Error(), 120)
}

// hangUp closes the transport. The farewell of TLS would wait for a peer that
// does not read.
func hangUp(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	_ = c.Close()
}

// errLimit is the cause of a context that our own limit ended.
var errLimit = errors.New("the step's own limit")
