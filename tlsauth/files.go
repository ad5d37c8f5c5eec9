package tlsauth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

// inTree makes an absolute path one of an [fs.FS].
func inTree(name string) string {
	if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name == "" {
		return "."
	}
	return name
}

func readAtMost(fsys fs.FS, name string, limit int) ([]byte, time.Time, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, time.Time{}, err
	}
	if !info.Mode().IsRegular() { // asked before opening: opening a pipe may never return
		return nil, time.Time{}, errors.New("not a regular file")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(data) > limit {
		return nil, time.Time{}, fmt.Errorf("larger than %d bytes", limit)
	}
	return data, info.ModTime(), nil
}

// reason is err without the path that an fs.PathError repeats.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
