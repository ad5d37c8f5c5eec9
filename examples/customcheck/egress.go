package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
)

// egressCheck is a step of the caller's own: connections to the registry must
// leave the node from an address that the registry's firewall lets in. Nobody but
// the caller knows these networks, so no library can ask for it.
//
// It belongs to the layer route: when the source address is wrong, whatever the
// registry says later is a consequence.
func egressCheck(allowed ...netip.Prefix) pullwalk.Check {
	return pullwalk.Check{
		ID:    "corp/egress-source",
		Layer: classify.LayerRoute,
		Roles: []endpoints.Role{endpoints.RoleManifest, endpoints.RoleBlob},
		Needs: []pullwalk.StepID{pullwalk.StepConnect}, // without a connection there is no source address
		Run: func(ctx context.Context, in pullwalk.Input) ([]classify.Finding, error) {
			conn, err := in.Dialer.DialContext(ctx, "tcp", net.JoinHostPort(in.Host, strconv.Itoa(int(in.Port))))
			if err != nil {
				return nil, err // the question could not be asked: the verdict stays open
			}
			defer conn.Close()
			local, err := netip.ParseAddrPort(conn.LocalAddr().String())
			if err != nil {
				return nil, err
			}
			source := local.Addr().Unmap()
			if slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(source) }) {
				return nil, nil // it holds
			}
			f := classify.New("x.egress-source", fmt.Sprintf("connections to %s leave from %v, which is in none of %v", in.Host, source, allowed),
				classify.Fact{Key: classify.FactSource, Value: source.String()})
			f.Owner = classify.OwnerNetwork
			f.Remedy = "Route the node pool through the egress gateway, or add its range to the registry's firewall."
			f.NotFixedBy = "Another pull secret: the registry refuses before it looks at one."
			return []classify.Finding{f}, nil
		},
	}
}
