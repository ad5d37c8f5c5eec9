package pullwalk

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// approach is what stands before an endpoint.
type approach struct {
	proxy   *url.URL
	via     *ladder
	unknown string
}

// approach returns the proxy that the runtime would use for t, or why it is not
// known what lies behind. The caller holds s.mu.
func (s *source) approach(ctx context.Context, t target) approach {
	u, err := s.d.view.Proxy(&url.URL{Scheme: t.scheme, Host: t.hostPort()})
	if err != nil {
		return approach{unknown: "the proxy setting cannot be used: " + classify.Redact(err.Error(), 200)}
	}
	if u == nil {
		return approach{}
	}
	pt, err := targetOf(u, endpoints.RoleProxy, s.d.view.proxySource)
	switch {
	case err != nil:
		return approach{unknown: "the proxy setting cannot be used: " + err.Error()}
	case u.Scheme != "http" && u.Scheme != "https" && !registry.IsSOCKS(u):
		return approach{unknown: "the proxy " + u.Host + " has the scheme " + classify.Redact(u.Scheme, 32) + ", which no runtime speaks to a proxy"}
	}
	e := s.find(pt)
	if e == nil {
		e = s.newEndpoint(pt)
		s.endpoints = append(s.endpoints, e)
		s.climb(ctx, e, approach{}, (*ladder).climb)
		s.startChecks(ctx, e, pt)
	}
	return approach{proxy: u, via: e.ladder}
}

// forwarded says that requests for e are made of the proxy itself, in the absolute
// form, instead of through a tunnel.
func (e *ladder) forwarded() bool { return e.proxy != nil && registry.Forward(e.proxy, e.scheme) }

// tunnel is the rung that stands for route and connection behind a proxy.
func (l *lane) tunnel(ctx context.Context) outcome {
	s := pull.Step{ID: StepTunnel}
	if addr, err := netip.ParseAddr(l.e.host); err == nil { // the proxy would ask the address on our behalf
		if s, denied := l.denied(s, addr); denied {
			return outcome{Step: s}
		}
	}
	conn, err := l.through(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		s.Status, s.Reason = StatusInconclusive, reasonOf(ctx)
	case err != nil:
		s = pull.StatusOf(s, false, "", []classify.Finding{l.e.untunneled(err)})
	case l.e.forwarded():
		s.Status, s.Reason = StatusSkipped, "plain http is asked of the proxy itself"
	default:
		s.Status = StatusOK
	}
	return outcome{Step: s, conn: conn}
}

// untunneled says to where there is no tunnel: the exchange knows only its peer,
// the proxy.
func (e *ladder) untunneled(err error) classify.Finding {
	f := classify.Error(err)
	var stage *classify.StageError
	if f.Cause != classify.EndpointProxyRefusedConnect || !errors.As(err, &stage) {
		return f
	}
	own := *stage
	own.Endpoint = e.hostPort()
	return classify.Error(&own)
}

// through opens one more connection to what lies behind the proxy.
func (l *lane) through(ctx context.Context) (net.Conn, error) {
	e := l.e
	conn, err := e.via.open(ctx)
	switch {
	case err != nil || e.forwarded():
		return conn, err
	case registry.IsSOCKS(e.proxy):
		return registry.SOCKS(ctx, conn, e.proxy, e.hostPort(), e.d.limits.Header)
	}
	return registry.Connect(ctx, conn, e.proxy, e.hostPort(), e.d.userAgent, e.d.limits.Header)
}

// blamesProxy says that a finding is about the proxy in between and not about the
// host behind it.
func (e *ladder) blamesProxy(id StepID, f classify.Finding) bool {
	if e.via == nil || f.Cause == classify.EndpointAddressDenied {
		return false
	}
	return id == StepTunnel || f.Cause == classify.EndpointProxyAuthRequired || f.Cause == classify.EndpointProxyRefusedConnect
}
