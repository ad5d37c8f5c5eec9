package engine

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// route is what stands before a host.
type route struct {
	proxy   *url.URL // set when a proxy stands in between
	via     *probe   // the proxy's own
	unknown string   // why nothing is asked; "" = it is
}

// route returns the proxy that the runtime would use for a host, or why it is not known
// what lies behind.
func (s *source) route(ctx context.Context, h *pull.Host) route {
	if h.Role == registry.RoleProxy || h.Role == registry.RoleResolver {
		return route{}
	}
	v := s.image.view
	u, err := v.Proxy(&url.URL{Scheme: h.Scheme, Host: h.HostPort()})
	if err != nil {
		return route{unknown: "the proxy setting cannot be used: " + classify.Redact(err.Error(), 200)}
	}
	if u == nil {
		return route{}
	}
	t, err := pull.TargetOf(u, registry.RoleProxy, v.ProxySource)
	switch {
	case err != nil:
		return route{unknown: "the proxy setting cannot be used: " + err.Error()}
	case u.Scheme != "http" && u.Scheme != "https" && !registry.IsSOCKS(u):
		return route{unknown: "the proxy " + u.Host + " has the scheme " + classify.Redact(u.Scheme, 32) + ", which no runtime speaks to a proxy"}
	}
	s.proxies.Lock()
	defer s.proxies.Unlock()
	proxy := s.run.Find(t)
	if proxy == nil {
		proxy = s.run.Add(ctx, t)
	}
	return route{proxy: u, via: wayOf(proxy).probe}
}

// forwarded reports whether requests are made of the proxy itself, in the absolute
// form, instead of through a tunnel.
func (p *probe) forwarded() bool { return p.proxy != nil && registry.Forward(p.proxy, p.Scheme) }

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
func (p *probe) untunneled(err error) classify.Finding {
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
	conn, err := p.via.dial(ctx)
	switch {
	case err != nil || p.forwarded():
		return conn, err
	case registry.IsSOCKS(p.proxy):
		return registry.SOCKS(ctx, conn, p.proxy, p.HostPort(), p.call.opts.Limits.Header)
	}
	return registry.Connect(ctx, conn, p.proxy, p.HostPort(), p.call.opts.UserAgent, p.call.opts.Limits.Header)
}
