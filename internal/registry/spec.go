package registry

import "hash"

// Mode says how much of a blob is read.
type Mode int

// The modes.
const (
	// First64K reads the first 64 KiB and closes. The request is the runtime's own, without
	// a Range, so that it is allowed or refused like the runtime's. A blob that fits is
	// read whole and its digest is checked.
	First64K Mode = iota
	// Whole reads every byte and checks the digest. Memory does not grow with the blob.
	Whole
	// Ranged64K asks for the first 64 KiB with a Range, which leaves the connection free
	// for the next request. Runtimes ask so only when they resume, so it is for what is
	// like a blob that First64K has been tried on; see [Manifest.TouchModes].
	Ranged64K
)

const firstBytes = 64 << 10

type kind int

const (
	kindResolve kind = iota
	kindManifest
	kindBlob
	kindPing
)

// spec is what a request is for. It stays with the report, so that the next request after a
// redirect is made and judged like the first.
type spec struct {
	kind      kind
	method    string
	accept    string
	digest    string // "" = whatever the tag means
	mediaType string // by the parent; "" = none said
	mode      Mode   // of a blob
	ranged    string // the Range field; "" = none
	part      *part  // what is resumed; nil = nothing
	foreign   bool   // the layer itself named the place
	last      bool   // and no other after it
	left      bool   // a redirect led to a host to which net/http sends no Authorization
}

// part is a blob of which the first n bytes were read and hashed.
type part struct {
	h     hash.Hash
	n     int64
	tries int // how often it was resumed
}
