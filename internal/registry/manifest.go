package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwalk/pullwalk/classify"
)

// Descriptor points to a manifest, a config or a layer.
type Descriptor struct {
	MediaType string    `json:"mediaType"`
	Digest    string    `json:"digest"`
	Size      int64     `json:"size"`               // bytes; 0 = not said
	Platform  *Platform `json:"platform,omitempty"` // nil = not said
	// URLs are foreign places of a layer (Windows base layers), redacted.
	// Containerd asks them before the registry, see [Walk.Foreign].
	URLs []string `json:"urls,omitempty"`

	foreign []string // as they stand
}

// Manifest is an image manifest or an index whose digest was checked.
type Manifest struct {
	MediaType string       `json:"mediaType"`
	Digest    string       `json:"digest"`
	Size      int64        `json:"size"`
	Index     bool         `json:"index"`               // Manifests is set, else Config and Layers
	Manifests []Descriptor `json:"manifests,omitempty"` // of an index, in its order
	Config    Descriptor   `json:"config,omitzero"`
	Layers    []Descriptor `json:"layers,omitempty"` // the lowest first; the same layer may stand twice
}

// Blobs returns what a pull downloads for an image manifest, the config first,
// then every layer once: a runtime asks for a digest once, however often it is
// listed. Nil for an index.
func (m *Manifest) Blobs() []Descriptor {
	if m == nil || m.Index {
		return nil
	}
	out := []Descriptor{m.Config}
	seen := map[string]bool{m.Config.Digest: true}
	for _, l := range m.Layers {
		if !seen[l.Digest] {
			seen[l.Digest] = true
			out = append(out, l)
		}
	}
	return out
}

// Select returns the manifest of an index that containerd pulls on a node of
// platform p: the exact one, else the nearest that such a node runs (an arm/v7
// image on arm64, a 386 image on amd64), else one that does not say its
// platform. The zero Platform means this machine's, see [ParsePlatform].
//
// The error is a [classify.Finding] with cause image.platform-mismatch that
// lists what there is. On a manifest that is no index, Select returns the zero
// Descriptor and no error: containerd pulls an image without an index whatever
// it was built for, so nothing stops the pull there, and nothing is proved about
// the platform.
func (m *Manifest) Select(p Platform) (Descriptor, error) {
	if !m.Index {
		return Descriptor{}, nil
	}
	if p == (Platform{}) {
		p, _ = ParsePlatform("")
	}
	for _, want := range p.accepts() {
		for _, d := range m.Manifests {
			if d.Platform != nil && d.Platform.normal() == want {
				return d, nil
			}
		}
	}
	for _, d := range m.Manifests {
		if d.Platform == nil {
			return d, nil
		}
	}
	var have []string
	for _, d := range m.Manifests {
		s := classify.Redact(d.Platform.String(), 64)
		if d.Platform.OS != "unknown" && !slices.Contains(have, s) && len(have) < 16 { // unknown/unknown are attestations
			have = append(have, s)
		}
	}
	list := strings.Join(have, ", ")
	if list == "" {
		list = "no image at all"
	}
	f := classify.New(classify.ImagePlatformMismatch,
		fmt.Sprintf("the image has nothing for %s, its index lists %s", p, list),
		classify.Fact{Key: classify.FactPlatform, Value: p.String()},
		classify.Fact{Key: classify.FactGot, Value: list},
		classify.Fact{Key: classify.FactDigest, Value: m.Digest})
	f.Operation = classify.OperationResolveManifest
	return Descriptor{}, f
}

// The media types that containerd takes as manifests, in the order in which it
// names them in Accept.
const (
	typeDockerManifest = string(types.DockerManifestSchema2)
	typeDockerList     = string(types.DockerManifestList)
	typeOCIManifest    = string(types.OCIManifestSchema1)
	typeOCIIndex       = string(types.OCIImageIndex)
	typeSchema1        = string(types.DockerManifestSchema1)
	typeSchema1Signed  = string(types.DockerManifestSchema1Signed)
)

const manifestAccept = typeDockerManifest + ", " + typeDockerList + ", " + typeOCIManifest + ", " + typeOCIIndex + ", */*"

func isIndexType(t string) bool { return t == typeDockerList || t == typeOCIIndex }
func isManifestType(t string) bool {
	return isIndexType(t) || t == typeDockerManifest || t == typeOCIManifest
}
func isSchema1Type(t string) bool { return t == typeSchema1 || t == typeSchema1Signed }

// baseType takes the parameters off a Content-Type.
func baseType(contentType string) string {
	if t, _, err := mime.ParseMediaType(contentType); err == nil {
		return t
	}
	t, _, _ := strings.Cut(contentType, ";")
	return classify.Redact(strings.ToLower(strings.TrimSpace(t)), 128)
}

// unsupportedTypeError says that the other side holds something that is no
// image, or an image of a kind that runtimes no longer pull.
type unsupportedTypeError struct{ mediaType string }

func (e *unsupportedTypeError) Error() string {
	switch {
	case isSchema1Type(e.mediaType):
		return "it is a Docker schema 1 manifest (" + e.mediaType + "), which containerd 2 and current engines refuse"
	case e.mediaType == "":
		return "it has no media type"
	}
	return "media type " + classify.Redact(e.mediaType, 128) + " is neither an image manifest nor an index"
}

type rawDescriptor struct {
	MediaType string    `json:"mediaType"`
	Digest    string    `json:"digest"`
	Size      int64     `json:"size"`
	Platform  *Platform `json:"platform"`
	URLs      []string  `json:"urls"`
}

// maxURLs bounds the foreign places noted of one layer.
const maxURLs = 4

func (d rawDescriptor) check(what string) (Descriptor, error) {
	if _, err := ParseDigest(d.Digest); err != nil {
		return Descriptor{}, fmt.Errorf("%s: %w", what, err)
	}
	if d.Size < 0 {
		return Descriptor{}, fmt.Errorf("%s: the size is negative", what)
	}
	out := Descriptor{MediaType: classify.Redact(d.MediaType, 128), Digest: d.Digest, Size: d.Size, Platform: d.Platform}
	if p := out.Platform; p != nil {
		if p.OS == "" && p.Architecture == "" {
			out.Platform = nil
		} else {
			out.Platform = &Platform{classify.Redact(p.OS, 32), classify.Redact(p.Architecture, 32), classify.Redact(p.Variant, 32)}
		}
	}
	for _, s := range d.URLs[:min(len(d.URLs), maxURLs)] {
		if u, err := url.Parse(s); err == nil && (u.Scheme == "https" || u.Scheme == "http") {
			out.URLs = append(out.URLs, RedactURL(u))
			out.foreign = append(out.foreign, s)
		}
	}
	return out, nil
}

// parseManifest reads a body whose digest was checked. The first of the body's
// own mediaType, expect and contentType that is set decides what it is; a body
// that has the parts of both kinds is refused as containerd does
// (core/images/image.go, validateMediaType).
func parseManifest(body []byte, expect, contentType string) (*Manifest, error) {
	var doc struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		Manifests     []rawDescriptor `json:"manifests"`
		Config        *rawDescriptor  `json:"config"`
		Layers        []rawDescriptor `json:"layers"`
	}
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return nil, errors.New("it is not a JSON object")
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("its JSON does not parse: %s", classify.Redact(err.Error(), 160))
	}
	m := &Manifest{MediaType: doc.MediaType, Size: int64(len(body))}
	if m.MediaType == "" && doc.SchemaVersion == 1 {
		m.MediaType = typeSchema1
	}
	if m.MediaType == "" {
		m.MediaType = expect
	}
	if m.MediaType == "" && isManifestType(contentType) {
		m.MediaType = contentType
	}
	if m.MediaType == "" { // OCI leaves the field optional
		switch {
		case doc.Manifests != nil:
			m.MediaType = typeOCIIndex
		case doc.Config != nil:
			m.MediaType = typeOCIManifest
		}
	}
	if !isManifestType(m.MediaType) {
		return nil, &unsupportedTypeError{m.MediaType}
	}
	m.Index = isIndexType(m.MediaType)
	if m.Index && (doc.Config != nil || doc.Layers != nil) || !m.Index && doc.Manifests != nil {
		return nil, errors.New("it has the parts of an image and of an index at once")
	}
	if m.Index {
		for i, raw := range doc.Manifests {
			d, err := raw.check(fmt.Sprintf("manifest %d", i+1))
			if err != nil {
				return nil, err
			}
			m.Manifests = append(m.Manifests, d)
		}
		return m, nil
	}
	if doc.Config == nil {
		return nil, errors.New("it names no config")
	}
	var err error
	if m.Config, err = doc.Config.check("config"); err != nil {
		return nil, err
	}
	for i, raw := range doc.Layers {
		d, err := raw.check(fmt.Sprintf("layer %d", i+1))
		if err != nil {
			return nil, err
		}
		m.Layers = append(m.Layers, d)
	}
	return m, nil
}
