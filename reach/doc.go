// Package reach answers two questions about one IP address: which way would
// this machine send a packet to it, and does a TCP connection to one of its
// ports come about.
//
//	report, err := (&reach.Checker{}).Check(ctx, netip.MustParseAddrPort("10.20.0.4:443"))
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
// lookup on the own link or from a router on the path.
//
// A connection that could not be tried, for want of file descriptors or because
// the caller's context ended, decides nothing: [Report.Inconclusive] says so.
//
// # Platforms
//
// On Linux the route comes from the kernel over netlink, without privileges and
// with the policy rules applied. On macOS and the BSDs the kernel decides by
// connecting a UDP socket (which sends nothing) and the routing table adds
// gateway, interface and MTU. Elsewhere the UDP socket alone gives the source
// address or the refusal. [Route.Method] says which it was.
//
// The network namespace is that of the calling thread, so a caller that locked
// its goroutine to a thread in another namespace looks from there.
package reach
