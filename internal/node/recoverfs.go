package node

import (
	"errors"
	"io"
	"io/fs"
)

// guardedFS is a caller's file tree whose panics are errors. It asks for what the
// tree may offer beyond Open as package fs does.
type guardedFS struct {
	inner fs.FS
	g     *guard
}

func (t guardedFS) Open(name string) (f fs.File, err error) {
	defer t.g.caught(seamFS, &err)
	f, err = t.inner.Open(name)
	switch {
	case err != nil:
		return nil, err
	case f == nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("neither a file nor an error")}
	}
	guarded := guardedFile{f, t.g}
	if at, ok := f.(io.ReaderAt); ok {
		return guardedFileAt{guarded, at}, nil
	}
	return guarded, nil
}

func (t guardedFS) ReadDir(name string) (list []fs.DirEntry, err error) {
	defer t.g.caught(seamFS, &err)
	return fs.ReadDir(t.inner, name)
}

func (t guardedFS) Stat(name string) (info fs.FileInfo, err error) {
	defer t.g.caught(seamFS, &err)
	return fs.Stat(t.inner, name)
}

func (t guardedFS) Lstat(name string) (info fs.FileInfo, err error) {
	defer t.g.caught(seamFS, &err)
	return fs.Lstat(t.inner, name)
}

func (t guardedFS) ReadLink(name string) (target string, err error) {
	defer t.g.caught(seamFS, &err)
	return fs.ReadLink(t.inner, name)
}

type guardedFile struct {
	inner fs.File
	g     *guard
}

func (f guardedFile) Stat() (info fs.FileInfo, err error) {
	defer f.g.caught(seamFS, &err)
	return f.inner.Stat()
}

func (f guardedFile) Read(p []byte) (n int, err error) {
	defer f.g.caught(seamFS, &err)
	n, err = f.inner.Read(p)
	return f.within(n, len(p), err)
}

func (f guardedFile) Close() (err error) {
	defer f.g.caught(seamFS, &err)
	return f.inner.Close()
}

// within refuses a count that no reader can mean: slicing by it would panic.
func (f guardedFile) within(n, size int, err error) (int, error) {
	if n < 0 || n > size {
		return 0, f.g.keep(seamFS, "a read returned a count that is out of range")
	}
	return n, err
}

// ReadDir serves what opens a directory itself.
func (f guardedFile) ReadDir(n int) (list []fs.DirEntry, err error) {
	defer f.g.caught(seamFS, &err)
	dir, ok := f.inner.(fs.ReadDirFile)
	if !ok {
		return nil, errors.New("not a directory")
	}
	return dir.ReadDir(n)
}

type guardedFileAt struct {
	guardedFile
	at io.ReaderAt
}

func (f guardedFileAt) ReadAt(p []byte, off int64) (n int, err error) {
	defer f.g.caught(seamFS, &err)
	n, err = f.at.ReadAt(p, off)
	return f.within(n, len(p), err)
}
