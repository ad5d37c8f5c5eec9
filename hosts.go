package pullwalk

import (
	"net/netip"
	"slices"
)

// Hosts returns every host:port that the pull touches: the list that the owner
// of a firewall needs. Nameservers are not in it.
func (r *Result) Hosts() []HostUse {
	var out []HostUse
	for _, s := range r.Sources {
		for _, e := range s.Endpoints {
			if e.Scheme == schemeDNS {
				continue
			}
			u := HostUse{Host: e.HostPort(), Scheme: e.Scheme, Roles: e.Roles, Via: e.Via, Addresses: e.addresses()}
			u.Private = len(u.Addresses) > 0 && !slices.ContainsFunc(u.Addresses, func(a netip.Addr) bool { return !a.IsPrivate() && !a.IsLoopback() })
			if i := slices.IndexFunc(out, func(h HostUse) bool { return h.Host == u.Host && h.Scheme == u.Scheme }); i >= 0 {
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
	return out
}

// HostPort returns host:port.
func (e Endpoint) HostPort() string {
	return target{host: e.Host, port: e.Port}.hostPort()
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
