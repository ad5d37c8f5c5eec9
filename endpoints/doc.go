// Package endpoints makes the requests of an image pull and says which hosts a pull
// touches: the registry, its token server, and wherever the registry sends the client for
// the blobs.
//
//	m, err := (&endpoints.Checker{}).Check(ctx, "registry.corp.test/team/app:1")
//	for _, h := range m.Hosts() {
//		fmt.Println(h.Scheme, h.Host, h.Port, h.Roles)
//	}
//
// [Checker.Check] makes them in the order of a runtime and dials each host itself; what
// lies below a request (the name, the route, the certificate) is for the packages dnscheck,
// reach and tlsauth, and all of it together for package pullwalk. With the node's file tree
// it asks where the node's runtime would ask, with the settings of that runtime: hosts.toml
// and config.toml of containerd, what k3s and RKE2 generate, registries.conf of CRI-O and
// podman, daemon.json of docker. A file that the runtime passes over is a finding, and so
// is one that stops it.
//
// # Rules
//
// Requests are those of containerd 2 (core/remotes/docker): HEAD of the manifest with its
// Accept, GET by digest, GET of blobs without Range, ns= for mirrors; with Runtime those of
// CRI-O or docker where they differ. They differ from a runtime's in two fields: the
// User-Agent is the caller's, and content codings are declined, so that what is hashed is
// what is stored. The largest layer is asked for as the runtime would, the others with a
// Range, so that connections stay open. Downloads that break off are resumed as the
// runtimes do.
//
// No host is renamed but docker.io, which is served by registry-1.docker.io, and no scheme
// is guessed: https, but for loopback registries on a port of their own, where containerd
// guesses too.
//
// Content is believed only after its digest was checked. A manifest is read up to 4 MiB, an
// error body up to 64 KiB, a blob up to its size and one byte.
//
// Authorization goes to the scheme, host and port of the source over https and nowhere
// else. Where a runtime would have sent it further and the answer is a refusal, the result
// is inconclusive. Reports carry URLs without query and user information, no header, and
// remote words only redacted and cut.
//
// # What is not proved
//
// A HEAD proves that the registry says it has a manifest. The first 64 KiB of a layer prove
// that its bytes flow from there to here, not that they are right or that the rest would
// come; only Complete does. That a Range is served does not prove the plain request for the
// same layer, nor the other way round. An answer to this process is not an answer to the
// runtime unless both run in the same network, with the same roots, proxy and credential:
// that is for the caller to arrange. A header field of the configuration whose name sounds
// like a credential is sent over verified TLS only; one that would change the connection or
// which bytes are asked for (Host, Range) is never sent. That an image without an index is
// for this platform is not looked at, because the runtime does not look either. Unpacking,
// signature policies, lookaside stores and aliases for short names are not looked at. What a
// proxy says of a host over plain http is told from the host's own words only where the
// proxy marks its answer.
package endpoints
