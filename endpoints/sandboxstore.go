package endpoints

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

const containersStorage = "/var/lib/containers/storage"

// Stored says whether the node has the image already: a runtime that has an image
// of this name asks no registry for its sandbox image, whatever the tag means there
// now. Read are containerd's database of images and the list of images of CRI-O's
// storage, by file.
//
// The error means that it is not known: the list is not where the configuration
// says, cannot be read, or changed while it was read.
func (s Sandbox) Stored(fsys fs.FS, runtime, config string, ref Reference) (bool, error) {
	switch {
	case fsys == nil:
		return false, errors.New("no file tree was given")
	case WayOf(runtime) == WayCRIO:
		return storedForCRIO(fsys, config, ref)
	}
	store, err := OpenContentStore(fsys, config)
	if err != nil {
		return false, err
	}
	// Containerd makes the file when it starts: without one it keeps its images
	// elsewhere.
	if name := path.Join(store.Dir, metadataFile); !isFile(fsys, name) {
		return false, fmt.Errorf("%s, containerd's list of images, is not there", name)
	}
	digest, err := store.Image(ref)
	return digest != "", err
}

func isFile(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, inFS(name))
	return err == nil && info.Mode().IsRegular()
}

// storedForCRIO looks into the lists of images that containers/storage keeps: its
// own, and those of additionalimagestores.
func storedForCRIO(fsys fs.FS, config string, ref Reference) (bool, error) {
	rd := &reader{fsys: fsys}
	read := 0
	for _, root := range rd.storageRoots(config) {
		data, ok := rd.read(path.Join(root, "overlay-images/images.json"))
		if !ok {
			continue
		}
		var images []struct {
			Names []string `json:"names"`
		}
		if err := json.Unmarshal(data, &images); err != nil {
			rd.errs = append(rd.errs, fmt.Errorf("%s: the list of images is no JSON", root))
			continue
		}
		read++
		for _, image := range images {
			if slices.Contains(image.Names, ref.String()) {
				return true, nil
			}
		}
	}
	if read == 0 && len(rd.errs) == 0 {
		return false, errors.New("the list of images of containers/storage is not there")
	}
	return false, errors.Join(rd.errs...)
}

// storageRoots returns where containers/storage keeps images: root of crio.conf,
// else graphroot of storage.conf, else the default; and the additional stores.
func (rd *reader) storageRoots(config string) []string {
	var storage struct {
		Storage struct {
			Root    string `toml:"graphroot"`
			Options struct {
				More []string `toml:"additionalimagestores"`
			} `toml:"options"`
		} `toml:"storage"`
	}
	for _, name := range []string{"/etc/containers/storage.conf", "/usr/share/containers/storage.conf"} {
		if data, ok := rd.read(name); ok {
			if err := toml.Unmarshal(data, &storage); err != nil {
				rd.errs = append(rd.errs, fmt.Errorf("read %s: %w", name, positioned(err)))
			}
			break
		}
	}
	root := cmp.Or(storage.Storage.Root, containersStorage)
	for _, f := range rd.crioFiles(config) {
		root = cmp.Or(f.Crio.Root, root)
	}
	more := storage.Storage.Options.More
	return append([]string{root}, more[:min(len(more), maxImports)]...)
}

// crioFile is what of crio.conf and its drop-ins the sandbox image depends on.
type crioFile struct {
	name string
	Crio struct {
		Root  string `toml:"root"`
		Image struct {
			Pause      string `toml:"pause_image"`
			Auth       string `toml:"pause_image_auth_file"`
			GlobalAuth string `toml:"global_auth_file"`
		} `toml:"image"`
	} `toml:"crio"`
}

// crioFiles reads crio.conf, then its drop-ins in the order of their names; what
// comes later wins.
func (rd *reader) crioFiles(config string) []crioFile {
	var out []crioFile
	names := rd.glob("/etc/crio/crio.conf.d/*")
	for _, name := range append([]string{cmp.Or(config, "/etc/crio/crio.conf")}, names[:min(len(names), maxImports)]...) {
		f := crioFile{name: "/" + strings.TrimPrefix(name, "/")}
		data, ok := rd.read(f.name)
		if !ok {
			continue
		}
		if err := toml.Unmarshal(data, &f); err != nil {
			rd.errs = append(rd.errs, fmt.Errorf("read %s: %w", f.name, positioned(err)))
			continue
		}
		out = append(out, f)
	}
	return out
}
