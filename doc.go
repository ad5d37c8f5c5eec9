// Package pullwalk tells why a node cannot pull an image. [Diagnose] walks the pull as
// the node's container runtime would and returns a [Result]: the first layer that is
// really broken, with host, owner and remedy, and what would prove the repair.
//
//	res, err := pullwalk.Diagnose(ctx, "registry.corp.example/team/app:v1", nil)
//
// [DiagnoseAll] does it for many images of one node at little more than the cost of one,
// [Coverage] holds results of many nodes against the pools that could schedule a
// workload. A failed target is a Result; an error means that the question was invalid.
//
// # The model
//
// A pull touches several endpoints: the registry, perhaps a mirror before it, the token
// server that the registry names, the hosts to which blobs are redirected, perhaps a
// proxy in between. Each is probed in stages: name, route, connection, TLS, request. A
// stage is tried only if the one before held; endpoints are probed side by side. What is
// seen is written down and never changed; named rules then judge it, and each choice of
// theirs is a [Decision]. The first stage that fails on its own, lowest layer first, is
// the root cause, and the cause decides the owner.
//
// The container runtime of the node pulls, in the node's network namespace, before the
// container exists. [Node] is therefore the view of a machine and not of a pod. [Vantage]
// says in every Result who looked from where: it is true for that vantage alone.
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
//   - drift: a change by hand, on this node alone, that takes part in the pull. It
//     makes a [Proof] worthless for the node's pool.
//   - proved, failed, not-probed, open, hand-repaired, long-lived, already-stored:
//     what is known of a pool, see [CoverageState].
//
// # Use
//
// A step of the caller's own is a [Check]; [Options.Rounds] shows how often a path fails
// that fails now and then. The probes work alone, too: package reach (route and connect),
// dnscheck (every nameserver), endpoints (all hosts of a pull), tlsauth (trust and
// identity). Package classify is the catalogue of causes, and reads live errors and event
// texts into it.
//
// # What is not proved
//
// Not that another node can pull: each pool that could schedule the workload
// needs its own proof, from a node that nobody repaired by hand; [Coverage] says
// which have one. Not that the application reaches its backend, which is another
// network, later. Not who is right about a firewall: which box drops a packet
// cannot be seen from a node.
package pullwalk
