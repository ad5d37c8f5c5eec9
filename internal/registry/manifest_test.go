package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

func TestParsePlatform(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"linux/amd64": "linux/amd64", "linux/x86_64": "linux/amd64", "Linux/AArch64": "linux/arm64",
		"linux/arm64/v8": "linux/arm64", "linux/arm": "linux/arm/v7", "linux/arm/6": "linux/arm/v6",
		"windows/amd64": "windows/amd64", "linux/s390x": "linux/s390x",
	} {
		p, err := ParsePlatform(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, p.String(), in)
	}
	p, err := ParsePlatform("")
	require.NoError(t, err)
	assert.Equal(t, "linux", p.OS)
	assert.Equal(t, runtime.GOARCH, p.Architecture)
	for _, in := range []string{"linux", "linux/", "/amd64", "a/b/c/d", "linux/amd64\n", "linux/../..", "linux/amd46", "linus/amd64"} {
		_, err := ParsePlatform(in)
		assert.ErrorContains(t, err, "platform \""+strings.TrimSpace(in), in)
	}
}

func index(platforms ...string) *Manifest {
	m := &Manifest{Index: true, Digest: someDigest}
	for i, s := range platforms {
		d := Descriptor{Digest: fmt.Sprint(i)}
		if s != "" {
			parts := strings.Split(s, "/")
			d.Platform = &Platform{OS: parts[0], Architecture: parts[1]}
			if len(parts) > 2 {
				d.Platform.Variant = parts[2]
			}
		}
		m.Manifests = append(m.Manifests, d)
	}
	return m
}

func TestSelect(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		node string
		have []string
		want string // index in have
	}{
		{"linux/amd64", []string{"linux/arm64", "linux/amd64", "linux/amd64"}, "1"},
		{"linux/amd64", []string{"linux/386"}, "0"},
		{"linux/amd64", []string{"linux/amd64/v1"}, "0"},
		{"linux/amd64/v3", []string{"linux/amd64", "linux/amd64/v2", "linux/amd64/v4"}, "1"},
		{"linux/arm64", []string{"linux/arm/v7", "linux/arm64/v8"}, "1"},
		{"linux/arm64", []string{"linux/arm/v5", "linux/arm/v7"}, "1"},
		{"linux/arm64/v8.2", []string{"linux/arm64/v8.1", "linux/arm64/v8.3"}, "0"},
		{"linux/arm64/v9", []string{"linux/arm64/v8"}, "0"},
		{"linux/arm/v7", []string{"linux/arm/v6", "linux/arm64"}, "0"},
		{"linux/arm/v6", []string{"linux/arm"}, ""}, // without a variant it is v7
		{"linux/amd64", []string{"", "linux/arm64"}, "0"},
		{"linux/amd64", []string{"", "linux/amd64"}, "1"},
		{"linux/amd64", []string{"windows/amd64", "unknown/unknown"}, ""},
		{"linux/amd64", nil, ""},
	} {
		p, err := ParsePlatform(tt.node)
		require.NoError(t, err)
		d, err := index(tt.have...).Select(p)
		if tt.want != "" {
			require.NoError(t, err, "%s of %v", tt.node, tt.have)
			assert.Equal(t, tt.want, d.Digest, "%s of %v", tt.node, tt.have)
			continue
		}
		var f classify.Finding
		require.True(t, errors.As(err, &f), "%s of %v", tt.node, tt.have)
		assert.Equal(t, classify.ImagePlatformMismatch, f.Cause)
		assert.NotContains(t, f.Summary, "unknown/unknown")
		if len(tt.have) > 0 {
			assert.Contains(t, f.Fact(classify.FactGot), strings.Split(tt.have[0], "/")[0])
		}
	}
	d, err := (&Manifest{}).Select(Platform{"linux", "amd64", ""})
	require.NoError(t, err)
	assert.Zero(t, d, "an image without an index is pulled whatever it is for")
}

func TestParseManifest(t *testing.T) {
	t.Parallel()
	desc := func(digest string, size int) string { return fmt.Sprintf(`{"digest":%q,"size":%d}`, digest, size) }
	ok := desc(someDigest, 3)
	for _, tt := range []struct {
		name, body, expect, contentType string
		mediaType, err                  string
	}{
		{name: "oci", body: `{"schemaVersion":2,"mediaType":"` + typeOCIManifest + `","config":` + ok + `,"layers":[` + ok + `]}`, mediaType: typeOCIManifest},
		{name: "type of the parent", body: `{"config":` + ok + `}`, expect: typeDockerManifest, mediaType: typeDockerManifest},
		{name: "type of the header", body: `{"config":` + ok + `}`, contentType: typeDockerManifest, mediaType: typeDockerManifest},
		{name: "type by shape", body: `{"manifests":[]}`, contentType: "application/json", mediaType: typeOCIIndex},
		{name: "schema 1", body: `{"schemaVersion":1,"fsLayers":[]}`, err: "schema 1"},
		{name: "no type", body: `{}`, err: "no media type"},
		{name: "another kind", body: `{"mediaType":"application/vnd.corp.test+json"}`, err: "application/vnd.corp.test+json"},
		{name: "both kinds", body: `{"mediaType":"` + typeOCIIndex + `","manifests":[],"layers":[` + ok + `]}`, err: "at once"},
		{name: "both kinds, as image", body: `{"mediaType":"` + typeOCIManifest + `","manifests":[],"config":` + ok + `}`, err: "at once"},
		{name: "broken", body: `{"mediaType":`, err: "does not parse"},
		{name: "array", body: `[]`, err: "not a JSON object"},
		{name: "empty", body: ``, err: "not a JSON object"},
		{name: "no config", body: `{"mediaType":"` + typeOCIManifest + `"}`, err: "no config"},
		{name: "negative size", body: `{"mediaType":"` + typeOCIManifest + `","config":` + desc(someDigest, -1) + `}`, err: "negative"},
		{name: "bad digest", body: `{"mediaType":"` + typeOCIManifest + `","config":` + ok + `,"layers":[` + desc("sha256:../../x", 1) + `]}`, err: "layer 1"},
		{name: "number as text", body: `{"config":{"size":"1"}}`, err: "does not parse"},
	} {
		m, _, err := parseManifest([]byte(tt.body), tt.expect, tt.contentType)
		if tt.err != "" {
			assert.ErrorContains(t, err, tt.err, tt.name)
			continue
		}
		require.NoError(t, err, tt.name)
		assert.Equal(t, tt.mediaType, m.MediaType, tt.name)
	}
}

func TestBlobsOnce(t *testing.T) {
	t.Parallel()
	m := &Manifest{Config: Descriptor{Digest: "c"}, Layers: []Descriptor{{Digest: "a"}, {Digest: "b"}, {Digest: "a"}}}
	var got []string
	for _, d := range m.Blobs() {
		got = append(got, d.Digest)
	}
	assert.Equal(t, []string{"c", "a", "b"}, got)
	assert.Nil(t, (*Manifest)(nil).Blobs())
}

func FuzzParseManifest(f *testing.F) {
	ok := `{"digest":"` + someDigest + `","size":3,"platform":{"os":"linux","architecture":"amd64"},"urls":["https://x.test/?sig=1"]}`
	f.Add([]byte(`{"config":`+ok+`,"layers":[`+ok+`]}`), "", typeOCIManifest)
	f.Add([]byte(`{"manifests":[`+ok+`]}`), "", "")
	f.Add([]byte(`{"schemaVersion":1}`), typeOCIIndex, "text/plain")
	f.Fuzz(func(t *testing.T, body []byte, expect, contentType string) {
		m, _, err := parseManifest(body, expect, contentType)
		if err != nil {
			return
		}
		for _, d := range append(m.Blobs(), m.Manifests...) {
			if _, err := ParseDigest(d.Digest); err != nil || d.Size < 0 {
				t.Fatalf("unusable descriptor %+v", d)
			}
			for _, u := range d.URLs {
				if strings.Contains(u, "?") {
					t.Fatalf("a query in %q", u)
				}
			}
		}
		_, _ = m.Select(Platform{"linux", "amd64", ""})
		if _, err := json.Marshal(m); err != nil {
			t.Fatal(err)
		}
	})
}
