// Package tlsauth answers two questions about one endpoint of an image pull:
// does this node trust what answers there ([Checker.CheckTLS]), and may this
// identity read that repository ([Checker.CheckAccess])?
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
// # Two ClientHellos
//
// Since Go 1.24 a client offers the post-quantum key exchange X25519MLKEM768.
// Its share makes the ClientHello larger than one TCP segment, and some
// middleboxes drop what does not arrive in one piece. What Go sends by default
// depends on the go line of the main module, so the curves are always set here
// explicitly and each [Hello] has its own connection. A large hello that stays
// unanswered while the classical one completes is route.large-hello-dropped.
//
// # Identity
//
// [Checker.CheckAccess] sends the requests that containerd sends to resolve a
// manifest: HEAD without credentials, the token exchange that the challenge asks
// for, HEAD with the token; with several credentials, those in the kubelet's
// order until one works. [JudgeToken] gives the same judgement on an exchange
// that somebody else made.
//
// [DockerConfig] reads a pull secret and matches it as the kubelet does, which
// is not how docker or most libraries do it:
//
//   - scheme and a leading /v1/ or /v2/ of a key are ignored;
//   - ports must be equal as strings, so "host:443" does not match "host";
//   - host names must have the same number of labels, each a shell pattern;
//   - the path of the key is a plain string prefix of the image's path;
//   - keys are tried in reverse lexical order, and every one that matches counts;
//   - images of docker.io fall back to the key index.docker.io;
//   - only username, password and auth are read: identity tokens and credential
//     helpers are ignored.
//
// # What is not proved
//
// Revocation is not checked, as no runtime checks it. A certificate demand in
// TLS 1.3 shows only on the first read after the handshake and is noted, not
// judged. No missing intermediate is fetched. What a token says it grants is a
// claim that only the registry can verify: [AccessReport.Read] alone says that a
// manifest was really served. Roots are read now; a runtime that was started
// before a root was added does not know it. On Windows and macOS without a given
// file system the system's own store is used, whose files are not named.
//
// Sources of the rules: crypto/tls and crypto/x509 of Go 1.26 (root_linux.go,
// verify.go), k8s.io/kubernetes pkg/credentialprovider (keyring.go, config.go),
// containerd core/remotes/docker (resolver.go, authorizer.go), RFC 8446,
// RFC 9110 section 11.6.1, RFC 9525, and the distribution token specification.
package tlsauth
