// Package reach looks up the route to one IP address, opens a TCP connection to
// one of its ports, and says where the path ends if that fails.
//
//	report, err := (&reach.Checker{}).Check(ctx, netip.MustParseAddrPort("10.20.0.4:443"))
//
// The zero [Checker] asks the kernel of this machine. An address that cannot be
// reached is a result, with the reason as a [classify.Finding]. An error means
// an invalid argument, or that nothing can be looked at here.
//
// [CheckPath] computes both directions of a path from given route tables and
// security rules, and [CheckPressure] reads how near the kernel is to its limits.
//
// # What a report proves
//
// A unicast route proves that this machine knows where to send the packet, and
// nothing of what happens then. A refusing route ("none", "unreachable",
// "blackhole", "prohibit") proves that an ordinary connection fails before a
// packet leaves; policy routing by port or mark can treat a connection otherwise.
//
// An accepted connection proves both directions for small packets, now, from this
// network namespace. It does not prove that full-sized packets pass, nor that the
// intended host accepted: proxies and firewalls accept, too.
//
// ECONNREFUSED proves an answer in the name of the address. A timeout proves only
// the timeout: the SYN, the host or the answer may be lost, and one end cannot
// tell which. [Connect.ICMP] names who refused, not why. [Report.Inconclusive] says
// what was not decided, as when file descriptors ran out.
//
// After a second without an answer the path is traced with connects of limited hop
// count to the same port. A hop that answers proves that packets get that far and
// that its own answers come back; a silent hop proves nothing. So the finding is the
// timeout ([classify.RouteConnectTimeout]), and a missing way back is an alternative.
//
// # Platforms
//
// On Linux the route comes from the kernel over netlink, with the policy rules
// applied. On macOS and the BSDs the kernel decides by connecting a UDP socket,
// which sends nothing, and the routing table adds the details. Elsewhere the UDP
// socket alone gives the source address or the refusal.
//
// ICMP answers, SYN counts, traces, clamped segments and other network namespaces
// exist on Linux only; only entering a namespace needs privileges (see [System]).
// They need the system's own sockets: with another Dialer the fields stay empty,
// and what was asked for by name returns an error that wraps
// [errors.ErrUnsupported].
package reach
