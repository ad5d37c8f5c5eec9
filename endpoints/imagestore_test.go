package endpoints

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// boltItem is a key with its value, which is a bucket or not.
type boltItem struct {
	key    string
	value  []byte
	bucket bool
}

var le = binary.LittleEndian

// leafPage writes a leaf as bolt does: a header, the elements, then keys and
// values.
func leafPage(id uint64, items ...boltItem) []byte {
	page := make([]byte, boltHeader+16*len(items))
	le.PutUint64(page, id)
	le.PutUint16(page[8:], boltLeaf)
	le.PutUint16(page[10:], uint16(len(items)))
	for i, it := range items {
		e := boltHeader + 16*i
		if it.bucket {
			le.PutUint32(page[e:], 1)
		}
		le.PutUint32(page[e+4:], uint32(len(page)-e))
		le.PutUint32(page[e+8:], uint32(len(it.key)))
		le.PutUint32(page[e+12:], uint32(len(it.value)))
		page = append(append(page, it.key...), it.value...)
	}
	return page
}

func branchPage(id uint64, children map[string]uint64, keys ...string) []byte {
	page := make([]byte, boltHeader+16*len(keys))
	le.PutUint64(page, id)
	le.PutUint16(page[8:], boltBranch)
	le.PutUint16(page[10:], uint16(len(keys)))
	for i, k := range keys {
		e := boltHeader + 16*i
		le.PutUint32(page[e:], uint32(len(page)-e))
		le.PutUint32(page[e+4:], uint32(len(k)))
		le.PutUint64(page[e+8:], children[k])
		page = append(page, k...)
	}
	return page
}

func bucketValue(root uint64, inline []byte) []byte {
	v := make([]byte, 16)
	le.PutUint64(v, root)
	return append(v, inline...)
}

func metaPage(id, root, txid uint64) []byte {
	page := make([]byte, boltHeader+boltMeta)
	m := page[boltHeader:]
	le.PutUint64(page, id)
	le.PutUint16(page[8:], 4)
	le.PutUint32(m, boltMagic)
	le.PutUint32(m[4:], boltVersion)
	le.PutUint32(m[8:], 4096)
	le.PutUint64(m[16:], root)
	le.PutUint64(m[48:], txid)
	h := fnv.New64a()
	h.Write(m[:56])
	le.PutUint64(m[56:], h.Sum64())
	return page
}

// metadata is a database of containerd with one image in it.
func metadata(image, digest string) []byte {
	in := func(key string, root uint64) boltItem { return boltItem{key, bucketValue(root, nil), true} }
	target := leafPage(0, boltItem{"digest", []byte(digest), false}, boltItem{"mediatype", []byte("x"), false})
	one := leafPage(0, boltItem{"createdat", []byte("t"), false}, boltItem{"target", bucketValue(0, target), true})
	pages := [][]byte{
		metaPage(0, 99, 1), metaPage(1, 2, 2), // the older one leads nowhere
		leafPage(2, in("v1", 3)), leafPage(3, boltItem{"version", []byte{3}, false}, in(criNamespace, 4)), leafPage(4, in("images", 5)),
		branchPage(5, map[string]uint64{"a": 6, "m": 7, "z": 6}, "a", "m", "z"),
		leafPage(6, boltItem{"other.corp.test/x:1", bucketValue(0, one), true}),
		leafPage(7, boltItem{image, bucketValue(0, one), true}),
	}
	var file bytes.Buffer
	for _, p := range pages {
		file.Write(append(p, make([]byte, 4096-len(p))...))
	}
	return file.Bytes()
}

func TestImageOfTheNode(t *testing.T) {
	t.Parallel()
	ref, err := ParseReference(image)
	require.NoError(t, err)
	const name = "var/lib/containerd/" + metadataFile
	db := metadata(ref.String(), someDigest)
	store := func(data []byte) *ContentStore {
		return must(OpenContentStore(fstest.MapFS{name: {Data: data}}, ""))
	}
	got, err := store(db).Image(ref)
	require.NoError(t, err)
	assert.Equal(t, someDigest, got)
	fs2, err := store(db).Tag(ref, sum("new"))
	require.NoError(t, err)
	require.Equal(t, []classify.Cause{classify.NodeCachedTagDiffers}, causes(fs2))
	assert.Equal(t, classify.SeverityInfo, fs2[0].Severity)
	for _, same := range []string{someDigest, ""} {
		fs2, err = store(db).Tag(ref, same)
		require.NoError(t, err)
		assert.Empty(t, fs2)
	}
	other, err := ParseReference("registry.corp.test/team/app:2")
	require.NoError(t, err)
	got, err = store(db).Image(other)
	require.NoError(t, err)
	assert.Empty(t, got)

	half := bytes.Clone(db)
	half[4096+boltHeader+20]++ // the newer meta page is being written: the older counts
	_, err = store(half).Image(ref)
	assert.ErrorIs(t, err, errTorn)
	_, err = store(bytes.Repeat([]byte{7}, 20_000)).Image(ref)
	assert.ErrorIs(t, err, errNotBolt)
	moved := bytes.Clone(db)
	moved[3*4096]++ // a page that says it is another
	_, err = store(moved).Image(ref)
	assert.ErrorIs(t, err, errTorn)
	_, err = must(OpenContentStore(locked{fstest.MapFS{}}, "")).Image(ref)
	assert.ErrorIs(t, err, fs.ErrPermission)
	got, err = (&ContentStore{}).Image(ref)
	assert.NoError(t, err)
	assert.Empty(t, got)
}

// A circle of pages ends.
func TestBoltCircle(t *testing.T) {
	t.Parallel()
	db := metadata("x", someDigest)
	copy(db[5*4096:], branchPage(5, map[string]uint64{"a": 5}, "a"))
	b := &bolt{r: bytes.NewReader(db), size: int64(len(db))}
	_, err := b.image("x")
	assert.ErrorIs(t, err, errTorn)
}

func FuzzBolt(f *testing.F) {
	db := metadata("registry.corp.test/team/app:1", someDigest)
	f.Add(0, byte(0), 0, byte(0))
	f.Add(2*4096+boltHeader+4, byte(255), 3*4096+10, byte(9))
	f.Fuzz(func(t *testing.T, a int, x byte, b int, y byte) {
		data := bytes.Clone(db)
		data[uint(a)%uint(len(data))] = x
		data[uint(b)%uint(len(data))] = y
		d := &bolt{r: bytes.NewReader(data), size: int64(len(data))}
		got, err := d.image("registry.corp.test/team/app:1")
		if err == nil && got != "" {
			if _, err := registry.ParseDigest(got); err != nil {
				t.Fatal(got)
			}
		}
		if d.reads > maxBoltReads+1 {
			t.Fatal(d.reads)
		}
	})
}
