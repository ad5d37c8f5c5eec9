// Package nodefs reads a file tree that is mounted somewhere else as if it were
// the root: absolute symbolic links stay inside it.
//
// os.DirFS follows an absolute link into the reader's own root (an agent would
// read the resolv.conf of its pod), and os.Root refuses it (systemd makes
// /etc/resolv.conf such a link). Neither will do for a host tree mounted into a
// container.
package nodefs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// maxLinks bounds the links of one path, as the kernel does.
const maxLinks = 40

// FS is a re-rooted file tree. It is read-only and safe for concurrent use.
type FS struct{ root *os.Root }

// New opens the tree below dir. The error names dir when it cannot be read or
// is no directory.
func New(dir string) (*FS, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("host root %q: %w", dir, err)
	}
	f := &FS{root: root}
	if _, err := fs.ReadDir(f, "."); err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("host root %q: %w", dir, err)
	}
	return f, nil
}

// Open opens name, following links inside the tree.
func (f *FS) Open(name string) (fs.File, error) {
	real, err := f.resolve("open", name)
	if err != nil {
		return nil, err
	}
	file, err := f.root.Open(real)
	if err != nil {
		return nil, err
	}
	// A FIFO or device would block a reader for ever; the node's settings are
	// plain files. A directory is needed for certificate directories and /proc.
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("not a regular file: %v", info.Mode().Type())}
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// ReadLink returns the text of the link name itself.
func (f *FS) ReadLink(name string) (string, error) {
	dir, err := f.resolve("readlink", path.Dir(name))
	if err != nil {
		return "", err
	}
	return f.root.Readlink(path.Join(dir, path.Base(name)))
}

// Lstat describes name itself, without following it if it is a link.
func (f *FS) Lstat(name string) (fs.FileInfo, error) {
	dir, err := f.resolve("lstat", path.Dir(name))
	if err != nil {
		return nil, err
	}
	return f.root.Lstat(path.Join(dir, path.Base(name)))
}

// resolve returns the path of name without links. What lies beyond the tree is
// clamped to it, as chroot does.
func (f *FS) resolve(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	todo := strings.Split(name, "/")
	at := "."
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at) // of "." it is "."
			continue
		}
		next := path.Join(at, part)
		info, err := f.root.Lstat(next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("more than %d symbolic links", maxLinks)}
		}
		target, err := f.root.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			at = "."
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return at, nil
}
