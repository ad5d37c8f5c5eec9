package endpoints

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"path"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// metadataFile is containerd's database of images, a bolt file.
const metadataFile = "io.containerd.metadata.v1.bolt/meta.db"

// criNamespace is where the kubelet's images are.
const criNamespace = "k8s.io"

// Image returns which digest the node's containerd has for ref, "" if it has no
// image of this name. The database is read by file while containerd may write to
// it; what changed meanwhile is read again, and an error says that nothing
// certain was seen.
func (s *ContentStore) Image(ref Reference) (digest string, err error) {
	if s.fsys == nil || ref.Registry == "" {
		return "", nil
	}
	name := path.Join(s.Dir, metadataFile)
	f, err := s.fsys.Open(inFS(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("read %s: it is no file", name)
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		return "", fmt.Errorf("read %s: %w", name, errors.ErrUnsupported)
	}
	for range 3 {
		b := &bolt{r: at, size: info.Size()}
		digest, err = b.image(ref.String())
		if now := (&bolt{r: at, size: info.Size()}); err == nil && now.open() == nil && now.txid == b.txid {
			return digest, nil
		}
	}
	if err == nil {
		err = errors.New("it changes while it is read")
	}
	return "", fmt.Errorf("read %s: %w", name, err)
}

// Tag says whether the node's image of this name is another one than the digest
// that the registry gives now: node.cached-tag-differs, for information. Under the
// policy IfNotPresent such a node starts the older one without asking.
func (s *ContentStore) Tag(ref Reference, digest string) ([]classify.Finding, error) {
	have, err := s.Image(ref)
	if err != nil || have == "" || digest == "" || have == digest {
		return nil, err
	}
	f := classify.New(classify.NodeCachedTagDiffers, fmt.Sprintf("the node has %s for %s, the registry has %s now: a pod that does not always pull starts the node's", classify.Redact(have, 128), ref, digest),
		classify.Fact{Key: classify.FactDigest, Value: digest}, classify.Fact{Key: classify.FactGot, Value: classify.Redact(have, 128)})
	f.Severity, f.Endpoint, f.Operation = classify.SeverityInfo, ref.Host, classify.OperationResolveManifest
	return []classify.Finding{f}, nil
}

// bolt reads single values out of a bolt database: a tree of pages, each bucket a
// tree of its own (the file format of go.etcd.io/bbolt, version 2). Every number
// from the file is checked before it is used.
type bolt struct {
	r        io.ReaderAt
	size     int64
	pageSize int64
	root     uint64
	txid     uint64
	reads    int
}

const (
	boltMagic, boltVersion = 0xED0CDAED, 2
	boltBranch, boltLeaf   = 1, 2
	boltHeader             = 16
	boltMeta               = 64
	// maxBoltReads bounds the pages read for one value; a path of five buckets
	// takes some twenty.
	maxBoltReads = 256
	maxBoltPage  = 16 << 20
)

var (
	errNotBolt = errors.New("it is no bolt database that can be read")
	errTorn    = errors.New("a page is not what its place says")
)

// image looks up v1/k8s.io/images/NAME/target/digest.
func (b *bolt) image(name string) (string, error) {
	if err := b.open(); err != nil {
		return "", err
	}
	bucket := boltBucket{root: b.root}
	for _, key := range []string{"v1", criNamespace, "images", name, "target"} {
		value, isBucket, err := b.get(bucket, []byte(key))
		if err != nil || value == nil {
			return "", err
		}
		if !isBucket || len(value) < 16 {
			return "", errTorn
		}
		bucket = boltBucket{root: binary.LittleEndian.Uint64(value)}
		if bucket.root == 0 {
			bucket.inline = value[16:]
		}
	}
	value, isBucket, err := b.get(bucket, []byte("digest"))
	if err != nil || isBucket {
		return "", err
	}
	if _, err := registry.ParseDigest(string(value)); err != nil {
		return "", errTorn
	}
	return string(value), nil
}

// open reads both meta pages and takes the newer one that is whole. Numbers are
// those of a little-endian machine, as all that run containerd are but s390x,
// where the file is refused.
func (b *bolt) open() error {
	head := make([]byte, boltHeader+boltMeta)
	found := false
	try := func(at int64) {
		if n, err := b.r.ReadAt(head, at); n < len(head) || err != nil && err != io.EOF {
			return
		}
		m := head[boltHeader:]
		u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
		h := fnv.New64a()
		h.Write(m[:56])
		size := int64(u32(m[8:]))
		if u32(m) != boltMagic || u32(m[4:]) != boltVersion || u64(m[56:]) != h.Sum64() || size < 512 || size > 64<<10 {
			return
		}
		if tx := u64(m[48:]); !found || tx > b.txid {
			found, b.pageSize, b.root, b.txid = true, size, u64(m[16:]), tx
		}
	}
	try(0)
	if found {
		try(b.pageSize)
	} else { // the first may be half written; pages are as large as the system's
		for _, size := range []int64{4 << 10, 16 << 10, 64 << 10} {
			try(size)
		}
	}
	if !found {
		return errNotBolt
	}
	return nil
}

// boltBucket is a bucket: the page of its root, or its page itself.
type boltBucket struct {
	root   uint64
	inline []byte
}

// page reads one page with those that it overflows into.
func (b *bolt) page(id uint64) ([]byte, error) {
	b.reads++
	if b.reads > maxBoltReads || id < 2 || id > uint64(b.size/b.pageSize) {
		return nil, errTorn
	}
	head := make([]byte, boltHeader)
	at := int64(id) * b.pageSize
	if n, _ := b.r.ReadAt(head, at); n < len(head) || binary.LittleEndian.Uint64(head) != id {
		return nil, errTorn
	}
	size := (int64(binary.LittleEndian.Uint32(head[12:])) + 1) * b.pageSize
	if size > maxBoltPage {
		return nil, errTorn
	}
	buf := make([]byte, size)
	n, _ := b.r.ReadAt(buf, at)
	return buf[:n], nil
}

// get looks a key up in a bucket. A nil value means that it is not there.
func (b *bolt) get(bucket boltBucket, key []byte) (value []byte, isBucket bool, err error) {
	page := bucket.inline
	if page == nil {
		if page, err = b.page(bucket.root); err != nil {
			return nil, false, err
		}
	}
	for {
		if len(page) < boltHeader {
			return nil, false, errTorn
		}
		flags, count := binary.LittleEndian.Uint16(page[8:]), int(binary.LittleEndian.Uint16(page[10:]))
		if boltHeader+count*16 > len(page) {
			return nil, false, errTorn
		}
		switch flags {
		case boltLeaf:
			return boltSearch(page, count, key)
		case boltBranch:
			next := uint64(0)
			for i := range count { // the last child whose first key is not greater
				e := boltHeader + i*16
				k, ok := cut(page, e, binary.LittleEndian.Uint32(page[e:]), binary.LittleEndian.Uint32(page[e+4:]))
				if !ok {
					return nil, false, errTorn
				}
				if i > 0 && bytes.Compare(k, key) > 0 {
					break
				}
				next = binary.LittleEndian.Uint64(page[e+8:])
			}
			if page, err = b.page(next); err != nil {
				return nil, false, err
			}
		default:
			return nil, false, errTorn
		}
	}
}

// boltSearch looks a key up in a leaf.
func boltSearch(page []byte, count int, key []byte) (value []byte, isBucket bool, err error) {
	for i := range count {
		e := boltHeader + i*16
		u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(page[e+at:]) }
		k, ok := cut(page, e, u32(4), u32(8))
		if !ok {
			return nil, false, errTorn
		}
		if !bytes.Equal(k, key) {
			continue
		}
		v, ok := cut(page, e, u32(4)+u32(8), u32(12))
		if !ok {
			return nil, false, errTorn
		}
		return v, u32(0)&1 != 0, nil
	}
	return nil, false, nil
}

// cut takes n bytes that begin pos after the element at e.
func cut(page []byte, e int, pos, n uint32) ([]byte, bool) {
	from := int64(e) + int64(pos)
	to := from + int64(n)
	if to > int64(len(page)) || int64(pos)+int64(n) > int64(len(page)) {
		return nil, false
	}
	return page[from:to:to], true
}
