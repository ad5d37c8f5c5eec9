package dnscheck

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/nodefs"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
)

const helperFile = "PULLWALK_TEST_RESOLV_CONF"

// TestRuntimeHelper is no test: it is the "runtime" of the one below, in a mount
// namespace of its own with another resolv.conf.
func TestRuntimeHelper(t *testing.T) {
	file := os.Getenv(helperFile)
	if file == "" {
		t.Skip("only run by TestRuntimeMountNamespace")
	}
	require.NoError(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	require.NoError(t, syscall.Mount(file, "/etc/resolv.conf", "", syscall.MS_BIND, ""))
	fmt.Println("mounted")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
}

// A real process in a mount namespace of its own: its resolv.conf counts, and the
// host's is only a view.
func TestRuntimeMountNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: no mount namespace")
	}
	if _, err := os.Stat("/etc/resolv.conf"); err != nil {
		t.Skip("no /etc/resolv.conf to mount over")
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "resolv.conf")
	require.NoError(t, os.WriteFile(conf, []byte("nameserver 10.99.0.53\n"), 0o644))
	self, err := os.Executable()
	require.NoError(t, err)
	binary := filepath.Join(dir, "containerd") // the name of a process is that of its file
	data, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(binary, data, 0o755))

	cmd := exec.Command(binary, "-test.run=^TestRuntimeHelper$", "-test.v")
	cmd.Env = append(os.Environ(), helperFile+"="+conf)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	if err := cmd.Start(); err != nil {
		t.Skip("no mount namespace here: ", err)
	}
	defer func() {
		in.Close()
		_ = cmd.Wait()
	}()
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said = append(said, lines.Text())
		if strings.HasSuffix(lines.Text(), "mounted") {
			break
		}
	}
	if n := len(said); n == 0 || !strings.HasSuffix(said[n-1], "mounted") {
		t.Skip("no mount in a mount namespace here: ", strings.Join(said, "; "))
	}

	tree, err := nodefs.New("/")
	require.NoError(t, err)
	if rt, ok := noderuntime.Find(tree); !ok || rt.PID != cmd.Process.Pid {
		t.Skip("another runtime runs on this machine: ", rt.Name)
	}
	s := ReadSettings(SourcesAt("/"))
	assert.Equal(t, fmt.Sprintf("runtime containerd (process %d)", cmd.Process.Pid), s.Source)
	require.NotEmpty(t, s.Nameservers)
	assert.Equal(t, "10.99.0.53:53", s.Nameservers[0].String())
	require.NotEmpty(t, s.Views)
	assert.Equal(t, "this machine", s.Views[0].Source)
	assert.NotEqual(t, s.Nameservers, s.Views[0].Nameservers)
}
