package tlsauth

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// CheckTLS asks whether this node trusts the endpoint at ap under the name that
// the pull uses for it. name is a host name or an IP literal, without port.
//
// An error is a senseless question: no address, no name, no usable roots. What
// the endpoint does wrong is in the report.
func (c *Checker) CheckTLS(ctx context.Context, ap netip.AddrPort, name string) (*TLSReport, error) {
	rep, conn, err := c.Dial(ctx, ap, name)
	if conn != nil {
		hangUp(conn)
	}
	return rep, err
}

// Dial is [Checker.CheckTLS] and hands on the connection of the first hello, so
// that the next step needs no handshake of its own. The connection is nil unless
// its chain was verified. The caller closes it.
func (c *Checker) Dial(ctx context.Context, ap netip.AddrPort, name string) (*TLSReport, net.Conn, error) {
	if !ap.IsValid() || ap.Port() == 0 {
		return nil, nil, fmt.Errorf("tlsauth: %q is no address to ask", ap)
	}
	hellos, err := c.hellos()
	if err != nil {
		return nil, nil, err
	}
	look := look{c: c, address: ap.String(), name: name, port: fmt.Sprint(ap.Port()), hellos: hellos}
	rep, conn, err := look.run(ctx)
	if err != nil {
		return nil, nil, err
	}
	rep.Target = ap
	if conn == nil {
		return rep, nil, nil
	}
	return rep, conn, nil
}

// look is one check of one endpoint.
type look struct {
	c       *Checker
	address string // what to dial
	name    string
	port    string
	hellos  []Hello

	roots *Roots
	now   time.Time
}

// endpoint is the host[:port] of findings; 443 goes without saying.
func (l *look) endpoint() string {
	if l.port == "443" {
		return l.name
	}
	return net.JoinHostPort(bare(l.name), l.port)
}

func (l *look) run(ctx context.Context) (*TLSReport, *tls.Conn, error) {
	if err := checkName(l.name); err != nil {
		return nil, nil, err
	}
	var err error
	if l.roots, err = l.c.roots(); err != nil {
		return nil, nil, err
	}
	l.now = l.c.now()
	start := time.Now()
	shakes := l.shakeAll(ctx)
	rep := &TLSReport{ServerName: l.name}
	l.report(ctx, rep, shakes)
	rep.ElapsedMS = time.Since(start).Milliseconds()
	var keep *tls.Conn
	for i, s := range shakes {
		switch {
		case s.conn == nil:
		case i == 0 && rep.Held():
			keep = s.conn
		default:
			hangUp(s.conn)
		}
	}
	return rep, keep, nil
}

// checkName refuses what can stand in no certificate.
func checkName(name string) error {
	if name == "" || len(name) > 255 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' || r == '@' }) {
		return fmt.Errorf("tlsauth: %q is no host name", classify.Redact(name, 64))
	}
	return nil
}

// shakeAll makes the handshakes, all at once. The first hello is dialled first
// and alone: it is the one that decides, and its dialer may hold a connection
// that is already open.
func (l *look) shakeAll(ctx context.Context) []*shake {
	shakes := make([]*shake, len(l.hellos))
	for i, h := range l.hellos {
		shakes[i] = &shake{hello: h}
	}
	first := shakes[0]
	raw, err := l.connect(ctx)
	if err != nil {
		first.dialErr = err
		return shakes[:1] // without a connection there is nothing to compare
	}
	done := make(chan struct{}, len(shakes))
	go func() {
		first.run(ctx, l, raw)
		done <- struct{}{}
	}()
	for _, s := range shakes[1:] {
		go func() {
			defer func() { done <- struct{}{} }()
			raw, err := l.connect(ctx)
			if err != nil {
				s.dialErr = err
				return
			}
			s.run(ctx, l, raw)
		}()
	}
	for range shakes {
		<-done
	}
	return shakes
}

// report reads the handshakes into rep.
func (l *look) report(ctx context.Context, rep *TLSReport, shakes []*shake) {
	classical := false
	for _, s := range shakes {
		classical = classical || s.hello == HelloClassical && s.done()
	}
	var chains [][]byte
	for i, s := range shakes {
		h := s.handshake()
		switch {
		case s.done():
			if leaf := s.certs()[0].Raw; !contains(chains, leaf) {
				chains = append(chains, leaf)
				l.trust(rep, s, i == 0, len(chains) == 1)
			}
		case s.ended(ctx):
			h.Error = "not finished: " + ended(ctx)
			if i == 0 {
				rep.Inconclusive = ended(ctx)
			}
		case refusedAddress(s.dialErr) && i == 0:
			f := l.addressDenied(s)
			h.Error, h.Cause, rep.Inconclusive = f.Summary, f.Cause, f.Summary
			rep.findings = append(rep.findings, f)
		case s.dialErr != nil && i > 0:
			h.Error = "not connected: " + classify.Redact(s.dialErr.Error(), 200)
		default:
			f := s.finding(l, classical)
			h.Error, h.Cause = classify.Redact(f.Summary, 300), f.Cause
			if i > 0 {
				f.Severity = classify.SeverityWarn
			}
			if i == 0 || !has(rep.findings, f.Cause) {
				rep.findings = append(rep.findings, f)
			}
		}
		rep.Handshakes = append(rep.Handshakes, h)
	}
}

// trust judges the chain of a completed handshake. Only a problem of the first
// hello's chain fails; a second chain, from another backend, can only warn.
func (l *look) trust(rep *TLSReport, s *shake, decides, main bool) {
	t := &trial{certs: s.certs(), name: l.name, roots: l.roots, now: l.now}
	trustedBy, problems := t.judge()
	if main {
		rep.Chain = describeChain(t.certs)
		rep.Verified, rep.TrustedBy = len(problems) == 0, trustedBy
	}
	for i, p := range problems {
		f := l.found(p.cause, p.summary, s, p.facts...)
		if p.certainty != "" {
			f.Certainty = p.certainty
		}
		f.Alternatives = p.others
		if !decides || i > 0 {
			f.Severity = classify.SeverityWarn
		}
		if p.err != nil {
			f = f.WithError(p.err)
		}
		rep.findings = append(rep.findings, f)
	}
}

// found builds a finding about this endpoint.
func (l *look) found(cause classify.Cause, summary string, s *shake, facts ...classify.Fact) classify.Finding {
	base := []classify.Fact{{Key: classify.FactAddress, Value: s.remote(l.address)}}
	if s.hello != "" {
		base = append(base, classify.Fact{Key: classify.FactHello, Value: string(s.hello)})
	}
	f := classify.New(cause, l.endpoint()+": "+summary, append(base, facts...)...)
	f.Endpoint = l.endpoint()
	return f
}

func contains(chains [][]byte, leaf []byte) bool {
	for _, c := range chains {
		if bytes.Equal(c, leaf) {
			return true
		}
	}
	return false
}

func has(findings []classify.Finding, cause classify.Cause) bool {
	for _, f := range findings {
		if f.Cause == cause {
			return true
		}
	}
	return false
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
