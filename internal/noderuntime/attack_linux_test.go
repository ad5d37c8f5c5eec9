package noderuntime

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/nodefs"
)

const lookEnv = "PULLWALK_TEST_LOOK"

// node is process 1 of a machine with a second user, 65534. What $ATTACK starts is
// older than the real runtime. The last program is this test, as a diagnosis of root.
const node = `
set -e
mount --make-rprivate /
mount -t proc proc /proc
as_user() { exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
runs() { # the process $1 has become $2
	n=0
	until [ "$(cat /proc/$1/comm)" = "$2" ]; do
		kill -0 $1; n=$((n+1)); [ $n -lt 2000 ]
	done
}
eval "$ATTACK"
if [ -n "$REAL" ]; then
	HTTPS_PROXY=http://real:1 ./containerd 600 &
	runs $! containerd
fi
exec ./look -test.run='^TestLook$' -test.v
`

// TestLook is what a diagnosis sees; it is run by TestAttacks.
func TestLook(t *testing.T) {
	if os.Getenv(lookEnv) == "" {
		t.Skip("run by TestAttacks")
	}
	tree, err := nodefs.New("/")
	require.NoError(t, err)
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries { // what the name alone says
		if name := nameOf(tree, e.Name()); isPuller(name) {
			t.Logf("NAME %s %s", name, environ(tree, e.Name())["HTTPS_PROXY"])
		}
	}
	r, _ := Find(tree)
	t.Logf("FOUND %s %s", r.Name, r.Environ["HTTPS_PROXY"])
	k, ok := FindKubelet(tree)
	t.Logf("KUBELET %t %s", ok, k.Environ["HTTPS_PROXY"])
}

// A user without rights who runs programs of the right names, before the real
// runtime starts, decides nothing.
func TestAttacks(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("not root: no second user")
	}
	for _, program := range []string{"unshare", "setpriv", "mount", "sleep"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "--pid", "--mount", "--fork", "mount", "-t", "proc", "proc", "/proc").CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, out)
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711)) // the other user has to reach it
	copyTo := func(name, from string, mode os.FileMode, uid int) {
		data, err := os.ReadFile(from)
		require.NoError(t, err)
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, data, 0o755))
		require.NoError(t, os.Chown(file, uid, uid))
		require.NoError(t, os.Chmod(file, mode))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	copyTo("look", self, 0o755, 0)
	copyTo("containerd", sleep, 0o755, 0)
	copyTo("theirs/containerd", sleep, 0o755, 65534)
	copyTo("theirs/kubelet", sleep, 0o755, 65534)
	copyTo("setuid/containerd", sleep, os.ModeSetuid|0o755, 0)
	copyTo("open/containerd", sleep, 0o777, 0)
	copyTo("in/anyones/containerd", sleep, 0o755, 0)
	require.NoError(t, os.Chmod(filepath.Join(dir, "in/anyones"), 0o777))

	const evil = "HTTPS_PROXY=http://evil:1 "
	for name, attack := range map[string]string{
		"a program of his":          evil + "as_user ./theirs/containerd 600 & runs $! containerd",
		"a program of root":         evil + "as_user ./containerd 600 & runs $! containerd",
		"a kubelet beside it":       evil + "as_user ./theirs/kubelet 600 & runs $! kubelet; " + evil + "as_user ./theirs/containerd 600 & runs $! containerd",
		"a program that is setuid":  evil + "as_user ./setuid/containerd 600 & runs $! containerd",
		"root in his own namespace": evil + "as_user unshare --user --map-root-user ./containerd 600 & runs $! containerd",
		"root runs his program":     evil + "./theirs/containerd 600 & runs $! containerd",
		"root runs what all write":  evil + "./open/containerd 600 & runs $! containerd",
		"in a directory of all":     evil + "./in/anyones/containerd 600 & runs $! containerd",
	} {
		t.Run(name, func(t *testing.T) {
			look := func(attack, real string) string {
				var out bytes.Buffer
				cmd := exec.CommandContext(t.Context(), "unshare", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c", node)
				cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
				cmd.Env = append(os.Environ(), "ATTACK="+attack, "REAL="+real, lookEnv+"=1")
				if err := cmd.Run(); err != nil && strings.Contains(attack, "--user") {
					t.Skip("no user namespaces here: ", out.String())
				} else {
					require.NoError(t, err, out.String())
				}
				return out.String()
			}
			alone := look(attack, "")
			require.Contains(t, alone, "NAME containerd http://evil:1", "the attack: by its name it would be the runtime")
			assert.Contains(t, alone, "FOUND  \n")
			assert.Contains(t, alone, "KUBELET false \n")
			assert.Contains(t, look(attack, "1"), "FOUND containerd http://real:1\n")
		})
	}
}
