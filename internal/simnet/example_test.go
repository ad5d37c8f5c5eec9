package simnet_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/simnet"
	"github.com/pullwalk/pullwalk/reach"
)

// A registry whose private name is unknown to the node's resolver, and whose
// port is closed. Nothing here waits, so the example needs no bubble; a test
// that meets silence does.
func Example() {
	n := simnet.New()
	defer n.Close()
	resolver := netip.MustParseAddrPort("10.20.0.53:53")
	registry := netip.MustParseAddrPort("10.20.0.4:443")
	n.Route(netip.MustParsePrefix("10.20.0.0/16"), reach.Route{Interface: "eth0", OnLink: true})
	n.Zone(resolver).Add("auth.corp.test", netip.MustParseAddr("10.20.0.6"))
	n.Refuse(registry)

	ctx := context.Background()
	answer, _ := n.Exchanger().Exchange(ctx, resolver, "udp", dnscheck.Question{Name: "registry.corp.test", Type: "A"})
	fmt.Println(answer.RCode)
	_, err := n.Dialer().DialContext(ctx, "tcp", registry.String())
	fmt.Println(err)
	route, _ := n.Router().RouteTo(ctx, netip.MustParseAddr("10.30.0.4"))
	fmt.Println(route.Kind)
	fmt.Println(len(n.Questions()), "question,", len(n.Dials()), "dial")
	// Output:
	// NXDOMAIN
	// dial tcp 10.20.0.4:443: connect: connection refused
	// none
	// 1 question, 1 dial
}
