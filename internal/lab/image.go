package lab

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image is what the registry holds: one index, a manifest per platform, and the
// blobs that these name.
type image struct {
	index     document
	manifests map[v1.Hash]document
	platforms map[string]*v1.Manifest
	blobs     map[v1.Hash]blob
	layers    int
}

// document is a manifest or an index as it is served.
type document struct {
	mediaType types.MediaType
	digest    v1.Hash
	raw       []byte
}

// blob is content that can be read at any place. Layers are generated, so they
// are never in memory.
type blob struct {
	content io.ReaderAt
	size    int64
}

// layers are the contents of those of the n-th platform.
func (o Options) layers(n int) ([]blob, error) {
	var out []blob
	for _, content := range o.Layers {
		out = append(out, blob{content: bytes.NewReader(content), size: int64(len(content))})
	}
	if o.Layers != nil {
		return out, nil
	}
	for i, size := range o.LayerSizes {
		if size < 0 {
			return nil, fmt.Errorf("lab: layer size %d is negative", size)
		}
		out = append(out, blob{content: stream{seed: uint64(n+1)<<32 | uint64(i+1), size: int64(size)}, size: int64(size)})
	}
	return out, nil
}

func newImage(platforms []string, layers func(platform int) ([]blob, error)) (*image, error) {
	img := &image{
		manifests: map[v1.Hash]document{},
		platforms: map[string]*v1.Manifest{},
		blobs:     map[v1.Hash]blob{},
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for i, name := range platforms {
		platform, err := v1.ParsePlatform(name)
		if err != nil || platform.OS == "" || platform.Architecture == "" {
			return nil, fmt.Errorf("lab: platform %q is not os/arch[/variant]", name)
		}
		if img.platforms[name] != nil {
			return nil, fmt.Errorf("lab: platform %q is given twice", name)
		}
		contents, err := layers(i)
		if err != nil {
			return nil, err
		}
		img.layers = len(contents)
		doc, err := img.addPlatform(platform, contents)
		if err != nil {
			return nil, err
		}
		index.Manifests = append(index.Manifests, v1.Descriptor{
			MediaType: doc.mediaType, Digest: doc.digest, Size: int64(len(doc.raw)), Platform: platform,
		})
	}
	var err error
	img.index, err = newDocument(types.OCIImageIndex, index)
	return img, err
}

func (img *image) addPlatform(platform *v1.Platform, layers []blob) (document, error) {
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	config := v1.ConfigFile{
		Architecture: platform.Architecture,
		OS:           platform.OS,
		Variant:      platform.Variant,
		Created:      v1.Time{Time: time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)},
		RootFS:       v1.RootFS{Type: "layers"},
		Config:       v1.Config{Entrypoint: []string{"/app"}},
	}
	for _, layer := range layers {
		digest, _, err := v1.SHA256(io.NewSectionReader(layer.content, 0, layer.size))
		if err != nil {
			return document{}, fmt.Errorf("lab: layer digest: %w", err)
		}
		img.blobs[digest] = layer
		manifest.Layers = append(manifest.Layers, v1.Descriptor{
			MediaType: types.OCIUncompressedLayer, Digest: digest, Size: layer.size,
		})
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest)
	}
	doc, err := newDocument(types.OCIConfigJSON, config)
	if err != nil {
		return document{}, err
	}
	img.blobs[doc.digest] = blob{content: bytes.NewReader(doc.raw), size: int64(len(doc.raw))}
	manifest.Config = v1.Descriptor{MediaType: doc.mediaType, Digest: doc.digest, Size: int64(len(doc.raw))}

	if doc, err = newDocument(types.OCIManifestSchema1, manifest); err != nil {
		return document{}, err
	}
	img.manifests[doc.digest] = doc
	img.platforms[platform.String()] = &manifest
	return doc, nil
}

func newDocument(mediaType types.MediaType, content any) (document, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return document{}, fmt.Errorf("lab: %s: %w", mediaType, err)
	}
	sum := sha256.Sum256(raw)
	return document{
		mediaType: mediaType,
		digest:    v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])},
		raw:       raw,
	}, nil
}

// Digest is the digest of the image index, the one that the tag points at.
func (w *World) Digest() v1.Hash { return w.image.index.digest }

// Manifest is the manifest of one platform as the world means it, whatever is
// broken at the moment; nil if the image has no such platform. Do not change it.
func (w *World) Manifest(platform string) *v1.Manifest { return w.image.platforms[platform] }

// stream is a pseudo-random layer that can be read at any place without the
// bytes before it: word i is a mix of the seed and i alone (the SplitMix64
// finaliser). The same seed gives the same bytes in every world.
type stream struct {
	seed uint64
	size int64
}

func (s stream) ReadAt(p []byte, off int64) (int, error) {
	if off >= s.size {
		return 0, io.EOF
	}
	var err error
	if rest := s.size - off; int64(len(p)) > rest {
		p, err = p[:rest], io.EOF
	}
	for n := 0; n < len(p); {
		at := uint64(off) + uint64(n)
		word := s.word(at / 8)
		if at%8 == 0 && len(p)-n >= 8 {
			binary.LittleEndian.PutUint64(p[n:], word)
			n += 8
			continue
		}
		for b := at % 8; b < 8 && n < len(p); b++ {
			p[n] = byte(word >> (8 * b))
			n++
		}
	}
	return len(p), err
}

func (s stream) word(i uint64) uint64 {
	z := s.seed*0xd1342543de82ef95 + i*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// flipped is content with the lowest bit of its middle byte inverted.
type flipped struct{ blob }

func (f flipped) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.content.ReadAt(p, off)
	if at := f.size/2 - off; at >= 0 && at < int64(n) {
		p[at] ^= 1
	}
	return n, err
}

// cut is content whose second half cannot be read.
type cut struct{ blob }

func (c cut) ReadAt(p []byte, off int64) (int, error) {
	half := c.size / 2
	if off >= half {
		return 0, io.ErrUnexpectedEOF
	}
	if rest := half - off; int64(len(p)) > rest {
		n, err := c.content.ReadAt(p[:rest], off)
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return n, err
	}
	return c.content.ReadAt(p, off)
}
