// Package tlsauth checks whether a node trusts a registry and may read from it. It
// verifies a TLS endpoint with the node's own roots ([Checker.CheckTLS]), reads a
// manifest with the credentials that a pull would use ([Checker.CheckAccess]), and
// says which credentials a kubelet tries for an image and why ([Kubelet.Plan]).
//
// # Trust
//
// The handshake itself verifies nothing, so that the chain of an untrusted server is
// seen. The chain is verified right after it with crypto/x509, as a runtime written
// in Go does, and nothing is sent over a connection whose chain did not verify. The
// first problem in the order of crypto/x509 fails: the leaf's dates, its name, the
// path to a root. Further problems of the same chain are warnings.
//
// A chain without a root is explained by what can be proved, then by what names
// suggest; the finding's certainty tells which:
//
//   - tls.ca-misplaced: the chain verifies with a CA that lies on the node where the
//     runtime does not read it. Proven.
//   - tls.missing-intermediate: proven if another endpoint of the pull sent the
//     certificate (see [Seen]), likely or possible if only names point to it.
//   - tls.intercepted: the issuer is by its name an inspection product, a public
//     service has a private issuer, or one unknown issuer signs for hosts of several
//     owners. Never proven.
//   - tls.unknown-authority: everything else.
//
// A certificate out of its dates is judged again with the server's clock; if that
// explains it, the finding is tls.clock-skew. A root that is younger than the
// runtime's process is tls.runtime-not-restarted, which is likely and not proven.
//
// # ClientHello and segments
//
// Since Go 1.24 clients offer X25519MLKEM768, and their ClientHello does not fit into
// one TCP segment. Some middleboxes drop it: route.large-hello-dropped. Each [Hello]
// is therefore sent on a connection of its own. A handshake that stays silent for a
// second is repeated with segments of 1000 bytes; if only those are answered, the path
// loses large packets: route.mtu-black-hole.
//
// # Credentials
//
// The kubelet tries the pull secrets, then the first config.json or .dockercfg of the
// node, then credential provider plugins (k8s.io/kubernetes, pkg/credentialprovider).
// Keys are compared by its rules, which differ from docker's: ports as text, host
// labels one by one as shell patterns, the path as a plain prefix. All keys that match
// are tried, in reverse lexical order; identity tokens and credential helpers are
// ignored. A mirror changes nothing: the image's host is compared.
//
// Which of it a runtime sends is its own matter, see [Offer.ForRuntime]. This package
// starts no process: [Kubelet].RunPlugin is the caller's.
//
// # What is not proved
//
// Revocation is not checked, as no runtime checks it. No missing intermediate is
// fetched. What a token grants is a claim; [AccessReport.Read] alone says that a
// manifest was served. With TLS 1.3 a server may refuse the client certificate after
// CheckTLS. Of a server's chain 16 certificates are looked at. A [Kubelet] says what
// the kubelet would do now, not what it has cached.
//
// No type of this package prints a password, a token, a key, or the arguments and
// variables of a plugin.
//
// Sources: crypto/tls and crypto/x509 of Go 1.26, RFC 5280, RFC 8446, RFC 9525,
// RFC 9110 section 11.6.1, the distribution token specification, authorizer.go of
// containerd, go.podman.io/image.
package tlsauth
