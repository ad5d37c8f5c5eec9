package dnscheck_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing/fstest"

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

func ExampleReadSettings() {
	s := dnscheck.ReadSettings(fstest.MapFS{
		"etc/resolv.conf": {Data: []byte("nameserver 127.0.0.53\nsearch corp.test\noptions ndots:2 timeout:1\n")},
	})
	fmt.Println(s.Nameservers, s.Search, s.NDots, s.TimeoutMS, s.Order)
	// Output: [127.0.0.53:53] [corp.test] 2 1000 [files dns]
}
