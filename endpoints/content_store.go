package endpoints

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

const containerdRoot = "/var/lib/containerd"

// ContentStore is what containerd keeps on a node, read by file and never
// written: whatever lies there is not requested again by a pull.
//
// The zero ContentStore holds nothing. Its methods are for one goroutine at a time;
// they read the file system and know no context.
type ContentStore struct {
	Dir string // containerd's root directory, "/var/lib/containerd"

	fsys fs.FS
	errs []error
}

// OpenContentStore finds the store of the containerd that was started with the
// configuration file config ("" = etc/containerd/config.toml): root = "…" there
// or in a file that it imports, else /var/lib/containerd. The error means that
// the configuration could not be read from here; the default is taken then. nil
// as fsys gives the zero store.
func OpenContentStore(fsys fs.FS, config string) (*ContentStore, error) {
	s := &ContentStore{Dir: containerdRoot, fsys: fsys}
	if fsys == nil {
		return &ContentStore{}, nil
	}
	rd := &reader{fsys: fsys, config: cmp.Or(config, containerdConfig)}
	for _, file := range rd.configFiles() {
		if root, _ := file.doc["root"].(string); root != "" {
			s.Dir = path.Clean("/" + strings.ReplaceAll(root, "\\", "/"))
		}
	}
	return s, errors.Join(rd.errs...)
}

// blobDir is where the content plugin keeps blobs (plugins/content/local).
const blobDir = "io.containerd.content.v1.content/blobs"

// Holds says whether a blob lies in the store, whole: blobs get their name only
// when their digest was checked, so the name is believed, and the size held
// against the descriptor's where that says one. What could not be looked at
// counts as not there, see [ContentStore.Err].
func (s *ContentStore) Holds(d Descriptor) bool {
	dg, err := registry.ParseDigest(d.Digest)
	if s.fsys == nil || err != nil {
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
func (s *ContentStore) Present(m *Manifest) ([]Descriptor, []classify.Finding) {
	var held []Descriptor
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

// configFile is a configuration file of containerd, or one that it imports.
type configFile struct {
	name string
	doc  map[string]any
}

// configFiles reads containerd's configuration with everything that it imports.
// Imported files come later and win.
func (rd *reader) configFiles() []configFile {
	main, ok := rd.toml(rd.config)
	if !ok {
		return nil
	}
	out := []configFile{{rd.config, main}}
	imports, _ := main["imports"].([]any)
	for i, v := range imports {
		pattern, _ := v.(string)
		if i == maxImports {
			rd.errs = append(rd.errs, fmt.Errorf("%s imports more than %d files", rd.config, maxImports))
			break
		}
		if pattern == "" {
			continue
		}
		if !path.IsAbs(pattern) {
			pattern = path.Join(path.Dir(rd.config), pattern)
		}
		names, err := fs.Glob(rd.fsys, inFS(pattern))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			rd.errs = append(rd.errs, fmt.Errorf("list %s: %w", pattern, err))
		}
		for _, name := range names[:min(len(names), maxImports)] {
			if doc, ok := rd.toml("/" + name); ok {
				out = append(out, configFile{"/" + name, doc})
			}
		}
	}
	return out
}

// toml reads a TOML file of the node. A file that does not parse is an error of
// ours: containerd does not start with such a file; what runs was started with an
// earlier one, and what that said is not known.
func (rd *reader) toml(file string) (map[string]any, bool) {
	data, ok := rd.read(file)
	if !ok {
		return nil, false
	}
	var doc map[string]any
	if err := toml.Unmarshal(data, &doc); err != nil {
		rd.errs = append(rd.errs, fmt.Errorf("read %s: %w", file, positioned(err)))
		return nil, false
	}
	return doc, true
}
