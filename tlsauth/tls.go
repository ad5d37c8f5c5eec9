package tlsauth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// CheckTLS reports whether this node trusts the endpoint at ap under the name that
// the pull uses for it. name is a host name or an IP literal, without port.
//
// It returns when ctx ends, and then judges for at most a tenth of a second what it
// has seen.
//
// An error means an invalid argument: no address, no name, no usable roots. The
// endpoint's faults are in the report.
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

func (l *look) run(ctx context.Context) (*TLSReport, *tls.Conn, error) {
	if err := checkName(l.name); err != nil {
		return nil, nil, err
	}
	var err error
	if l.roots, err = l.c.roots(); err != nil {
		return nil, nil, err
	}
	if l.pairs, err = l.c.pairs(); err != nil {
		return nil, nil, err
	}
	if l.seen = l.c.Seen; l.seen == nil {
		l.seen = &Seen{}
	}
	l.now = l.c.now()
	start := time.Now()
	attempts := l.attemptAll(ctx)
	rep := &TLSReport{ServerName: l.name}
	l.report(ctx, rep, attempts)
	rep.ElapsedMS = time.Since(start).Milliseconds()
	var keep *tls.Conn
	for i, s := range attempts {
		switch {
		case s.conn == nil:
		case i == 0 && rep.trusted():
			keep = s.conn
		case l.c.OnSpare != nil && rep.trusted() && s.like(attempts[0]):
			l.c.OnSpare(s.conn)
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

// attemptAll makes the handshakes, all at once. The first hello is dialled first
// and alone: it is the one that decides, and its dialer may hold a connection
// that is already open.
func (l *look) attemptAll(ctx context.Context) []*attempt {
	attempts := make([]*attempt, len(l.hellos))
	for i, h := range l.hellos {
		attempts[i] = &attempt{hello: h, spare: i > 0}
	}
	first := attempts[0]
	raw, err := l.connect(ctx)
	if err != nil {
		first.dialErr = err
		return attempts[:1] // without a connection there is nothing to compare
	}
	var all sync.WaitGroup
	silence, end := context.WithTimeout(ctx, l.c.limit()) // until the first hello is answered
	all.Go(func() {
		defer end()
		first.run(ctx, l, raw)
	})
	all.Go(func() { // why is it silent? Asked beside the wait, if there is one
		wait := time.NewTimer(matrixAfter)
		defer wait.Stop()
		select {
		case <-silence.Done():
		case <-wait.C:
			l.clamped = l.clamp(silence)
		}
	})
	for _, s := range attempts[1:] {
		all.Go(func() { s.make(ctx, l, l.c.dial) })
	}
	all.Wait()
	return attempts
}

// report reads the handshakes into rep.
func (l *look) report(ctx context.Context, rep *TLSReport, attempts []*attempt) {
	var classical *attempt
	for _, s := range attempts {
		if s.hello == HelloClassical && s.done() {
			classical = s
		}
		if s.done() {
			l.seen.chain(l.name, s.certs())
		}
	}
	var chains [][]byte
	for i, s := range attempts {
		h := s.handshake()
		switch {
		case s.done():
			if leaf := s.certs()[0].Raw; !slices.ContainsFunc(chains, func(c []byte) bool { return bytes.Equal(c, leaf) }) {
				chains = append(chains, leaf)
				l.trust(ctx, rep, s, i == 0, len(chains) == 1)
			}
			if f := s.refusal(l); f != nil {
				h.Error, h.Cause = classify.Redact(f.Summary, 300), f.Cause
				rep.findings = append(rep.findings, *f)
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
			if i == 0 || !slices.ContainsFunc(rep.findings, func(o classify.Finding) bool { return o.Cause == f.Cause }) {
				rep.findings = append(rep.findings, f)
			}
		}
		rep.Handshakes = append(rep.Handshakes, h)
	}
	for _, s := range l.clamped {
		h := s.handshake()
		if err := errors.Join(s.dialErr, s.err); err != nil {
			h.Error = classify.Redact(err.Error(), 200)
		}
		rep.Handshakes = append(rep.Handshakes, h)
	}
	if l.c.SkipVerify {
		l.unverified(rep)
	}
}

// trust judges the chain of a completed handshake. Only a problem of the first
// hello's chain fails; a second chain, from another backend, can only warn.
func (l *look) trust(ctx context.Context, rep *TLSReport, s *attempt, decides, main bool) {
	certs, more := bounded(s.state.PeerCertificates)
	graced, cancel := withGrace(ctx)
	defer cancel()
	t := &trial{ctx: graced, certs: certs, more: more, name: l.name, port: l.port, roots: l.roots, now: l.now, seen: l.seen, started: l.c.RuntimeStarted}
	chain := t.describe() // before the judgement, which may use up what signatures it may check
	chains, problems := t.judge()
	if len(problems) > 0 && t.over() { // half a judgement is none
		if decides {
			rep.Inconclusive = ended(ctx)
		}
		return
	}
	if main {
		rep.Chain = chain
		if rep.Verified = len(problems) == 0; rep.Verified {
			by := root(chains)
			sum := sha256.Sum256(by.Raw)
			rep.TrustedBy, rep.RootSHA256 = t.roots.file(by), hex.EncodeToString(sum[:])
		}
	}
	switch {
	case len(problems) > 0 && dated(problems[0].cause) && main:
		problems = l.excuse(ctx, rep, t, problems)
	case len(problems) == 0 && main:
		l.remark(rep, t, s, chains)
	}
	for i, p := range problems {
		f := l.problem(&p, s)
		if !decides || i > 0 {
			f.Severity = classify.SeverityWarn
		}
		rep.findings = append(rep.findings, f)
	}
}

// remark adds what is odd about a chain that verifies.
func (l *look) remark(rep *TLSReport, t *trial, s *attempt, chains [][]*x509.Certificate) {
	if p := t.unloaded(chains); p != nil {
		f := l.problem(p, s)
		f.Severity = classify.SeverityWarn // nothing failed: whether the runtime knows the root is not seen
		rep.Inconclusive = f.Summary
		rep.findings = append(rep.findings, f)
	}
	if inspector(chains[0]) != "" {
		f := l.found(classify.TLSIntercepted, fmt.Sprintf("the chain is trusted, but its issuer %q is by its name an inspection device: what is pulled is opened and signed anew on the way",
			printName(t.leaf().Issuer, 128)), s, t.facts()...)
		f.Severity, f.Certainty = classify.SeverityInfo, classify.CertaintyLikely // the pull works, and digests hold
		rep.findings = append(rep.findings, f)
	}
}

// problem is a finding about a chain.
func (l *look) problem(p *problem, s *attempt) classify.Finding {
	f := l.found(p.cause, p.summary, s, p.facts...)
	if p.certainty != "" {
		f.Certainty = p.certainty
	}
	f.Alternatives = p.others
	if p.err != nil {
		f = f.WithError(p.err)
	}
	return f
}

// unverified reports that the configuration accepts every certificate. What is
// wrong with this one does not stop the runtime; it stops us.
func (l *look) unverified(rep *TLSReport) {
	for i := range rep.findings {
		if rep.findings[i].Layer == classify.LayerTLS && len(rep.Chain) > 0 && rep.findings[i].Severity == classify.SeverityFail &&
			rep.findings[i].Cause != classify.TLSClientCertificateRequired && rep.findings[i].Cause != classify.TLSClientCertificateRejected {
			rep.findings[i].Severity = classify.SeverityWarn
		}
	}
	what := "the certificate would pass it"
	if !rep.Verified {
		what = "the certificate does not pass it, and the runtime takes it all the same"
		if len(rep.Chain) == 0 {
			what = "no certificate was seen"
		} else if rep.Inconclusive == "" {
			rep.Inconclusive = "the runtime does not verify this certificate; nothing is sent over an unverified connection"
		}
	}
	f := classify.New(classify.TLSVerificationOff, l.endpoint()+": the registry configuration switches verification off; "+what)
	f.Severity, f.Endpoint = classify.SeverityWarn, l.endpoint()
	rep.findings = append(rep.findings, f)
}
