// Package pullwalk says why a node cannot pull an image: which layer is the
// first that is really broken, who owns it, and what would prove the repair.
//
// # The model
//
// A pull is a walk over several endpoints: the registry, perhaps a mirror before
// it, the token server that the registry names, the hosts to which blobs are
// redirected, perhaps a proxy in between. At each endpoint the node climbs the
// same ladder: name, route, connection, TLS, request. A rung is tried only when
// the rungs that it needs hold; other endpoints go on meanwhile. The first rung
// that fails on its own, lowest layer first, is the root cause, and the cause
// decides the owner.
//
// The image is pulled by the container runtime of the node, in the node's network
// namespace, before the container exists. That is why [Node] is the view of a
// machine and not of a pod, and why [Vantage] says in every [Result] who looked
// from where: a result is true for that vantage and for no other.
//
// # Words of a verdict
//
//   - ok: every needed step was seen to work. After [Touch] that means "every hop
//     held". Only a [Proof], which takes [Complete], says that the image can be
//     pulled.
//   - degraded: it works, with a warning that will hurt one day.
//   - failed: a needed step was seen to fail, and nothing made up for it.
//   - inconclusive: nothing failed, but something needed could not be seen from
//     here. The reason is given; it is never a guess.
//
// A step has two more. One that was not tried because another failed is blocked,
// and names that one. One that does not apply here, or that nobody asked for, is
// skipped, and says why.
//
// A cause, such as tls.unknown-authority, is a layer and a name. The layers stand
// in [classify.Order], from the node's own configuration up to the image's content,
// the teams that own causes at [classify.Owner]. A finding is proven where a probe
// saw it, likely where what was seen leaves one probable reading, possible where
// only a text says so or several readings are left ([classify.Certainty]).
//
//   - hint: a host that pulls like this one are expected to touch, by the caller
//     or by what is known of the provider, and that this one was not seen to. What
//     is wrong there warns and fails nothing.
//   - round: one of several lookups of a name or connects to an address, see
//     [Options].Rounds.
//   - sandbox: the pause image, which the runtime pulls by itself before any pod
//     starts, see [Sandbox].
//   - hand edit: a change on this node alone that takes part in the pull. It makes
//     a [Proof] worthless for the node's pool.
//   - proved, failed, not-probed, open, hand-repaired, long-lived, already-stored:
//     what is known of a pool, see [CoverageState].
//
// # Use
//
// [Diagnose] does everything, [DiagnoseAll] for many images of one node at little
// more than the cost of one. What only the caller's company knows of a pull is added
// as a [Check], a rung like any other; [Options.Rounds] shows how often a path fails
// that fails now and then. The probes work alone, too: package reach (route
// and connect), dnscheck (every nameserver), endpoints (the walk), tlsauth
// (trust and identity). Package classify is the dictionary of causes, and reads
// live errors and event texts into it.
//
// A failed target is a Result. An error means that the question made no sense.
//
// # What is not proved
//
// Not that another node can pull: each pool that could schedule the workload
// needs its own proof, from a node that nobody repaired by hand; [Coverage] says
// which have one. Not that the application reaches its backend, which is another
// network, later. Not who is right about a firewall: which box drops a packet
// cannot be seen from a node.
package pullwalk
