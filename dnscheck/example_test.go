package dnscheck_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing/fstest"
	"time"

	"github.com/pullwalk/pullwalk/dnscheck"
)

// A node whose first nameserver refuses it: the runtime gets its answer from the
// second, and the report says what is wrong with the first.
func ExampleChecker_Check() {
	node := fstest.MapFS{
		"etc/resolv.conf": {Data: []byte("nameserver 10.20.0.4\nnameserver 10.20.0.5\n")},
	}
	scripted := dnscheck.ExchangerFunc(func(_ context.Context, server netip.AddrPort, _ string, q dnscheck.Question) (dnscheck.Answer, error) {
		if server.Addr() == netip.MustParseAddr("10.20.0.4") {
			return dnscheck.Answer{RCode: "REFUSED"}, nil
		}
		if q.Type == "AAAA" {
			return dnscheck.Answer{RCode: "NOERROR", RecursionAvailable: true}, nil
		}
		return dnscheck.Answer{RCode: "NOERROR", Addresses: []netip.Addr{netip.MustParseAddr("10.20.0.9")}}, nil
	})

	c := dnscheck.Checker{FS: node, Exchanger: scripted}
	report, err := c.Check(context.Background(), "registry.corp.test")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Held(), report.Addresses, "from", report.Answered)
	for _, f := range report.Findings() {
		fmt.Println(f.Severity, f.Cause, "-", f.Summary)
	}
	// Output:
	// true [10.20.0.9] from 10.20.0.5:53
	// warn dns.refused - Nameserver 10.20.0.4:53, asked for A and AAAA of registry.corp.test, answered REFUSED.
}

// A line in the hosts file makes the pull work on this node alone.
func ExampleChecker_Check_hosts() {
	node := fstest.MapFS{
		"etc/resolv.conf": {Data: []byte("nameserver 10.20.0.4\n")},
		"etc/hosts":       {Data: []byte("127.0.0.1 localhost\n10.20.0.9 registry.corp.test\n")},
	}
	scripted := dnscheck.ExchangerFunc(func(context.Context, netip.AddrPort, string, dnscheck.Question) (dnscheck.Answer, error) {
		return dnscheck.Answer{RCode: "NXDOMAIN"}, nil
	})

	c := dnscheck.Checker{FS: node, Exchanger: scripted}
	report, err := c.Check(context.Background(), "registry.corp.test")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Held(), "from", report.From)
	for _, f := range report.Findings() {
		fmt.Println(f.Severity, f.Cause, "-", f.Summary)
	}
	// Output:
	// true from hosts
	// warn dns.hosts-override - The runtime takes 10.20.0.9 for registry.corp.test from /etc/hosts:2, a line on this node alone; DNS does not know the name.
}

// The second nameserver never answers. What the runtime gets is known at once, and
// a caller can go on while the silence is still being proven.
func ExampleChecker_onDecided() {
	node := fstest.MapFS{
		"etc/resolv.conf": {Data: []byte("nameserver 10.20.0.4\nnameserver 10.20.0.5\n")},
	}
	scripted := dnscheck.ExchangerFunc(func(ctx context.Context, server netip.AddrPort, _ string, _ dnscheck.Question) (dnscheck.Answer, error) {
		if server.Addr() == netip.MustParseAddr("10.20.0.5") {
			<-ctx.Done()
			return dnscheck.Answer{}, ctx.Err()
		}
		return dnscheck.Answer{RCode: "NOERROR", Addresses: []netip.Addr{netip.MustParseAddr("10.20.0.9")}}, nil
	})

	c := dnscheck.Checker{FS: node, Exchanger: scripted, Limit: 50 * time.Millisecond}
	c.OnDecided = func(early *dnscheck.Report) { fmt.Println("early:", early.Usable()) }
	report, err := c.Check(context.Background(), "registry.corp.test")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range report.Findings() {
		fmt.Println(f.Severity, f.Cause)
	}
	// Output:
	// early: [10.20.0.9]
	// warn dns.resolver-timeout
}

// A registry with a private endpoint whose data endpoint was forgotten in the
// private zone: found from what the Azure CLI prints, without a node.
func ExampleGiven_Judge() {
	const network = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/nodes"
	const zone = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/privateDnsZones/privatelink.azurecr.io"
	var given dnscheck.Given
	for _, printed := range []string{
		`[{"id": "` + network + `", "name": "nodes", "addressSpace": {"addressPrefixes": ["10.20.0.0/16"]}}]`,
		`[{"id": "` + zone + `/virtualNetworkLinks/nodes", "virtualNetwork": {"id": "` + network + `"}, "virtualNetworkLinkState": "Completed"}]`,
		`[{"id": "` + zone + `/A/contoso", "name": "contoso", "aRecords": [{"ipv4Address": "10.20.1.5"}]}]`,
	} {
		if err := given.AddAzure([]byte(printed)); err != nil {
			fmt.Println(err)
			return
		}
	}
	report, err := given.Judge("nodes", []string{"contoso.azurecr.io", "contoso.westeurope.data.azurecr.io"}, time.Time{}, time.Time{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range report.Hosts {
		fmt.Println(h.Name, h.View, h.Addresses)
	}
	for _, f := range report.Findings() {
		fmt.Println(f.Severity, f.Cause, "-", f.Summary)
	}
	// Output:
	// contoso.azurecr.io private [10.20.1.5]
	// contoso.westeurope.data.azurecr.io nxdomain []
	// fail dns.private-zone-empty - Zone privatelink.azurecr.io is linked to network nodes and has no record contoso.westeurope.data, so that contoso.westeurope.data.azurecr.io does not exist for its nodes.
}

func ExampleReadSettings() {
	node := fstest.MapFS{
		"etc/resolv.conf": {Data: []byte("nameserver 127.0.0.53\nsearch corp.test\noptions ndots:2 timeout:1\n")},
	}
	s := dnscheck.ReadSettings([]dnscheck.Source{{Name: "node", FS: node}})
	fmt.Println(s.Nameservers, s.Search, s.NDots, s.TimeoutMS, s.Order)
	// Output: [127.0.0.53:53] [corp.test] 2 1000 [files dns]
}
