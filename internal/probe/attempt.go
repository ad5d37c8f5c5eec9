package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/node"
	"github.com/pullwalk/pullwalk/internal/notify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// attempt is what is tried of one address (RFC 8305 has the word).
type attempt struct {
	probe     *Probe
	addr      netip.Addr // zero through a proxy
	index     int
	steps     map[pull.StepID]pull.Step
	blockedBy string // the step that stopped it
	conn      net.Conn
	spare     net.Conn // verified like conn; nil = none
}

// run takes the steps of one address. A step is tried only when the one before passed.
func (a *attempt) run(ctx context.Context) {
	for _, id := range a.probe.Stages() {
		if a.blockedBy != "" {
			a.keep(pull.Step{ID: id, Status: pull.StatusBlocked, BlockedBy: a.blockedBy})
			continue
		}
		open := a.conn
		a.conn = nil
		var more *rounds
		if id == pull.StepConnect {
			more = a.probe.again(ctx, a.connectAgain)
		}
		s := a.probe.timed(ctx, pull.Step{ID: id, Addr: a.addr}, func(ctx context.Context, _ *notify.Watch) outcome {
			switch id {
			case pull.StepRoute:
				return outcomeOf(a.route(ctx))
			case pull.StepConnect:
				return a.connect(ctx)
			case pull.StepTunnel:
				return a.tunnel(ctx)
			default:
				return a.tls(ctx, open)
			}
		})
		s = a.connects(s, more)
		a.conn, a.spare = s.conn, s.spare
		a.keep(s.Step)
		if !pull.Passes(s.Status) {
			a.blockedBy = pull.StepName(id, a.probe.HostPort(), a.addr)
			a.drop()
		}
	}
}

func (a *attempt) keep(s pull.Step) {
	s.Addr = a.addr
	a.steps[s.ID] = a.probe.record(s, a.index)
}

func (a *attempt) drop() {
	for _, c := range []net.Conn{a.conn, a.spare} {
		if c != nil {
			_ = c.Close()
		}
	}
	a.conn, a.spare = nil, nil
}

func (a *attempt) addrPort() netip.AddrPort { return netip.AddrPortFrom(a.addr, a.probe.Port) }

func (a *attempt) route(ctx context.Context) pull.Step {
	s := pull.Step{ID: pull.StepRoute}
	if s, denied := a.denied(s, a.addr); denied {
		return s
	}
	return a.lookup(ctx)
}

// denied sets the status of a step that would lead to an address which must not be
// connected to.
func (a *attempt) denied(s pull.Step, addr netip.Addr) (pull.Step, bool) {
	err := a.probe.by.AllowAddr(netip.AddrPortFrom(addr, a.probe.Port))
	// The node's own settings name where its credentials come from, often at a
	// link-local address; a registry cannot choose it, and nothing is asked there.
	if err == nil || a.probe.Role == registry.RoleCredential {
		return s, false
	}
	f := classify.New(classify.EndpointAddressDenied, fmt.Sprintf("%s leads to %v, which this tool does not connect to: %v", a.probe.Host, addr, err),
		classify.Fact{Key: classify.FactAddress, Value: addr.String()})
	f.Severity = classify.SeverityWarn
	return pull.StatusOf(s, false, "address not allowed: "+err.Error(), []classify.Finding{f}), true
}

// lookup asks the kernel for the way to the address.
func (a *attempt) lookup(ctx context.Context) pull.Step {
	s := pull.Step{ID: pull.StepRoute}
	rep, err := a.probe.by.reach.CheckRoute(ctx, a.addr)
	if err != nil {
		return questionFailed(s, err)
	}
	s.Report = rep
	return pull.StatusOf(s, rep.Held(), rep.Inconclusive, append(rep.Findings(), node.RouteByHand(rep.Route)...))
}

func (a *attempt) connect(ctx context.Context) outcome {
	s := pull.Step{ID: pull.StepConnect}
	conn, rep, err := a.dial(ctx)
	switch {
	case rep != nil:
		s.Report = rep
		s = pull.StatusOf(s, rep.Held(), rep.Inconclusive, a.named(rep.Findings()))
	case ctx.Err() != nil:
		s.Status, s.Reason = pull.StatusInconclusive, pull.EndOf(ctx)
	default:
		s = pull.StatusOf(s, false, "", []classify.Finding{classify.Error(err)})
	}
	return outcome{Outcome: pull.Outcome{Step: s}, conn: conn}
}

// named says of which host a finding about an address is: reach knows only the
// address, and a reader looks for the host.
func (a *attempt) named(findings []classify.Finding) []classify.Finding {
	for i, f := range findings {
		var stage *classify.StageError
		if !errors.As(f, &stage) {
			continue
		}
		address := a.addrPort().String()
		own := *stage
		own.Endpoint = a.probe.HostPort()
		if f.Summary == classify.Error(stage).Summary {
			findings[i].Summary = classify.Error(&own).Summary
		} else if !strings.Contains(f.Summary, own.Endpoint) { // a trace has said more
			findings[i].Summary = strings.Replace(f.Summary, address, own.Endpoint+" at "+address, 1)
		}
	}
	return findings
}

// dial opens a connection to the address and no other, or one through the
// proxy. The report is nil through a proxy.
func (a *attempt) dial(ctx context.Context) (net.Conn, *reach.Report, error) {
	if a.probe.Via != nil {
		conn, err := a.through(ctx)
		return conn, nil, err
	}
	rep, conn, err := a.probe.by.reach.Connect(ctx, a.addrPort())
	if err != nil {
		return nil, nil, err
	}
	if conn == nil {
		if fs := rep.Findings(); len(fs) > 0 {
			return nil, rep, fs[0]
		}
		return nil, rep, errors.New(cmp.Or(rep.Inconclusive, "no connection"))
	}
	return conn, rep, nil
}

func (a *attempt) tls(ctx context.Context, open net.Conn) outcome {
	s := pull.Step{ID: pull.StepTLS}
	if err := a.probe.by.View.RootsErr; err != nil {
		_ = open.Close()
		return outcomeOf(questionFailed(s, err))
	}
	c := a.tlsChecker(open)
	var spare net.Conn
	c.OnSpare = func(conn net.Conn) { spare = conn } // there is one further hello
	rep, conn, err := c.Dial(ctx, a.tlsTarget(), a.probe.Host)
	if err != nil {
		_ = open.Close()
		return outcomeOf(questionFailed(s, err))
	}
	s.Report = rep
	findings := rep.Findings()
	if a.probe.by.Complete { // for a proof
		findings = append(findings, a.probe.by.View.RootByHand(rep)...)
	}
	return outcome{Outcome: pull.Outcome{Step: pull.StatusOf(s, rep.Held(), rep.Inconclusive, findings)}, conn: conn, spare: spare}
}

// tlsTarget is the address as the TLS report names it; a tunnel has none.
func (a *attempt) tlsTarget() netip.AddrPort {
	if a.addr.IsValid() {
		return a.addrPort()
	}
	return netip.AddrPortFrom(a.probe.Via.through.addr, a.probe.Via.Port)
}

// dial returns one more connection by the address that is through, verified like the
// first.
func (p *Probe) dial(ctx context.Context) (net.Conn, error) {
	a := p.through
	conn, _, err := a.dial(ctx)
	if err != nil || p.Scheme != "https" {
		return conn, err
	}
	c := a.tlsChecker(conn)
	c.Hellos = c.Hellos[:1]
	rep, verified, err := c.Dial(ctx, a.tlsTarget(), p.Host)
	switch {
	case err != nil:
		return nil, err
	case verified != nil:
		return verified, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if fs := rep.Findings(); len(fs) > 0 {
		return nil, fs[0]
	}
	return nil, errors.New(cmp.Or(rep.Inconclusive, "TLS was not verified"))
}

// tlsChecker verifies as the source's settings say. Its first connection is open; more
// are made in the same way.
func (a *attempt) tlsChecker(open net.Conn) *tlsauth.Checker {
	p, v := a.probe, a.probe.by.View
	first := make(chan net.Conn, 1)
	first <- open
	c := &tlsauth.Checker{
		Hellos: v.Hellos(), Roots: v.Roots, Trust: v.RootFiles, FS: v.FS,
		CA: p.tls.CA, CASource: p.tls.By, ClientPairs: p.tls.Pairs, SkipVerify: p.tls.SkipVerify,
		RuntimeStarted: v.Runtime.Started, Seen: p.seen, Now: v.Now, Limit: p.by.Limits.TLS, UserAgent: p.by.UserAgent,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			select {
			case c := <-first:
				return registry.ReadAhead(c), nil
			default:
			}
			c, _, err := a.dial(ctx)
			if err != nil {
				return nil, err
			}
			return registry.ReadAhead(c), nil
		},
	}
	if p.Via == nil { // through a proxy the path is the proxy's
		c.DialSegments = v.DialSegment()
	}
	return c
}
