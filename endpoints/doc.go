// Package endpoints walks the requests of an image pull, one by one, and says
// which hosts a pull touches: registry, token server, and wherever the registry
// sends the client for the blobs.
//
// # The steps
//
// A [Walk] is one source of one image. Each of its methods makes exactly one
// request on the transport that it is given and returns a [RequestReport]:
//
//	ref, err := endpoints.ParseReference("registry.corp.test/team/app:1")
//	w := &endpoints.Walk{Reference: ref}
//	r := w.Resolve(ctx, rt, "HEAD")               // 401: r.NeedsToken(); then set w.Authorization, and again
//	                                              // r.NeedsGet(): the same by GET
//	r, m := w.Manifest(ctx, rt, r.Digest)         // m.Index: m.Select(platform), and Manifest once more
//	for _, d := range m.Blobs() {
//		r := w.Blob(ctx, rt, d, endpoints.First64K)
//		for r.Redirect() != nil {             // a host of its own: other transport, no Authorization
//			r = w.Follow(ctx, other, r, d, endpoints.First64K)
//		}
//	}
//
// The caller orders them, because what stands between two requests (a name to
// resolve, a route, a certificate) is worth a look of its own. [Checker.Check]
// is the same steps in the usual order for use alone.
//
// # Whose pull it is
//
// [Checker].FS, Runtime and ConfigFile say whose configuration is read, and whose way
// of asking is taken: hosts.toml and config.toml of containerd, what k3s and RKE2
// generate, registries.conf of CRI-O and podman, daemon.json of docker. A file that
// the runtime passes over is a finding, and so is one that stops it. [Map].Sources
// says where the runtime looks, in its order.
//
// [Walk.Ping] is the first question of CRI-O and docker and none of containerd's, and
// [Walk.Compare] tells a registry that pleases one and not the other.
//
// # Many layers, large layers
//
// [Manifest.TouchModes] asks the largest layer as the runtime would and the others
// with a Range, so that connections stay open. [Whole] downloads with the digest
// checked on the way. A download that breaks off can be taken on with
// [Walk.Resume], as the runtimes do; what completes then leaves a warning.
//
// # Rules
//
// Requests are those of containerd 2.x (core/remotes/docker): HEAD of the manifest
// with its Accept, GET by digest, GET of blobs without Range, ns= for mirrors;
// with [Walk].Client those of CRI-O or docker where they differ. They differ from a
// runtime's in two fields: the User-Agent is our own, and content codings are
// declined, so that what is hashed is what is stored.
//
// A step repeats nothing, no host is renamed but docker.io, which is served by
// registry-1.docker.io, and no scheme is guessed: https, but for loopback
// registries on a port of their own, where containerd guesses too.
//
// Content is believed only after its digest was checked. A manifest is read up
// to 4 MiB, an error body up to 64 KiB, a blob up to its size and one byte; a
// blob of any size takes one buffer of 128 KiB.
//
// Authorization goes to the scheme, host and port of Walk.Base over https and
// nowhere else; never across a redirect. Where the runtime would have sent it
// and the answer is a refusal, the report is inconclusive.
//
// Reports carry URLs without query and user information, no header, and remote
// words only redacted and cut.
//
// # What is not proved
//
// A HEAD proves that the registry says it has a manifest. The first 64 KiB of a
// layer prove that its bytes flow from there to here, not that they are right or
// that the rest would come; only [Whole] does. An answer to this process is not
// an answer to the runtime unless both run in the same network, with the same
// roots, proxy and credential: that is for the caller to arrange. A header field
// from hosts.toml whose name sounds like a credential is sent over verified TLS
// only, where the runtime sends it in clear as well; one that would change the
// connection or which bytes are asked for (Host, Range) is never sent. That an image
// without an index is for this platform is not looked at, because the runtime does
// not look either.
// Unpacking, signature policies and lookaside stores are not looked at. Aliases for
// short names are not read. What a proxy says of a host over plain http is told from
// the host's own words only where the proxy marks its answer.
// That a Range is served does not prove the plain request for the same layer, nor
// the other way round; see [CompareRange].
package endpoints
