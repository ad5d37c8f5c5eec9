package noderuntime

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// ContentStore is what containerd keeps on a node, read by file and never
// written: whatever lies there is not requested again by a pull.
//
// A nil or zero ContentStore holds nothing. Its methods are for one goroutine at a time;
// they read the file system and know no context.
type ContentStore struct {
	Dir string // containerd's root directory, "/var/lib/containerd"

	fsys fs.FS
	errs []error
}

// storeOf finds the store of the containerd that was started with the reader's
// configuration: root = "…" there or in a file that it imports, else the default.
func storeOf(rd *reader) (*ContentStore, error) {
	s := &ContentStore{Dir: "/var/lib/containerd", fsys: rd.fsys}
	for _, file := range rd.configFiles() {
		if root := text(file.doc, "root"); root != "" {
			s.Dir = path.Clean("/" + strings.ReplaceAll(root, "\\", "/"))
		}
	}
	return s, errors.Join(rd.errs...)
}

// blobDir is where the content plugin keeps blobs (plugins/content/local).
const blobDir = "io.containerd.content.v1.content/blobs"

// Holds reports whether a blob lies in the store, whole: blobs get their name only
// when their digest was checked, so the name is believed, and the size held
// against the descriptor's where that says one. What could not be looked at
// counts as not there, see [ContentStore.Err].
func (s *ContentStore) Holds(d registry.Descriptor) bool {
	dg, err := registry.ParseDigest(d.Digest)
	if s == nil || s.fsys == nil || err != nil {
		return false
	}
	info, err := fs.Stat(s.fsys, inFS(path.Join(s.Dir, blobDir, dg.Algorithm, hex.EncodeToString(dg.Sum))))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && len(s.errs) == 0 {
			s.errs = append(s.errs, fmt.Errorf("look into containerd's store %s: %w", s.Dir, err))
		}
		return false
	}
	return info.Mode().IsRegular() && (d.Size == 0 || info.Size() == d.Size)
}

// Err is why something could not be looked at, nil if everything could.
func (s *ContentStore) Err() error { return errors.Join(s.errs...) }

// Present looks which blobs of an image lie in the store already, the config
// first. The finding (node.layers-already-present, for information) says that a pull by
// this node's runtime would not request them, and so proves less than it seems.
// There is none if the store holds no layer of the image: a shared config alone
// is not worth a word.
//
// What was unpacked and then dropped (discard_unpacked_layers) is not seen.
func (s *ContentStore) Present(m *registry.Manifest) ([]registry.Descriptor, []classify.Finding) {
	var held []registry.Descriptor
	blobs := m.Blobs()
	layers := 0
	for i, d := range blobs {
		if s.Holds(d) {
			held = append(held, d)
			if i > 0 {
				layers++
			}
		}
	}
	if layers == 0 {
		return held, nil
	}
	all := len(blobs) - 1
	what := fmt.Sprintf("%d of the %d layers are in containerd's store on this node already: its own pull would request the rest only", layers, all)
	if layers == all {
		what = "every layer is in containerd's store on this node already: its own pull would request none, and prove nothing about where they come from"
	}
	facts := []classify.Fact{{Key: classify.FactFile, Value: s.Dir}}
	for _, d := range held[:min(len(held), 8)] {
		facts = append(facts, classify.Fact{Key: classify.FactDigest, Value: d.Digest})
	}
	f := classify.New(classify.NodeLayersAlreadyPresent, what, facts...)
	f.Severity, f.Operation = classify.SeverityInfo, classify.OperationFetchBlob
	return held, []classify.Finding{f}
}

// maxMetadata bounds a database of images; a node with thousands has some MiB.
const maxMetadata = 256 << 20

// boltMagic stands in each of the two first pages, of a machine that is
// little-endian.
var boltMagic = []byte("\xed\xda\x0c\xed")

// mentions reports whether a bolt database has the bytes of a text somewhere.
func mentions(fsys fs.FS, name, what string) (bool, error) {
	info, err := fs.Stat(fsys, name)
	switch {
	case err != nil:
		return false, err
	case !info.Mode().IsRegular():
		return false, errors.New("it is no file")
	case info.Size() > maxMetadata:
		return false, errors.New("it is larger than 256 MiB")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	from := io.LimitReader(f, maxMetadata)
	buf := make([]byte, 256<<10)
	kept := 0 // the end of the part before, in which the text may begin
	for first := true; ; first = false {
		n, err := io.ReadFull(from, buf[kept:])
		if first && !bytes.Contains(buf[:n], boltMagic) {
			return false, errors.New("it is no bolt database that can be read")
		}
		if bytes.Contains(buf[:kept+n], []byte(what)) {
			return true, nil
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		kept = copy(buf, buf[len(buf)-min(len(what), len(buf)-1):])
	}
}
