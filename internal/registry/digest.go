package registry

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Digest is a parsed algorithm:hex. Nothing that comes from the other side is used as a
// digest, nor put into a URL, before it has been parsed.
type Digest struct {
	Algorithm string
	Sum       []byte
}

// ParseDigest accepts the algorithms that the runtimes verify.
func ParseDigest(s string) (Digest, error) {
	algorithm, enc, ok := strings.Cut(s, ":")
	if !ok {
		return Digest{}, fmt.Errorf("%q is not a digest: no algorithm", classify.Redact(s, 128))
	}
	d := Digest{Algorithm: algorithm}
	h := d.hash()
	if h == nil {
		return Digest{}, fmt.Errorf("digest algorithm %q is not sha256, sha384 or sha512", classify.Redact(algorithm, 32))
	}
	sum, err := hex.DecodeString(enc)
	if err != nil || len(sum) != h.Size() || enc != strings.ToLower(enc) {
		return Digest{}, fmt.Errorf("a %s digest is %d lower-case hex digits", algorithm, 2*h.Size())
	}
	d.Sum = sum
	return d, nil
}

// hash returns a new hash of the digest's algorithm, nil if it is unknown.
func (d Digest) hash() hash.Hash {
	switch d.Algorithm {
	case "sha256":
		return sha256.New()
	case "sha384":
		return sha512.New384()
	case "sha512":
		return sha512.New()
	}
	return nil
}

func (d Digest) String() string { return d.Algorithm + ":" + hex.EncodeToString(d.Sum) }

// verify compares with what h has seen, and returns that as a digest.
func (d Digest) verify(h hash.Hash) (got string, ok bool) {
	sum := h.Sum(nil)
	return Digest{d.Algorithm, sum}.String(), bytes.Equal(sum, d.Sum)
}

// sha256Of is the digest under which containerd stores a body that came without one.
func sha256Of(body []byte) Digest {
	sum := sha256.Sum256(body)
	return Digest{"sha256", sum[:]}
}

// mismatch says that content is not what its digest says.
func mismatch(what, endpoint, want, got string, n int64) classify.Finding {
	return classify.New(classify.ImageDigestMismatch,
		fmt.Sprintf("the %s that %s sent is not the one asked for: %s was expected, the %d bytes are %s", what, endpoint, want, n, got),
		classify.Fact{Key: classify.FactDigest, Value: want}, classify.Fact{Key: classify.FactGot, Value: got})
}
