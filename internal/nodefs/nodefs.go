// Package nodefs reads a file tree that is mounted somewhere else as if it were
// the root: absolute symbolic links stay inside it.
//
// os.DirFS follows an absolute link into the reader's own root (an agent would
// read the resolv.conf of its pod), and os.Root refuses it (systemd makes
// /etc/resolv.conf such a link). Neither will do for a host tree mounted into a
// container.
//
// The links root, cwd and fd/N that /proc shows for a process are no texts but
// doors into that process's own tree; what they read as would be looked up in
// the wrong one. They are refused.
package nodefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
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

// Open opens name, following links inside the tree. Only regular files and
// directories open: a FIFO or a device would hold a reader for ever, or do
// something at the mere opening.
func (f *FS) Open(name string) (fs.File, error) {
	real, err := f.resolve("open", name)
	if err != nil {
		return nil, err
	}
	info, err := f.root.Lstat(real)
	if err != nil {
		return nil, err
	}
	if err := plain(name, info); err != nil {
		return nil, err
	}
	// Somebody may put a FIFO there between the look and the opening: it must not
	// block here, and is looked at once more. On Windows the flag means nothing.
	file, err := f.root.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = file.Stat(); err == nil {
		err = plain(name, info)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func plain(name string, info fs.FileInfo) error {
	if info.Mode().IsRegular() || info.IsDir() {
		return nil
	}
	return &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("not a regular file: %v", info.Mode().Type())}
}

var errDoor = errors.New("leads into the file tree of a process, which is not this one")

// isDoor knows the links of proc(5) that are followed by the kernel and not by
// their text.
func isDoor(name string) bool {
	parts := strings.Split(name, "/")
	if n := len(parts); n > 2 && parts[n-2] == "fd" { // proc/PID/fd/N, proc/PID/task/TID/fd/N
		parts = parts[:n-1]
	}
	if parts[0] != "proc" || len(parts) != 3 && (len(parts) != 5 || parts[2] != "task") {
		return false
	}
	switch parts[len(parts)-1] {
	case "root", "cwd", "fd":
		return true
	}
	return false
}

// ReadLink returns the text of the link name itself.
func (f *FS) ReadLink(name string) (string, error) {
	dir, err := f.parent("readlink", name)
	if err != nil {
		return "", err
	}
	return f.root.Readlink(path.Join(dir, path.Base(name)))
}

// Lstat describes name itself, without following it if it is a link.
func (f *FS) Lstat(name string) (fs.FileInfo, error) {
	dir, err := f.parent("lstat", name)
	if err != nil {
		return nil, err
	}
	return f.root.Lstat(path.Join(dir, path.Base(name)))
}

// parent returns the path, without links, of the directory that holds name.
func (f *FS) parent(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return f.resolve(op, path.Dir(name))
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
		if isDoor(next) {
			return "", &fs.PathError{Op: op, Path: name, Err: errDoor}
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
