package reach_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/pullwalk/pullwalk/reach"
)

// A registry whose firewall rejects this node. The zero Checker would ask the
// kernel; the script stands in for it here.
func ExampleChecker_Check() {
	c := &reach.Checker{
		Router: reach.RouterFunc(func(_ context.Context, dst netip.Addr) (reach.Route, error) {
			return reach.Route{
				Destination: dst, Kind: reach.RouteUnicast, Interface: "eth0",
				Source: netip.MustParseAddr("10.1.0.7"), Gateway: netip.MustParseAddr("10.1.0.1"),
			}, nil
		}),
		Dialer: reach.DialerFunc(func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}),
	}
	report, err := c.Check(context.Background(), netip.MustParseAddrPort("10.20.0.4:443"))
	if err != nil {
		fmt.Println(err) // no TCP destination
		return
	}
	fmt.Println("held:", report.Held())
	fmt.Println("sent by:", report.Route.Interface, "to", report.Route.Gateway)
	fmt.Println("answer:", report.Connect.Errno)
	for _, f := range report.Findings() {
		fmt.Println(f.Cause, "at", f.Endpoint)
	}
	// Output:
	// held: false
	// sent by: eth0 to 10.1.0.1
	// answer: ECONNREFUSED
	// endpoint.connection-refused at 10.20.0.4:443
}

// A refusing route is a result, not an error.
func ExampleChecker_CheckRoute() {
	c := &reach.Checker{Router: reach.RouterFunc(func(_ context.Context, dst netip.Addr) (reach.Route, error) {
		return reach.Route{Destination: dst, Kind: reach.RouteNone}, nil
	})}
	report, err := c.CheckRoute(context.Background(), netip.MustParseAddr("2001:db8::4"))
	fmt.Println(err, report.Held())
	for _, f := range report.Findings() {
		fmt.Println(f.Error())
	}
	// Output:
	// <nil> false
	// route.ipv6-unreachable at 2001:db8::4: this machine has no IPv6 route to 2001:db8::4
}

// The open connection serves the next step, so that the address under test is
// the one that is used.
func ExampleChecker_Connect() {
	c := &reach.Checker{Dialer: reach.DialerFunc(func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			fmt.Fprint(far, "hello")
			far.Close()
		}()
		return near, nil
	})}
	report, conn, err := c.Connect(context.Background(), netip.MustParseAddrPort("10.20.0.4:443"))
	if err != nil || conn == nil {
		fmt.Println(err, report)
		return
	}
	defer conn.Close()
	word := make([]byte, 5)
	n, _ := conn.Read(word)
	fmt.Println(report.Held(), string(word[:n]))
	// Output:
	// true hello
}
