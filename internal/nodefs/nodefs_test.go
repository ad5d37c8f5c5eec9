package nodefs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tree writes files and links below a new directory. "-> x" is a link to x.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			if err := os.Symlink(target, path); err != nil {
				t.Skip("no symbolic links here: ", err)
			}
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

func open(t *testing.T, files map[string]string) *FS {
	t.Helper()
	f, err := New(tree(t, files))
	require.NoError(t, err)
	return f
}

func TestLinks(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("of the reader"), 0o600))
	f := open(t, map[string]string{
		"run/systemd/resolve/stub-resolv.conf": "nameserver 127.0.0.53",
		"run/systemd/resolve/resolv.conf":      "nameserver 10.20.0.2",
		"etc/hosts":                            "plain",
		"etc/resolv.conf":                      "-> ../run/systemd/resolve/stub-resolv.conf",
		"etc/resolv.abs":                       "-> /run/systemd/resolve/resolv.conf",
		"etc/twice":                            "-> resolv.abs",
		"etc/up":                               "-> ../../../../../../etc/hosts",
		"etc/out":                              "-> " + outside,
		"etc/root":                             "-> /",
		"etc/slash":                            "-> //etc//./hosts",
		"var/run":                              "-> /run",
		"var/back":                             "-> run/../etc/hosts", // the kernel resolves run first: /run/.. is /
		"loop/a":                               "-> b",
		"loop/b":                               "-> /loop/a",
		"loop/self":                            "-> self",
		"loop/grows":                           "-> grows/x",
		"dangling":                             "-> /nowhere",
		"through":                              "-> etc/hosts/x",
	})
	for name, want := range map[string]string{
		"etc/hosts":                           "plain",
		"etc/resolv.conf":                     "nameserver 127.0.0.53",
		"etc/resolv.abs":                      "nameserver 10.20.0.2",
		"etc/twice":                           "nameserver 10.20.0.2",
		"etc/up":                              "plain",
		"etc/slash":                           "plain",
		"etc/root/etc/root/etc/hosts":         "plain",
		"var/run/systemd/resolve/resolv.conf": "nameserver 10.20.0.2",
		"var/back":                            "plain",
	} {
		raw, err := fs.ReadFile(f, name)
		require.NoError(t, err, name)
		assert.Equal(t, want, string(raw), name)
	}
	for _, name := range []string{"etc/out", "dangling", "nothing", "etc/nothing"} {
		_, err := f.Open(name)
		assert.ErrorIs(t, err, fs.ErrNotExist, name)
	}
	for _, name := range []string{"loop/a", "loop/self", "loop/grows", "loop/a/b"} {
		_, err := f.Open(name)
		assert.ErrorContains(t, err, "more than 40 symbolic links", name)
	}
	_, err := f.Open("through")
	assert.Error(t, err)
	for _, name := range []string{"", "/etc/hosts", "../etc", "etc/../etc/hosts", "etc/", "./etc"} {
		_, err := f.Open(name)
		assert.ErrorIs(t, err, fs.ErrInvalid, name)
		_, err = f.ReadLink(name)
		assert.ErrorIs(t, err, fs.ErrInvalid, name)
		_, err = f.Lstat(name)
		assert.ErrorIs(t, err, fs.ErrInvalid, name)
	}
	entries, err := fs.ReadDir(f, "var/run/systemd/resolve")
	require.NoError(t, err)
	assert.Len(t, entries, 2)
}

func TestReadLinkAndLstat(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{"etc/hosts": "x", "etc/link": "-> /etc/hosts", "alias": "-> /etc", "proc/self": "-> 7", "proc/7/ns/net": "-> net:[4026531840]"})
	for name, want := range map[string]string{"etc/link": "/etc/hosts", "alias/link": "/etc/hosts", "alias": "/etc", "proc/self/ns/net": "net:[4026531840]"} {
		got, err := fs.ReadLink(f, name)
		require.NoError(t, err, name)
		assert.Equal(t, want, got)
		info, err := fs.Lstat(f, name)
		require.NoError(t, err, name)
		assert.Equal(t, fs.ModeSymlink, info.Mode().Type())
	}
	_, err := f.ReadLink("etc/hosts")
	assert.Error(t, err)
	info, err := f.Lstat("alias/hosts")
	require.NoError(t, err)
	assert.True(t, info.Mode().IsRegular())
	info, err = fs.Stat(f, "etc/link")
	require.NoError(t, err)
	assert.True(t, info.Mode().IsRegular())
	info, err = f.Lstat(".")
	require.NoError(t, err)
	assert.True(t, info.IsDir())
}

// The doors of /proc are not looked up by their text.
func TestDoors(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{
		"etc/resolv.conf": "the node's", "bin/containerd": "x",
		"proc/12/root": "-> /", "proc/12/cwd": "-> /etc", "proc/12/exe": "-> /bin/containerd", "proc/12/fd/3": "-> /etc/resolv.conf",
		"proc/12/task/12/root": "-> /", "proc/self": "-> 12", "srv/12/root": "-> /",
	})
	for _, name := range []string{"proc/12/root/etc/resolv.conf", "proc/self/root/etc/resolv.conf", "proc/12/cwd/resolv.conf", "proc/12/fd/3", "proc/12/task/12/root/etc/resolv.conf", "proc/12/root"} {
		_, err := f.Open(name)
		assert.ErrorIs(t, err, errDoor, name)
	}
	for _, name := range []string{"proc/12/exe", "srv/12/root/etc/resolv.conf"} {
		_, err := fs.ReadFile(f, name)
		assert.NoError(t, err, name)
	}
	target, err := f.ReadLink("proc/12/root")
	require.NoError(t, err, "its text may be read")
	assert.Equal(t, "/", target)
}

func TestNewNamesTheRoot(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "host")
	_, err := New(missing)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, missing)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = New(file)
	assert.ErrorContains(t, err, file)

	_, err = New("")
	assert.Error(t, err)
}

func TestConforms(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{"etc/hosts": "x", "etc/empty": "", "etc/ssl/certs/a.pem": "-> ../b.pem", "etc/ssl/b.pem": "pem", "abs": "-> /etc/hosts", "dir": "-> etc/ssl"})
	require.NoError(t, fstest.TestFS(f, "etc/hosts", "etc/empty", "etc/ssl/certs/a.pem", "abs"))
	sub, err := fs.Sub(f, "etc")
	require.NoError(t, err)
	raw, err := fs.ReadFile(sub, "hosts")
	require.NoError(t, err)
	assert.Equal(t, "x", string(raw))
}

var (
	_ fs.FS         = (*FS)(nil)
	_ fs.ReadLinkFS = (*FS)(nil)
)
