package nodefs

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOwned(t *testing.T) {
	t.Parallel()
	link := func(target string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
	}
	dir := func(mode fs.FileMode) *fstest.MapFile { return &fstest.MapFile{Mode: fs.ModeDir | mode} }
	for name, tt := range map[string]struct {
		tree fstest.MapFS
		size int64
		err  string
	}{
		"a file":                    {fstest.MapFS{"opt/a": {Mode: 0o755, Data: []byte("abc")}}, 3, ""},
		"not there":                 {fstest.MapFS{"opt/b": {}}, 0, "not exist"},
		"writable":                  {fstest.MapFS{"opt/a": {Mode: 0o777}}, 0, "/opt/a can be written by others"},
		"by its group":              {fstest.MapFS{"opt/a": {Mode: 0o020}}, 0, "/opt/a can be written by others"},
		"the directory is writable": {fstest.MapFS{"opt": dir(0o777), "opt/a": {}}, 0, "/opt can be written by others"},
		"the root is writable":      {fstest.MapFS{".": dir(0o777), "opt/a": {}}, 0, "/ can be written by others"},
		"a sticky directory":        {fstest.MapFS{"opt": dir(0o777 | fs.ModeSticky), "opt/a": {Data: []byte("ab")}}, 2, ""},
		"by a link":                 {fstest.MapFS{"opt/a": link("../usr/b"), "usr/b": {Data: []byte("abc")}}, 3, ""},
		"by an absolute link":       {fstest.MapFS{"opt": link("/usr"), "usr/a": {Data: []byte("abc")}}, 3, ""},
		"a link to what all write":  {fstest.MapFS{"opt/a": link("/tmp/b"), "tmp": dir(0o777), "tmp/b": {}}, 0, "/tmp can be written by others"},
		"a link in what all write":  {fstest.MapFS{"opt": dir(0o777), "opt/a": link("/usr/b"), "usr/b": {}}, 0, "/opt can be written by others"},
		"a loop":                    {fstest.MapFS{"opt/a": link("a")}, 0, "too many"},
		"into a process's tree":     {fstest.MapFS{"opt/a": link("/proc/1/root/b"), "proc/1/root": link("/")}, 0, "another file tree"},
	} {
		info, err := Owned(tt.tree, "opt/a")
		if tt.err != "" {
			assert.ErrorContains(t, err, tt.err, name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, tt.size, info.Size(), name)
	}
	_, err := Owned(fstest.MapFS{}, "../x")
	assert.ErrorIs(t, err, fs.ErrInvalid)
	_, err = Owned(fstest.MapFS{"a": {Sys: "whose?"}}, "a")
	assert.ErrorContains(t, err, "owner is not known")
}

// Files of a real second user, which takes root to make.
func TestOwnedByAnother(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("not root: no files of another user")
	}
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "theirs"), 0o755))
	for _, file := range []string{"ours", "given", "theirs/file"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), nil, 0o755))
	}
	require.NoError(t, os.Symlink("../ours", filepath.Join(dir, "theirs/link")))
	require.NoError(t, os.Symlink("ours", filepath.Join(dir, "their-link")))
	for _, file := range []string{"given", "theirs", "their-link"} {
		require.NoError(t, os.Lchown(filepath.Join(dir, file), 65534, 65534))
	}
	tree, err := New(dir)
	require.NoError(t, err)
	_, err = Owned(tree, "ours")
	require.NoError(t, err)
	for file, whose := range map[string]string{"given": "/given", "theirs/file": "/theirs", "theirs/link": "/theirs", "their-link": "/their-link"} {
		_, err = Owned(tree, file)
		assert.ErrorContains(t, err, whose+" belongs to user 65534", file)
	}
}
