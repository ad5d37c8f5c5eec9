// Package classify is the dictionary of failed image pulls: which layers a pull
// has, which causes belong to each, who can repair them and what would not help.
// Probes and readers of texts use the same words, so that a fault has the same
// code whether it was seen live or read in an event.
//
// # Vocabulary
//
// A pull climbs layers in a fixed order, see [Order]: node, route, dns, endpoint,
// tls, registry, identity, image. Each is meaningless until the one before
// holds; unknown is a value of its own and never a guess. The climb starts anew
// at every host that the pull touches: mirror, registry, token service, blob
// store, proxy.
//
// A [Cause] is a code, layer "." name, such as "dns.nxdomain". Codes are stable:
// they are added, never renamed, and never change their meaning. Codes that a
// caller makes itself should begin with "x.".
//
// A [Finding] is one thing that is wrong at one endpoint: a cause with the facts
// that were seen, how it is known ([Certainty]) and how much it matters
// ([Severity]). [New] fills in what the code alone decides.
//
// # From the code to the owner and the remedy
//
// The catalogue holds one entry per code; [Lookup] finds it, [Catalogue] lists
// all. Everything in it follows from the code and from nothing else, so it can
// name places to look at ("the return route on the registry's side") but not say
// which of them is at fault. Owner is the team that usually has to act when the
// code is all that is known. For the layer unknown it is the team that can get
// the missing evidence. Remedy goes from the least invasive to the most, and
// NotFixedBy says what people try at this point and why it cannot help, above
// all that a pull happens in the node's network, with the node's resolver and
// trust, before any container exists.
//
// In Look and Remedy, words in capitals are to be replaced: ADDR, HOST, NAME,
// RESOLVER, REG. Commands are meant for a shell in the host's network and mount
// namespace, not for one in a pod. "The runtime" is containerd, CRI-O or Docker
// as a process on the node.
//
// Refines leads from a precise code to the coarser one that a text can show at
// most: texts of Go say "no such host" also for a name that has no address
// record, so "dns.nodata" refines "dns.nxdomain". An event with the coarser code
// and a probe with the finer one agree. The relation may have several steps and
// has no cycles.
//
// # From what the cluster said to a story
//
// [Text] and [Event] read one message: the wrappers of kubelet, gRPC and runtime
// are peeled off, joined attempts are split, damage of the way is undone where
// that is certain, and the innermost cause decides. The host that failed is often
// not the image's. A text shows a coarse code at most, so the finer ones that it
// leaves open stand in Alternatives and the probes that would tell in Decide.
// [ParseEvents] reads what kubectl printed, pods' status included, and [Timeline]
// joins it per image and node: since when, why, what brought it to light, and
// which successes are no proof because nothing was transferred.
//
// # What a finding does not prove
//
// A finding holds for the node, resolver, identity, endpoint and time at which
// it was made. It says nothing of other nodes, not even of the same pool.
//
// [CertaintyProven] means that a probe saw the symptom, not that the catalogue's
// first suspicion is right: a node sees that no answer comes, but not which hop
// dropped the packet, what a rule or a peering contains, or whether a return
// route exists. What only reads like a cause in a text is [CertaintyPossible].
//
// The absence of findings does not prove that an image can be pulled. A cached
// image, a pod that started, or a manifest that was served prove less than they
// seem to: layers come from other hosts, and a node does not ask for what it
// has.
//
// Some codes say, when a probe reports them, that a bound of this library was
// reached or that it refused to go on: endpoint.address-denied,
// endpoint.too-many-hosts, endpoint.response-too-large, image.too-many-layers,
// node.local-limit, identity.plaintext-refused. They leave the question open.
package classify
