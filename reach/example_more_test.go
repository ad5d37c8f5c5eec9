package reach_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing/fstest"

	"github.com/pullwalk/pullwalk/reach"
)

// The hub knows the way to the registry behind its VPN gateway; nobody told the
// other side the way to the new node subnet. The table of the node's interface
// comes from the Azure CLI, that of the other side was written by its owner.
func ExampleCheckPath() {
	forward, err := reach.ParseAzureRoutes(strings.NewReader(`{"value": [
	  {"addressPrefix": ["10.40.0.0/16"], "nextHopIpAddress": [], "nextHopType": "VnetLocal", "source": "Default", "state": "Active"},
	  {"addressPrefix": ["10.20.0.0/16"], "nextHopIpAddress": ["10.60.0.4"], "nextHopType": "VirtualNetworkGateway", "source": "VirtualNetworkGateway", "state": "Active"},
	  {"addressPrefix": ["0.0.0.0/0"], "nextHopIpAddress": [], "nextHopType": "Internet", "source": "Default", "state": "Active"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	back, err := reach.ParseCSVRoutes(strings.NewReader("prefix,hop,address\n10.20.0.0/16,local,\n10.30.0.0/16,gateway,10.20.255.1\n0.0.0.0/0,internet,\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := reach.CheckPath(
		&reach.Table{Name: "aks-nodes", Routes: forward}, &reach.Table{Name: "registry", Routes: back},
		netip.MustParseAddr("10.40.0.7"), netip.MustParseAddrPort("10.20.0.4:443"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("there:", report.Forward.Route.Route)
	fmt.Println("back:", report.Back.Route.Route)
	for _, f := range report.Findings() {
		fmt.Println(f.Cause, f.Owner)
		fmt.Println(f.Summary)
	}
	// Output:
	// there: 10.20.0.0/16 -> gateway 10.60.0.4 (bgp)
	// back: 0.0.0.0/0 -> internet
	// route.no-return-route network
	// the table registry has no way back to the node 10.40.0.7: its route leads to the Internet, 0.0.0.0/0 -> internet; the way there goes by gateway, so this is one way only (gateway transit, propagation)
}

// All traffic has to pass the approved firewall. A peering that somebody added
// is more specific and goes round it.
func ExampleCheckPath_intended() {
	nodes := &reach.Table{Routes: []reach.TableRoute{
		{Prefix: netip.MustParsePrefix("0.0.0.0/0"), NextHop: reach.NextHop{Kind: "appliance", Address: netip.MustParseAddr("10.60.0.4")}, Source: "user"},
		{Prefix: netip.MustParsePrefix("10.20.0.0/16"), NextHop: reach.NextHop{Kind: "peering"}, Source: "default"},
	}}
	report, err := reach.CheckPath(nodes, nil, netip.MustParseAddr("10.40.0.7"), netip.MustParseAddrPort("10.20.0.4:443"),
		reach.NextHop{Kind: "appliance", Address: netip.MustParseAddr("10.60.0.4")})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range report.Findings() {
		fmt.Println(f.Cause, "-", f.Summary)
	}
	fmt.Println("open:", report.Inconclusive)
	// Output:
	// route.unintended-next-hop - the node's table sends 10.20.0.4 to peering instead of appliance 10.60.0.4: 10.20.0.0/16 is more specific than 0.0.0.0/0
	// open: the way back is unknown: no table of the registry's side was given
}

// What the security groups of subnet and interface do with a connection.
func ExampleParseAzureRules() {
	rules, err := reach.ParseAzureRules(strings.NewReader(`{"value": [{
	  "association": {"subnet": {"id": "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/v/subnets/nodes"}},
	  "networkSecurityGroup": {"id": "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/networkSecurityGroups/nsg-nodes"},
	  "effectiveSecurityRules": [
	    {"name": "securityRules/allow-registry", "priority": 400, "access": "Allow", "direction": "Outbound", "protocol": "Tcp",
	     "sourceAddressPrefix": "10.40.0.0/16", "destinationAddressPrefix": "10.20.0.4/32", "destinationPortRange": "443-443"},
	    {"name": "securityRules/deny-private", "priority": 300, "access": "Deny", "direction": "Outbound", "protocol": "All",
	     "sourceAddressPrefix": "0.0.0.0/0", "destinationAddressPrefix": "10.0.0.0/8", "destinationPortRange": "0-65535"}]}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	decision := (&reach.Table{Rules: rules}).Allows("out", "tcp", netip.MustParseAddr("10.40.0.7"), netip.MustParseAddrPort("10.20.0.4:443"))
	fmt.Println(decision.Decided, decision.Allowed, decision.Rule.Group)
	fmt.Println(decision.Reason)
	// Output:
	// true false nsg-nodes on subnet nodes
	// rule "securityRules/deny-private" (priority 300) denies it
}

func ExampleParseLinuxRoutes() {
	routes, err := reach.ParseLinuxRoutes(strings.NewReader(`[
	  {"dst":"default","gateway":"10.40.0.1","dev":"eth0","protocol":"dhcp","metric":100,"flags":[]},
	  {"dst":"172.17.0.0/16","dev":"docker0","protocol":"kernel","scope":"link","prefsrc":"172.17.0.1","flags":[]}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	d := (&reach.Table{Routes: routes}).RouteFor(netip.MustParseAddr("172.17.3.4"))
	fmt.Println(d.Route, "by", d.Route.Interface)
	fmt.Println(d.Reason)
	// Output:
	// 172.17.0.0/16 -> local (proto kernel) by docker0
	// 172.17.0.0/16 is more specific than 0.0.0.0/0
}

// An agent reads the host's files where they are mounted; this is such a tree.
func ExampleCheckPressure() {
	host := fstest.MapFS{
		"proc/sys/net/netfilter/nf_conntrack_count": {Data: []byte("262144\n")},
		"proc/sys/net/netfilter/nf_conntrack_max":   {Data: []byte("262144\n")},
	}
	for _, f := range reach.CheckPressure(host).Findings() {
		fmt.Println(f.Severity, f.Summary)
	}
	// Output:
	// fail 262144 of 262144 entries of the connection tracking table are in use on this machine
}

// An agent looks from the place of the runtime's process, if that has another
// network namespace than the agent's own.
func ExampleSystem() {
	from := reach.System{Namespace: "/run/netns/not-there"} // mostly /proc/PID/ns/net
	c := &reach.Checker{Router: from, Dialer: from}
	report, err := c.Check(context.Background(), netip.MustParseAddrPort("192.0.2.4:443"))
	if err != nil {
		fmt.Println(err)
		return
	}
	// There is no such place here, which says nothing of the registry.
	fmt.Println(report.Held(), len(report.Findings()), report.Inconclusive != "")
	// Output:
	// false 0 true
}
