package pullwalk

import (
	"net/netip"
	"slices"

	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/pull"
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
