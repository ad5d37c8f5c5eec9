package pullwalk

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// Hosts returns every host:port that the pull touches: the list that the owner
// of a firewall needs. Those of the sandbox image are in it, with the role sandbox;
// nameservers are not.
func (r *Result) Hosts() []HostUse {
	var out []HostUse
	add := func(s Source, also ...endpoints.Role) {
		for _, e := range s.Endpoints {
			if e.Scheme == pull.SchemeDNS {
				continue
			}
			u := HostUse{Host: e.HostPort(), Scheme: e.Scheme, Roles: e.Roles, Via: e.Via, Hint: e.Hint, Addresses: e.addresses()}
			for _, role := range also {
				if !slices.Contains(u.Roles, role) {
					u.Roles = append(slices.Clone(u.Roles), role)
				}
			}
			u.Private = len(u.Addresses) > 0 && !slices.ContainsFunc(u.Addresses, func(a netip.Addr) bool { return !a.IsPrivate() && !a.IsLoopback() })
			if i := slices.IndexFunc(out, func(h HostUse) bool { return h.Host == u.Host && h.Scheme == u.Scheme }); i >= 0 {
				out[i].Hint = out[i].Hint && u.Hint
				for _, role := range u.Roles {
					if !slices.Contains(out[i].Roles, role) {
						out[i].Roles = append(slices.Clone(out[i].Roles), role)
					}
				}
				continue
			}
			out = append(out, u)
		}
	}
	for _, s := range r.Sources {
		add(s)
	}
	if r.Sandbox != nil {
		for _, s := range r.Sandbox.Sources {
			add(s, endpoints.RoleSandbox)
		}
	}
	return out
}

// HostPort returns host:port.
func (e Endpoint) HostPort() string {
	return pull.HostPort(e.Host, e.Port)
}

func (e Endpoint) addresses() []netip.Addr {
	if a, err := netip.ParseAddr(e.Host); err == nil {
		return []netip.Addr{a}
	}
	for _, s := range e.Steps {
		if s.DNS != nil {
			return s.DNS.Addresses
		}
	}
	return nil
}

// splitHostPort reads host or host:port; the port is 443 if it is not said.
func splitHostPort(s string) (host string, port uint16, err error) {
	host, p, err := net.SplitHostPort(s)
	if err != nil {
		host, p = s, "443"
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 || host == "" || strings.ContainsAny(host, "/@?# ") {
		return "", 0, fmt.Errorf("%q is no host:port", s)
	}
	return host, uint16(n), nil
}

// DenyPlatformAddrs is the default of Options.AllowAddr. It refuses link-local
// and multicast addresses, and those at which a cloud platform hands out
// credentials and settings: 168.63.129.16 except port 53, 100.100.100.200,
// fd00:ec2::254, fd20:ce::254 and fd00:c1::a9fe:a9fe. A registry that names such an address as its token server or
// blob host would otherwise make whoever runs a diagnosis ask it on the
// registry's behalf. Private ranges are allowed: they are the use case.
func DenyPlatformAddrs(ap netip.AddrPort) error { return registry.DenyPlatform(ap) }
