// Package reach answers questions about one IP address: which way would this
// machine send a packet to it, does a TCP connection to one of its ports come
// about, and if not, where does it end.
//
//	report, err := (&reach.Checker{}).Check(ctx, netip.MustParseAddrPort("10.20.0.4:443"))
//
// Beyond that it says where silence begins ([Checker.Trace]), whether large
// packets vanish ([Checker.CheckMTU]), how near the kernel is to its limits
// ([CheckPressure]), and what given route tables and security rules do with both
// directions of a path ([CheckPath]).
//
// The zero [Checker] asks the kernel of this machine. A target that cannot be
// reached is a result, with the reason as a [classify.Finding]; an error means
// that the question made no sense or that nothing could be looked at.
//
// # What each verdict proves
//
// A route of kind "unicast" proves that this machine knows where to send the
// packet, and nothing about what happens then: the next hop may be dead, a
// firewall may drop the packet, and whether the answer finds its way back is
// decided by other machines. It is one direction of the path, seen from one
// end.
//
// A refusing route ("none", "unreachable", "blackhole", "prohibit") proves that
// an ordinary connection from this machine fails before any packet leaves it.
// Two limits remain. Where routes are chosen by more than the destination
// (protocol, port, firewall mark), the lookup of the bare address can differ
// from what a connection gets. And of several equal next hops, the lookup shows
// the one that the kernel picked for this lookup.
//
// An accepted connection proves both directions for small packets, at this
// moment, from this machine's network namespace: the SYN arrived and its answer
// came back. It does not prove that full-sized packets pass (a path that loses
// those still connects), that the other side is the one that was meant (a
// transparent proxy accepts too), or that it speaks TLS or HTTP.
//
// A refused connection ("ECONNREFUSED") proves that something answered for that
// address: the host, or a firewall in its name. Silence until the limit proves
// only the silence. The SYN may have been dropped on the way, the host may be
// gone, or its answer may have been lost on the way back; one end alone cannot
// tell these apart. "EHOSTUNREACH" while connecting comes from the neighbour
// lookup on the own link or from a router on the path; on Linux
// [Connect.ICMP] says which.
//
// A connection that could not be tried, for want of file descriptors or because
// the caller's context ended, decides nothing: [Report.Inconclusive] says so.
//
// An ICMP answer ([Connect.ICMP]) names who refused. From another address than
// the target it proves that the packet got as far as that device, and which kind
// of refusal it chose; why, only its owner knows. "host-unreachable" after three
// seconds means that the last router found nobody; at once, it is a rule or a
// route. An answer marked Own is this machine's: its own link is silent.
//
// A connection that is reset or closed while it is watched ([Checker.Watch])
// proves that something in the target's name accepted it, and not that the
// target did: balancers and firewalls accept before they know whether they can
// deliver. Without a watch nothing is said of what follows the accept.
//
// # What a trace proves
//
// After a second of silence, or a refusal by a router, the way is traced with
// connects of limited hop count to the same port. A hop that answers proves that
// packets get as far as that and that its own answers come back. A silent hop
// proves nothing. From one end it cannot be seen whether the target's answer has
// no way back ([classify.RouteReturnPathSuspected]) or a filter drops in
// silence. So the finding is the silence that was seen
// ([classify.RouteConnectTimeout]), the missing way back is another reading of
// it, and the facts say what would tell: another door of the same address that
// answers proves that a way back exists (then it is the port); a capture on the
// registry's side, or a connect from another source address, decides the rest.
//
// # What the size of packets proves
//
// [Checker.CheckMTU] repeats an exchange with clamped segments. Only an exchange
// that is silent as usual, twice, and works with smaller segments is a black hole
// ([classify.RouteMTUBlackHole]); the limit lies between the two sizes in the
// report. A smaller exchange that works where the larger one fails at any segment
// size is a device that cannot take a large ClientHello
// ([classify.RouteLargeHelloDropped]). Everything else is not a matter of size,
// as far as one end can see.
//
// # What given tables prove
//
// [CheckPath] says what configuration does with the packets of a pull and with
// the answers. It saw no packet: tables can be old, and devices that stand in
// none of them may drop. Without a table of the way back that half is unknown,
// and the report says so.
//
// # Platforms
//
// On Linux the route comes from the kernel over netlink, without privileges and
// with the policy rules applied. On macOS and the BSDs the kernel decides by
// connecting a UDP socket (which sends nothing) and the routing table adds
// gateway, interface and MTU. Elsewhere the UDP socket alone gives the source
// address or the refusal. [Route.Method] says which it was.
//
// ICMP answers, SYN counts, traces, clamped segments and other network
// namespaces exist on Linux only. None of it needs privileges, except to enter
// another namespace. Elsewhere, and with a Dialer whose sockets are not ours, the
// fields stay empty, and what was asked for by name returns an error that wraps
// [errors.ErrUnsupported]. A watch after the accept works everywhere but on
// Windows.
//
// The network namespace is that of the calling thread, so a caller that locked
// its goroutine to a thread in another namespace looks from there. A [System]
// with a path looks from that namespace, whatever the thread. [System.Vantage]
// says whose it is.
package reach
