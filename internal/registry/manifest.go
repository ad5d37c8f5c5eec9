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

	"github.com/pullwalk/pullwalk/classify"
)

// Descriptor points to a manifest, a config or a layer.
type Descriptor struct {
	MediaType string    `json:"mediaType"`
	Digest    string    `json:"digest"`
	Size      int64     `json:"size"`               // bytes; 0 = not said
	Platform  *Platform `json:"platform,omitempty"` // nil = not said
	// URLs are places that a layer names for itself (Windows base layers), redacted.
	// Containerd asks them before the registry, see [Walk.Foreign].
	URLs []string `json:"urls,omitempty"`

	foreign []*url.URL // as they stand
}

// ForeignURLs returns the places that a layer names for itself, at most four; the query may
// be a signature and must never be printed. It is nil for almost every layer, and after a
// Descriptor was decoded from JSON.
func (d Descriptor) ForeignURLs() []*url.URL { return slices.Clone(d.foreign) }

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

// Blobs returns what a pull downloads for an image manifest: the config, then every layer
// once, because a runtime asks for a digest once. It is nil for an index.
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

// Select returns the manifest that a node of platform p takes from an index, in the order
// of containerd's platforms.Only; the zero Platform is this machine's. An entry without a
// platform is taken last. The error is a [classify.Finding].
//
// For a manifest that is no index the Descriptor is zero: a runtime takes such an image
// whatever it was built for, and nothing is proved about its platform.
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
	var have []string
	for _, d := range m.Manifests {
		if d.Platform == nil {
			return d, nil
		}
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

// The media types that containerd takes as manifests, in the order of its Accept.
const (
	typeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	typeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	typeOCIManifest    = "application/vnd.oci.image.manifest.v1+json"
	typeOCIIndex       = "application/vnd.oci.image.index.v1+json"
	typeSchema1        = "application/vnd.docker.distribution.manifest.v1+json"
	typeSchema1Signed  = "application/vnd.docker.distribution.manifest.v1+prettyjws"

	manifestAccept = typeDockerManifest + ", " + typeDockerList + ", " + typeOCIManifest + ", " + typeOCIIndex + ", */*"
)

func isIndexType(t string) bool { return t == typeDockerList || t == typeOCIIndex }
func isManifestType(t string) bool {
	return isIndexType(t) || t == typeDockerManifest || t == typeOCIManifest
}

// baseType takes the parameters off a Content-Type.
func baseType(contentType string) string {
	if t, _, err := mime.ParseMediaType(contentType); err == nil {
		return t
	}
	t, _, _ := strings.Cut(contentType, ";")
	return classify.Redact(strings.ToLower(strings.TrimSpace(t)), 128)
}

// unsupportedTypeError says that what the registry holds is no image, or one of a kind that
// runtimes no longer pull.
type unsupportedTypeError struct{ mediaType string }

func (e *unsupportedTypeError) Error() string {
	switch e.mediaType {
	case typeSchema1, typeSchema1Signed:
		return "it is a Docker schema 1 manifest (" + e.mediaType + "), which containerd 2 and current engines refuse"
	case "":
		return "it has no media type"
	}
	return "media type " + classify.Redact(e.mediaType, 128) + " is neither an image manifest nor an index"
}

var errTooManyEntries = fmt.Errorf("it lists more than %d manifests", maxEntries)

// parseManifest reads a body whose digest was checked. The first of the body's own
// mediaType, expect and contentType that is set decides its kind; a body with the parts of
// both kinds is refused as containerd does (core/images/image.go, validateMediaType). more
// reports whether there are layers beyond those that are kept.
func parseManifest(body []byte, expect, contentType string) (m *Manifest, more bool, err error) {
	var doc struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		Manifests     json.RawMessage `json:"manifests"`
		Config        *rawDescriptor  `json:"config"`
		Layers        json.RawMessage `json:"layers"`
	}
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return nil, false, errors.New("it is not a JSON object")
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, false, notParsed(err)
	}
	m = &Manifest{MediaType: doc.MediaType, Size: int64(len(body))}
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
		case present(doc.Manifests):
			m.MediaType = typeOCIIndex
		case doc.Config != nil:
			m.MediaType = typeOCIManifest
		}
	}
	if !isManifestType(m.MediaType) {
		return nil, false, &unsupportedTypeError{m.MediaType}
	}
	m.Index = isIndexType(m.MediaType)
	if m.Index && (doc.Config != nil || present(doc.Layers)) || !m.Index && present(doc.Manifests) {
		return nil, false, errors.New("it has the parts of an image and of an index at once")
	}
	if m.Index {
		if m.Manifests, more, err = descriptors(doc.Manifests, "manifest"); more {
			return nil, false, errTooManyEntries
		}
		return m, false, err
	}
	if doc.Config == nil {
		return nil, false, errors.New("it names no config")
	}
	if m.Config, err = doc.Config.check("config"); err != nil {
		return nil, false, err
	}
	m.Layers, more, err = descriptors(doc.Layers, "layer")
	return m, more, err
}

func notParsed(err error) error {
	return fmt.Errorf("its JSON does not parse: %s", classify.Redact(err.Error(), 160))
}

func descriptors(list json.RawMessage, what string) (out []Descriptor, more bool, err error) {
	raws, more, err := entries[rawDescriptor](list, maxEntries)
	if err != nil {
		return nil, false, notParsed(err)
	}
	for i, raw := range raws {
		d, err := raw.check(fmt.Sprintf("%s %d", what, i+1))
		if err != nil {
			return nil, false, err
		}
		out = append(out, d)
	}
	return out, more, nil
}

// rawDescriptor is a descriptor as it was sent.
type rawDescriptor struct {
	MediaType string          `json:"mediaType"`
	Digest    string          `json:"digest"`
	Size      int64           `json:"size"`
	Platform  *Platform       `json:"platform"`
	URLs      json.RawMessage `json:"urls"`
}

// maxURLs bounds the places of its own that are noted of one layer.
const maxURLs = 4

func (d rawDescriptor) check(what string) (Descriptor, error) {
	if _, err := ParseDigest(d.Digest); err != nil {
		return Descriptor{}, fmt.Errorf("%s: %w", what, err)
	}
	if d.Size < 0 {
		return Descriptor{}, fmt.Errorf("%s: the size is negative", what)
	}
	out := Descriptor{MediaType: classify.Redact(d.MediaType, 128), Digest: d.Digest, Size: d.Size}
	if p := d.Platform; p != nil && (p.OS != "" || p.Architecture != "") {
		out.Platform = &Platform{classify.Redact(p.OS, 32), classify.Redact(p.Architecture, 32), classify.Redact(p.Variant, 32)}
	}
	urls, _, err := entries[string](d.URLs, maxURLs)
	if err != nil {
		return Descriptor{}, fmt.Errorf("%s: urls: %w", what, err)
	}
	for _, s := range urls {
		if u, err := url.Parse(s); err == nil && (u.Scheme == "https" || u.Scheme == "http") {
			out.URLs, out.foreign = append(out.URLs, RedactURL(u)), append(out.foreign, u)
		}
	}
	return out, nil
}
