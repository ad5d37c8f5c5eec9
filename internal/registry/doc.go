// Package registry has what is asked of a registry and what it answers: image names and
// platforms, the requests of a pull one by one, the token exchange, manifests, and the
// HTTP/1.1 transport below them. A [Walk] makes one request per call and returns a
// [Report]; the order of a pull is somebody else's. No redirect is followed and nothing is
// repeated behind the caller's back, every wait and every size has a limit, and what comes
// back is redacted before it can be printed.
//
// [Pool] takes the place of net/http's Transport, which reads what a server sends on an
// idle connection and writes it to the log of the whole process (net/http/transport.go,
// readLoopPeekFailLocked), where an embedding program cannot stop it. That Transport also
// has no limit for writing a request, for the pauses of a body and for the number of
// interim answers, and it repeats requests by itself.
package registry

import "time"

// The limits of what is read from the other side.
const (
	MaxManifest  = 4 << 20   // the distribution specification asks registries to accept 4 MiB
	MaxErrorBody = 64 << 10  // enough for every error JSON seen, too little for a flood
	MaxToken     = 128 << 10 // tokens with many group claims reach some tens of KiB
	MaxHeader    = 256 << 10 // no registry needs a tenth of it, and a parsed flood costs many times its size
)

// The limits of waiting.
const (
	// DefaultHeader is how long response headers may take. Runtimes wait longer or for
	// ever; a registry that thinks for 15 s is named, not waited out.
	DefaultHeader = 15 * time.Second
	// DefaultIdle is how long a body may stay without a byte.
	DefaultIdle = 15 * time.Second
)
