package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/reach"
)

// pinnedDialer is the node's dialer as a check gets it: the host's name leads to the
// addresses under test, no other name leads anywhere, and what must not be connected to
// is refused.
type pinnedDialer struct {
	host   string
	port   uint16
	addrs  []netip.Addr
	dialer reach.Dialer
	allow  func(netip.AddrPort) error
	// tunnel leads through the proxy; nil = there is none.
	tunnel func(context.Context) (net.Conn, error)
	ended  <-chan struct{} // closed when the check is over

	mu      sync.Mutex
	refused string // why an address was not allowed, the first time
}

// refusal says which address was not allowed; "" = none was asked for.
func (p *pinnedDialer) refusal() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// allowed asks the caller's function, and keeps what it refuses.
func (p *pinnedDialer) allowed(to netip.AddrPort) error {
	err := p.allow(to)
	if err == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused == "" {
		p.refused = classify.Redact(err.Error(), 200)
	}
	return fmt.Errorf("%v is not connected to: %w", to, err)
}

// DialContext is that of [reach.Dialer], with the limits that stand in [Input].
func (p *pinnedDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	select {
	case <-p.ended:
		return nil, errors.New("the check has ended")
	default:
	}
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, net.UnknownNetworkError(network)
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return nil, &net.AddrError{Err: "no port number", Addr: address}
	}
	literal, err := netip.ParseAddr(host)
	isLiteral := err == nil
	if p.tunnel != nil {
		if !strings.EqualFold(host, p.host) || uint16(port) != p.port {
			return nil, fmt.Errorf("only %s is reached through the proxy", pull.HostPort(p.host, p.port))
		}
		if isLiteral { // a proxy would ask the address on our behalf
			if err := p.allowed(netip.AddrPortFrom(literal, uint16(port))); err != nil {
				return nil, err
			}
		}
		return p.tunnel(ctx)
	}
	addrs := p.addrs
	switch {
	case isLiteral:
		addrs = []netip.Addr{literal}
	case !strings.EqualFold(host, p.host):
		return nil, fmt.Errorf("a check at %s looks up no other name", pull.HostPort(p.host, p.port))
	case len(addrs) == 0:
		return nil, fmt.Errorf("the addresses of %s are not known: the check does not need dns", p.host)
	}
	return p.inTurn(ctx, network, addrs, uint16(port))
}

// inTurn connects to the first address that accepts.
func (p *pinnedDialer) inTurn(ctx context.Context, network string, addrs []netip.Addr, port uint16) (net.Conn, error) {
	first := error(&net.AddrError{Err: "no suitable address", Addr: p.host})
	tried := false
	for _, addr := range addrs {
		if is4 := addr.Unmap().Is4(); network == "tcp4" && !is4 || network == "tcp6" && is4 {
			continue
		}
		to := netip.AddrPortFrom(addr, port)
		err := p.allowed(to)
		if err == nil {
			var conn net.Conn
			if conn, err = p.dialer.DialContext(ctx, "tcp", to.String()); err == nil {
				return conn, nil
			}
		}
		if !tried {
			first, tried = err, true
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}
