package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// Route is what stands before a host.
type Route struct {
	Proxy   *url.URL // set when a proxy stands in between
	Via     *Probe   // the proxy's own
	Unknown string   // why nothing is asked; "" = it is
}

// forwarded reports whether requests are made of the proxy itself, in the absolute
// form, instead of through a tunnel.
func (p *Probe) forwarded() bool { return p.Proxy != nil && registry.Forward(p.Proxy, p.Scheme) }

// tunnel is the step that stands for route and connection behind a proxy.
func (a *attempt) tunnel(ctx context.Context) outcome {
	s := pull.Step{ID: pull.StepTunnel}
	if addr, err := netip.ParseAddr(a.probe.Host); err == nil { // the proxy would ask the address on our behalf
		if s, denied := a.denied(s, addr); denied {
			return outcomeOf(s)
		}
	}
	conn, err := a.through(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		s.Status, s.Reason = pull.StatusInconclusive, pull.EndOf(ctx)
	case err != nil:
		s = pull.StatusOf(s, false, "", []classify.Finding{a.probe.untunneled(err)})
	case a.probe.forwarded():
		s.Status, s.Reason = pull.StatusSkipped, "plain http is asked of the proxy itself"
	default:
		s.Status = pull.StatusOK
	}
	return outcome{Outcome: pull.Outcome{Step: s}, conn: conn}
}

// untunneled says to where there is no tunnel: the exchange knows only its peer,
// the proxy.
func (p *Probe) untunneled(err error) classify.Finding {
	f := classify.Error(err)
	var stage *classify.StageError
	if f.Cause != classify.EndpointProxyRefusedConnect || !errors.As(err, &stage) {
		return f
	}
	own := *stage
	own.Endpoint = p.HostPort()
	return classify.Error(&own)
}

// through opens one more connection to what lies behind the proxy.
func (a *attempt) through(ctx context.Context) (net.Conn, error) {
	p := a.probe
	conn, err := p.Via.dial(ctx)
	switch {
	case err != nil || p.forwarded():
		return conn, err
	case registry.IsSOCKS(p.Proxy):
		return registry.SOCKS(ctx, conn, p.Proxy, p.HostPort(), p.by.Limits.Header)
	}
	return registry.Connect(ctx, conn, p.Proxy, p.HostPort(), p.by.UserAgent, p.by.Limits.Header)
}

// Tunnel opens one more way through the proxy.
func (p *Probe) Tunnel(ctx context.Context) (net.Conn, error) {
	if p.Via == nil {
		return nil, errors.New(p.Unknown)
	}
	select {
	case <-p.Via.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if p.Via.through == nil {
		return nil, fmt.Errorf("the proxy is not reached: %s", p.Via.blockedBy)
	}
	conn, _, err := (&attempt{probe: p}).dial(ctx)
	return conn, err
}
