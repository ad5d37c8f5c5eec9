// Package tlsauth answers two questions about one endpoint of an image pull:
// does this node trust what answers there ([Checker.CheckTLS]), and may this
// identity read that repository ([Checker.CheckAccess])? A third, which
// credentials a kubelet would try and why, is answered by [Kubelet.Plan].
//
// # Trust
//
// A handshake is made without the standard verification, only to look at the
// chain; the chain is then verified with [crypto/x509.Certificate.Verify], in the
// same way as a runtime written in Go verifies it: the host's name or address,
// the intermediates that were sent, the node's roots, usage for servers. Nothing
// is ever sent over a connection whose chain did not verify.
//
// The first problem that the runtime itself would report decides and fails; the
// others that the same chain has are kept as warnings, because repairing only
// the first one would not be enough: a certificate may have expired and be for
// the wrong name as well. The order is the one of crypto/x509: dates of the leaf,
// its name, then the path to a root.
//
// Roots are the node's own files, in the order and by the rules of crypto/x509
// on Linux: the first bundle that can be read, then every file in the known
// directories. See [ReadRoots].
//
// A chain without a root is looked at further, and how sure the answer is stands
// in the finding's certainty:
//
//   - tls.ca-misplaced: the CA lies on the node, in a place or form that the
//     runtime does not read, and the chain verifies with it. Proven.
//   - tls.missing-intermediate: proven when another endpoint of the pull, or
//     another instance behind the same name, sent the certificate (see [Seen]);
//     likely when names or the AIA address point to it; only possible when the
//     issuer might be a root of the same owner.
//   - tls.intercepted: the issuer names itself after an inspection product, a
//     public service has a private issuer, or one unknown issuer signs for hosts
//     of different owners. Never proven.
//   - tls.unknown-authority: what remains.
//
// [Checker.RuntimeStarted] makes a root that is younger than the runtime's process
// tls.runtime-not-restarted. The process loads the system's roots at its first
// handshake that needs them, so that this is likely and not proven: the report is
// inconclusive. The age of a root is that of the oldest file that holds it, in the
// store or in the directories that the store is made from; for the roots of the
// distribution's own package it is not judged.
//
// A certificate out of its dates is judged a second time with the server's clock:
// that of a verified host in [Seen], else the Date of an answer in clear on the
// same port. If that explains it, the finding is tls.clock-skew.
//
// # Two ClientHellos, two sizes of segments
//
// Since Go 1.24 a client offers the post-quantum key exchange X25519MLKEM768.
// Its share makes the ClientHello larger than one TCP segment, and some
// middleboxes drop what does not arrive in one piece. What Go sends by default
// depends on the go line of the main module, so the curves are always set here
// explicitly and each [Hello] has its own connection. A large hello that stays
// unanswered while the classical one completes is route.large-hello-dropped.
//
// A handshake that stays silent for a second is repeated beside the wait with
// segments of 1000 bytes, if DialSegments is set. If that completes
// while the path's own segments never get an answer, the path loses large packets
// without a word: route.mtu-black-hole. Where both can be read from what was
// seen, the direction is named.
//
// # Client certificates
//
// [Checker.ClientPairs] are offered as crypto/tls offers them: the first that fits
// what the server asks for. A server that got none is
// tls.client-certificate-required; one that refused what it got,
// tls.client-certificate-rejected. In TLS 1.3 the word comes after the handshake;
// a connection that nobody goes on with waits a second for it.
//
// # Identity
//
// [Checker.CheckAccess] sends the requests that containerd sends to resolve a
// manifest: HEAD without credentials, the token exchange that the challenge asks
// for, HEAD with the token; with several credentials, those in the kubelet's
// order until one works. [JudgeToken] gives the same judgement on an exchange
// that somebody else made. [AuditRights], on request only, asks what more would be
// granted; asking writes nothing.
//
// # The kubelet's rules
//
// Which credentials are tried, in this order (k8s.io/kubernetes,
// pkg/kubelet/kuberuntime, pkg/credentialprovider):
//
//   - the pull secrets of the pod and of its service account, added up before
//     they are sorted; secrets of other types, and empty ones, are passed over
//     silently, a missing one is a warning, one that does not parse ends the pull
//     (secrets/secrets.go);
//   - config.json in the kubelet's directory, its working directory, below HOME
//     and below the root, the first that parses; only without any of these,
//     .dockercfg in the same way (config.go);
//   - the answers of credential provider plugins whose matchImages cover the
//     image, added up as well (plugin/plugin.go). A plugin that fails is logged
//     by the kubelet and passed over; it has a minute.
//
// Without any, the pull is anonymous. Mirrors change nothing: the image's host is
// compared, not the mirror's.
//
// How a key or an entry of matchImages is compared (keyring.go), which is not how
// docker or most libraries do it:
//
//   - scheme and a leading /v1/ or /v2/ of a key are ignored;
//   - ports must be equal as strings, so "host:443" does not match "host";
//   - host names must have the same number of labels, each a shell pattern;
//   - the path of the key is a plain string prefix of the image's path, in which
//     a star is a star;
//   - keys are tried in reverse lexical order, and every one that matches counts;
//   - images of docker.io fall back to the key index.docker.io;
//   - only username, password and auth are read: identity tokens and credential
//     helpers are ignored.
//
// What the kubelet refuses in the configuration of providers stands in
// [providerConfig].Problems (plugin/config.go): it decodes strictly, wants names
// that are files, a known apiVersion, matchImages and defaultCacheDuration. Of an
// answer it wants the kind, the configured apiVersion and a cacheKeyType. This
// package runs no plugin by itself, see [PluginRunner].
//
// # The runtimes' rules
//
//   - containerd (core/remotes/docker, authorizer.go and resolver.go; internal/cri
//     server/images): user and password by POST, then GET with Basic after 400,
//     401, 404 or 405; an identity token as refresh token; registry tokens are
//     ignored; what the kubelet gives is offered to every mirror as well.
//   - CRI-O (go.podman.io/image): user and password by GET; identity and registry
//     tokens from the kubelet are ignored; nothing goes to a mirror of another host.
//   - cri-dockerd: all fields; mirrors of Docker Hub get nothing.
//
// See [Offer.ForRuntime] and [SentTo].
//
// # Secrets
//
// Reports and findings hold where a credential came from, the user name, and what
// the secret says of its age. [Offer.Digest] compares two nodes. No type of this
// package prints a password, a token, a key, or the arguments and variables of a
// plugin.
//
// # What is not proved
//
// Revocation is not checked, as no runtime checks it. No missing intermediate is
// fetched. What a token says it grants is a claim that only the registry can
// verify: [AccessReport.Read] alone says that a manifest was really served. A
// healthy CheckTLS does not prove that a server will not refuse the client
// certificate later. On Windows and macOS without a given file system the system's
// own store is used, whose files are not named. A [Kubelet] says what the kubelet
// would do now, not what it has cached: it keeps the node's files for five minutes
// and a plugin's answer for as long as the plugin says.
//
// Further sources: crypto/tls and crypto/x509 of Go 1.26 (root_linux.go,
// verify.go), RFC 5280, RFC 8446, RFC 9110 section 11.6.1, RFC 9525, and the
// distribution token specification.
package tlsauth
