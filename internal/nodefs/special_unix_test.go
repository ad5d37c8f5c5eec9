//go:build unix

package nodefs

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is no file is refused without being opened: nothing here may block.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"to-fifo": "-> /fifo", "to-socket": "-> socket"})
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err == nil {
		t.Cleanup(func() { _ = l.Close() })
	}
	f, err := New(dir)
	require.NoError(t, err)
	for _, name := range []string{"fifo", "to-fifo"} {
		_, err := f.Open(name)
		assert.ErrorContains(t, err, "not a regular file", name)
		var where *fs.PathError
		require.ErrorAs(t, err, &where)
		assert.Equal(t, name, where.Path)
	}
	if l != nil {
		_, err = f.Open("to-socket")
		assert.Error(t, err)
	}
}

func TestDevice(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/null"); err != nil {
		t.Skip("no /dev here: ", err)
	}
	f, err := New("/dev")
	if err != nil {
		t.Skip("/dev cannot be read: ", err)
	}
	_, err = f.Open("null")
	assert.ErrorContains(t, err, "not a regular file")
}

func TestUnreadableRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	dir := filepath.Join(t.TempDir(), "host")
	require.NoError(t, os.Mkdir(dir, 0))
	_, err := New(dir)
	assert.ErrorIs(t, err, fs.ErrPermission)
	assert.ErrorContains(t, err, dir)
}
