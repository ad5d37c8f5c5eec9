package nodefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Trusted reports whether root is uid, or this process where it is not root
// itself. Nobody else may decide what a diagnosis reads, sends or runs.
func Trusted(uid int) bool {
	return uid == 0 || uid == os.Geteuid()
}

// Owned describes name, its links followed, if no other user can change it: the file, every directory on the way and every link belong
// to a [Trusted] user, and group and others cannot write (the group's bits hold
// the mask of an access list, too). A directory with the sticky bit may be
// written by all, since its entries are checked, too.
//
// A tree whose files have no owners, as one in memory, is the caller's own: there
// the modes count alone.
func Owned(tree fs.FS, name string) (info fs.FileInfo, err error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrInvalid}
	}
	if info, err = fs.Lstat(tree, "."); err == nil {
		err = Safe("/", info)
	}
	todo, at := strings.Split(name, "/"), "."
	for links := 0; err == nil && len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		if info, err = fs.Lstat(tree, next); err != nil {
			break
		}
		if err = Safe("/"+next, info); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks || isDoor(next) {
			return nil, &fs.PathError{Op: "lstat", Path: name, Err: errors.New("too many symbolic links, or one into another file tree")}
		}
		var target string
		if target, err = fs.ReadLink(tree, next); path.IsAbs(target) {
			at = "."
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	if err != nil {
		return nil, err
	}
	return info, nil
}

// Safe returns an error that says who else may change what info describes.
func Safe(name string, info fs.FileInfo) error {
	uid, err := owner(info)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	mode := info.Mode()
	switch {
	case !Trusted(uid):
		return fmt.Errorf("%s belongs to user %d", name, uid)
	case mode&fs.ModeSymlink != 0: // its bits mean nothing
	case mode.IsDir() && mode&fs.ModeSticky != 0:
	case mode.Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by others (mode %v)", name, mode)
	}
	return nil
}

// StatProgram describes the program that a process runs, by the kernel's own
// link: its text may name a file of another mount namespace, or one that was
// replaced.
func (f *FS) StatProgram(pid string) (fs.FileInfo, error) {
	return os.Stat(filepath.Join(f.root.Name(), "proc", pid, "exe"))
}
