package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
)

// static builds the agent as the README says.
func static(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", file, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

// One file is all that a node needs: no interpreter, no libraries.
func TestStatic(t *testing.T) {
	f, err := elf.Open(static(t))
	require.NoError(t, err)
	defer f.Close()
	for _, p := range f.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type)
	}
	libraries, err := f.ImportedLibraries()
	require.NoError(t, err)
	require.Empty(t, libraries)
}

// node is process 1 of a node: it starts a runtime, and then a container in
// namespaces of its own that has of the node what the manifest mounts. Every
// capability but those in $CAPS is gone.
const node = `
set -e
mount --make-rprivate /
mount -t proc proc /proc
if [ -n "$ATTACK" ]; then # a user without rights, before the runtime starts
	HTTPS_PROXY=http://127.0.0.1:8 setpriv --reuid=65534 --regid=65534 --clear-groups ./containerd 600 &
	until [ "$(cat /proc/$!/comm)" = containerd ]; do kill -0 $!; done
	HOME=$PWD setpriv --reuid=65534 --regid=65534 --clear-groups ./kubelet 600 &
	until [ "$(cat /proc/$!/comm)" = kubelet ]; do kill -0 $!; done
fi
HTTPS_PROXY=http://127.0.0.1:9 ./containerd 600 &
until [ "$(cat /proc/$!/comm)" = containerd ]; do kill -0 $!; done
unshare --pid --mount --fork sh -e -c '
	mount --make-rprivate /
	mount --bind /proc host/proc
	mount -o remount,bind,ro host/proc
	mount -t proc proc /proc
	exec setpriv --no-new-privs --inh-caps=-all --bounding-set="-all$CAPS" \
		./agent -once -host-root="$PWD/host/proc/1/root" -node=node-7 -budget=5s 127.0.0.1:9/team/app:v1
'
`

// What the manifest gives is enough, and one capability less is not.
func TestLeastPrivilege(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root")
	}
	for _, program := range []string{"unshare", "setpriv", "mount", "sleep"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "--pid", "--mount", "--fork", "mount", "-t", "proc", "proc", "/proc").CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, out)
	}
	dir := filepath.Dir(static(t))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "host/proc"), 0o755))
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	program, err := os.ReadFile(sleep)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "containerd"), program, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kubelet"), program, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711)) // the other user has to reach it
	look := func(capabilities string, more ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "unshare", "--pid", "--mount", "--fork", "sh", "-c", node)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
		cmd.Env = append(append(os.Environ(), "CAPS="+capabilities), more...)
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode(), out.String(), errs.String()
	}

	code, stdout, stderr := look(",+sys_ptrace")
	require.Equal(t, exitFailed, code, "%s %s", stdout, stderr)
	var res pullwalk.Result
	require.NoError(t, json.Unmarshal([]byte(stdout), &res))
	require.Equal(t, "containerd", res.Vantage.Runtime)
	require.Contains(t, res.Vantage.Proxy, "environment of containerd")
	require.Equal(t, "/etc/resolv.conf", res.Vantage.ResolverFile)
	require.NotEqual(t, "other", res.Vantage.NetworkNamespace)

	// Another user's containerd, which is older, and his kubelet decide nothing.
	code, stdout, stderr = look(",+sys_ptrace", "ATTACK=1")
	require.Equal(t, exitFailed, code, "%s %s", stdout, stderr)
	var attacked pullwalk.Result
	require.NoError(t, json.Unmarshal([]byte(stdout), &attacked))
	require.Equal(t, "containerd", attacked.Vantage.Runtime)
	require.Greater(t, attacked.Vantage.RuntimePID, res.Vantage.RuntimePID, "the second of that name")
	require.Contains(t, attacked.Vantage.Proxy, "environment of containerd")
	require.Contains(t, stdout, "127.0.0.1:9")
	require.NotContains(t, stdout, "127.0.0.1:8")
	require.NotContains(t, attacked.Vantage.Identity, dir)

	code, stdout, stderr = look("")
	require.Equal(t, exitInvalid, code, "%s %s", stdout, stderr)
	require.True(t, strings.Contains(stderr, "permission denied"), stderr)
}
