package pullwalk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/reach"
)

// lane is the ladder of one address.
type lane struct {
	e         *ladder
	addr      netip.Addr // zero through a proxy
	index     int
	steps     map[StepID]pull.Step
	blockedBy string // the step of this lane that stopped it
	conn      net.Conn
	spare     net.Conn // verified like conn; nil = none
}

// climb takes the rungs of one address. A rung is tried only when the one before
// passed.
func (l *lane) climb(ctx context.Context) {
	for _, id := range l.e.laneSteps() {
		if l.blockedBy != "" {
			l.keep(pull.Step{ID: id, Status: StatusBlocked, BlockedBy: l.blockedBy})
			continue
		}
		open := l.conn
		l.conn = nil
		var more *rounds
		if id == StepConnect {
			more = l.e.again(ctx, l.connectAgain)
		}
		s := l.e.timed(ctx, pull.Step{ID: id, Addr: l.addr}, func(ctx context.Context, _ *watch) outcome {
			switch id {
			case StepRoute:
				return outcome{Step: l.route(ctx)}
			case StepConnect:
				return l.connect(ctx)
			case StepTunnel:
				return l.tunnel(ctx)
			default:
				return l.tls(ctx, open)
			}
		})
		s = l.connects(s, more)
		l.conn, l.spare = s.conn, s.spare
		l.keep(s.Step)
		if !pull.Passes(s.Status) {
			l.blockedBy = pull.StepName(id, l.e.hostPort(), l.addr)
			l.drop()
		}
	}
}

func (l *lane) keep(s pull.Step) {
	s.Addr = l.addr
	l.steps[s.ID] = l.e.record(s, l.index)
}

func (l *lane) drop() {
	for _, c := range []net.Conn{l.conn, l.spare} {
		if c != nil {
			_ = c.Close()
		}
	}
	l.conn, l.spare = nil, nil
}

func (l *lane) addrPort() netip.AddrPort { return netip.AddrPortFrom(l.addr, l.e.port) }

func (l *lane) route(ctx context.Context) pull.Step {
	s := pull.Step{ID: StepRoute}
	if s, denied := l.denied(s, l.addr); denied {
		return s
	}
	return l.lookup(ctx)
}

// denied settles a step that would lead to an address which must not be
// connected to.
func (l *lane) denied(s pull.Step, addr netip.Addr) (pull.Step, bool) {
	err := l.e.d.allow(netip.AddrPortFrom(addr, l.e.port))
	// The node's own settings name where its credentials come from, often at a
	// link-local address; a registry cannot choose it, and nothing is asked there.
	if err == nil || l.e.role == endpoints.RoleCredential {
		return s, false
	}
	f := classify.New(classify.EndpointAddressDenied, fmt.Sprintf("%s leads to %v, which this tool does not connect to: %v", l.e.host, addr, err),
		classify.Fact{Key: classify.FactAddress, Value: addr.String()})
	f.Severity = classify.SeverityWarn
	return pull.StatusOf(s, false, "address not allowed: "+err.Error(), []classify.Finding{f}), true
}

// lookup asks the kernel for the way to the lane's address.
func (l *lane) lookup(ctx context.Context) pull.Step {
	s := pull.Step{ID: StepRoute}
	rep, err := l.e.d.reach.CheckRoute(ctx, l.addr)
	if err != nil {
		return questionFailed(s, err)
	}
	s.Report = rep
	return pull.StatusOf(s, rep.Held(), rep.Inconclusive, append(rep.Findings(), routeByHand(rep.Route)...))
}

func (l *lane) connect(ctx context.Context) outcome {
	s := pull.Step{ID: StepConnect}
	conn, rep, err := l.dial(ctx)
	switch {
	case rep != nil:
		s.Report = rep
		s = pull.StatusOf(s, rep.Held(), rep.Inconclusive, l.named(rep.Findings()))
	case ctx.Err() != nil:
		s.Status, s.Reason = StatusInconclusive, reasonOf(ctx)
	default:
		s = pull.StatusOf(s, false, "", []classify.Finding{classify.Error(err)})
	}
	return outcome{Step: s, conn: conn}
}

// named says of which host a finding about an address is: reach knows only the
// address, and a reader looks for the host.
func (l *lane) named(findings []classify.Finding) []classify.Finding {
	for i, f := range findings {
		var stage *classify.StageError
		if !errors.As(f, &stage) {
			continue
		}
		address := l.addrPort().String()
		own := *stage
		own.Endpoint = l.e.hostPort()
		if f.Summary == classify.Error(stage).Summary {
			findings[i].Summary = classify.Error(&own).Summary
		} else if !strings.Contains(f.Summary, own.Endpoint) { // a trace has said more
			findings[i].Summary = strings.Replace(f.Summary, address, own.Endpoint+" at "+address, 1)
		}
	}
	return findings
}

// dial opens a connection to the lane's address and no other, or one through the
// proxy. The report is nil through a proxy.
func (l *lane) dial(ctx context.Context) (net.Conn, *reach.Report, error) {
	if l.e.via != nil {
		conn, err := l.through(ctx)
		return conn, nil, err
	}
	rep, conn, err := l.e.d.reach.Connect(ctx, l.addrPort())
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

func (l *lane) tls(ctx context.Context, open net.Conn) outcome {
	s := pull.Step{ID: StepTLS}
	if err := l.e.d.view.rootsErr; err != nil {
		_ = open.Close()
		return outcome{Step: questionFailed(s, err)}
	}
	c := l.e.tlsChecker(l, open)
	var spare net.Conn
	c.OnSpare = func(conn net.Conn) { spare = conn } // there is one further hello
	rep, conn, err := c.Dial(ctx, l.tlsTarget(), l.e.host)
	if err != nil {
		_ = open.Close()
		return outcome{Step: questionFailed(s, err)}
	}
	s.Report = rep
	return outcome{Step: pull.StatusOf(s, rep.Held(), rep.Inconclusive, append(rep.Findings(), l.e.d.rootByHand(rep)...)), conn: conn, spare: spare}
}

// tlsTarget is the address as the TLS report names it; a tunnel has none.
func (l *lane) tlsTarget() netip.AddrPort {
	if l.addr.IsValid() {
		return l.addrPort()
	}
	return netip.AddrPortFrom(l.e.via.through.addr, l.e.via.port)
}
