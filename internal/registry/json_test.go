package registry

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// allocated returns how many bytes f allocates in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Lists of a hostile server cost about what was read of them, however short their
// elements are.
func TestListsCostLittle(t *testing.T) { // not parallel: it counts what the process allocates
	const size = MaxManifest - 1<<10
	for name, element := range map[string]string{"numbers": "0,", "nulls": "null,", "objects": "{},", "texts": `"",`, "lists": "[],", "platforms": `{"platform":{}},`} {
		list := "[" + strings.TrimSuffix(strings.Repeat(element, size/len(element)), ",") + "]"
		for key, text := range map[string]string{
			"manifests": `{"manifests":` + list + `}`,
			"layers":    `{"config":{"digest":"` + someDigest + `"},"layers":` + list + `}`,
			"urls":      `{"config":{"digest":"` + someDigest + `","urls":` + list + `}}`,
		} {
			body := []byte(text)
			cost := allocated(func() { _, _, _ = parseManifest(body, "", "") })
			assert.Less(t, cost, uint64(8<<20), "%s of %s", key, name)
		}
	}
	for name, element := range map[string]string{"numbers": "0,", "objects": "{},", "rights": `{"type":"repository","name":"a","actions":["",""]},`} {
		claims := `{"access":[` + strings.TrimSuffix(strings.Repeat(element, 90<<10/len(element)), ",") + `]}`
		token := Token{"e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"}
		cost := allocated(func() { token.granted("a") })
		assert.Less(t, cost, uint64(4<<20), name)
	}
}

func TestEntries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		raw  string
		kept []int
		more bool
		err  string
	}{
		{raw: ""}, {raw: "null"}, {raw: "[]"}, {raw: "[1,2]", kept: []int{1, 2}}, {raw: "[1,2,3]", kept: []int{1, 2}, more: true},
		{raw: `[1,2,"x"]`, kept: []int{1, 2}, more: true}, {raw: "{}", err: "want a list"}, {raw: "7", err: "want a list"}, {raw: `["x"]`, err: "string"}, {raw: "[1", err: "EOF"},
	} {
		kept, more, err := entries[int](json.RawMessage(tt.raw), 2)
		if tt.err != "" {
			assert.ErrorContains(t, err, tt.err, tt.raw)
			continue
		}
		require.NoError(t, err, tt.raw)
		assert.Equal(t, tt.kept, kept, tt.raw)
		assert.Equal(t, tt.more, more, tt.raw)
	}
}

// What is more than the bound is said and not looked at.
func TestTooManyEntries(t *testing.T) {
	t.Parallel()
	one := `{"digest":"` + someDigest + `","size":1}`
	many := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]" }
	w := newWalk(t, image)
	index := `{"manifests":` + many(maxEntries+1) + `}`
	r, m := w.Manifest(t.Context(), reply(200, nil, index), sum(index), "")
	assert.Nil(t, m)
	assert.Equal(t, OutcomeInconclusive, r.Outcome)
	assert.Contains(t, r.Inconclusive, "more than 4096")
	layers := `{"config":` + one + `,"layers":` + many(maxEntries+1) + `}`
	r, m = w.Manifest(t.Context(), reply(200, nil, layers), sum(layers), "")
	require.NotNil(t, m)
	assert.Len(t, m.Layers, defaultMaxLayers)
	assert.Equal(t, "only 128 of more than 4096 layers are looked at", r.Inconclusive)
}

func FuzzEntries(f *testing.F) {
	f.Add([]byte(`[{"digest":"a","urls":["b"]},null,{}]`), 2)
	f.Add([]byte(`[[[`), 1)
	f.Fuzz(func(t *testing.T, raw []byte, most int) {
		most = min(max(most, 0), 64)
		kept, more, err := entries[rawDescriptor](raw, most)
		if len(kept) > most || more && (err != nil || len(kept) != most) {
			t.Fatalf("%d of %d, more %v, %v", len(kept), most, more, err)
		}
		if json.Valid(raw) && bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) && err != nil && most == 0 {
			t.Fatal(err)
		}
	})
}
