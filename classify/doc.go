// Package classify turns a failed image pull into a cause with a stable code, the
// team that owns it, what repairs it and what would not help.
//
// [Error] reads a live Go error, [Text] and [Event] read what a kubelet or a
// runtime printed, [ParseEvents] and [Timeline] read a whole list of events. All
// give a [Finding] with a [Cause], so that a fault has the same code whether it
// was seen live or read in an event. [Lookup] finds what the catalogue knows of a
// code, [Catalogue] lists all codes.
//
// # Vocabulary
//
// A pull needs layers in a fixed order, see [Order]; each is meaningless until the
// one before holds. The order starts anew at every host of the pull: mirror,
// registry, token service, blob store, proxy. Unknown is a layer, never a guess.
// A cause is a code, layer "." name, such as "dns.nxdomain". Codes are added,
// never renamed, and never change their meaning. A caller's own begin with "x.".
//
// # The catalogue
//
// An entry follows from its code alone. It names places to look at, but cannot say
// which of them is at fault. Owner is the team that usually has to act; for the
// layer unknown, the team that can get the missing evidence. Remedy begins with
// the least invasive. NotFixedBy says what people try and why it cannot help,
// above all that a pull happens in the node's network, with the node's resolver
// and trust, before any container exists. Words in capitals are to be replaced:
// ADDR, HOST, NAME, RESOLVER, REG. Commands are for a shell in the host's network
// and mount namespace, not in a pod. "The runtime" is containerd, CRI-O or Docker
// as a process on the node.
//
// Refines leads from a precise code to the coarser one that a text can show at
// most: Go says "no such host" also for a name without an address record, so
// "dns.nodata" refines "dns.nxdomain". The relation has no cycles.
//
// # What a finding does not prove
//
// A finding holds for the node, resolver, identity, endpoint and time at which it
// was made, and for no other node of the pool. [CertaintyProven] means that a
// probe saw the symptom: that no answer came, not which hop dropped the packet.
// What only reads like a cause in a text is [CertaintyPossible]; Alternatives has
// the other readings and Decide the probes that tell them apart.
//
// No finding does not prove that an image can be pulled. A cached image, a pod
// that started or a manifest that was served prove little: layers come from other
// hosts, and a node does not ask for what it has. Some codes only say that a
// bound of this library was reached: endpoint.address-denied,
// endpoint.too-many-hosts, endpoint.response-too-large, image.too-many-layers,
// node.local-limit, identity.plaintext-refused.
//
// # Where a new cause goes
//
// Its code stands in causes.go, its entry in the catalogue file of its layer,
// sorted by code, and its summary in sentence.go. The words by which a text shows
// it stand in a words file; a type or error number is read in error.go, tls.go or
// errno.go, a status in answer.go. A test has to produce it.
package classify
