package endpoints

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

// digest is a parsed algorithm:hex. Nothing that comes from the other side is
// used as a digest, nor put into a URL, before it has been parsed.
type digest struct {
	algorithm string
	sum       []byte
}

// parseDigest accepts the algorithms that the runtimes verify.
func parseDigest(s string) (digest, error) {
	algorithm, enc, ok := strings.Cut(s, ":")
	if !ok {
		return digest{}, fmt.Errorf("%q is not a digest: no algorithm", classify.Redact(s, 128))
	}
	d := digest{algorithm: algorithm}
	h := d.hash()
	if h == nil {
		return digest{}, fmt.Errorf("digest algorithm %q is not sha256, sha384 or sha512", classify.Redact(algorithm, 32))
	}
	sum, err := hex.DecodeString(enc)
	if err != nil || len(sum) != h.Size() || enc != strings.ToLower(enc) {
		return digest{}, fmt.Errorf("a %s digest is %d lower-case hex digits", algorithm, 2*h.Size())
	}
	d.sum = sum
	return d, nil
}

// hash returns a new hash of the digest's algorithm, nil if it is unknown.
func (d digest) hash() hash.Hash {
	switch d.algorithm {
	case "sha256":
		return sha256.New()
	case "sha384":
		return sha512.New384()
	case "sha512":
		return sha512.New()
	}
	return nil
}

func (d digest) String() string { return d.algorithm + ":" + hex.EncodeToString(d.sum) }

// verify compares with what h has seen, and returns that as a digest.
func (d digest) verify(h hash.Hash) (got string, ok bool) {
	sum := h.Sum(nil)
	return digest{d.algorithm, sum}.String(), bytes.Equal(sum, d.sum)
}

// sha256Of is the digest under which containerd stores a body that came without
// one.
func sha256Of(body []byte) digest {
	sum := sha256.Sum256(body)
	return digest{"sha256", sum[:]}
}
