package noderuntime

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Any user may call a program containerd, and give it an environment.
func TestOnlyRootsProcessesAreBelieved(t *testing.T) {
	t.Parallel()
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	status := func(uids string) func(fstest.MapFS) {
		return func(tree fstest.MapFS) {
			tree["proc/50/status"] = text("Name:\tcontainerd\nUid:\t" + uids + "\nGid:\t0\t0\t0\t0\n")
		}
	}
	mode := func(name string, mode fs.FileMode) func(fstest.MapFS) {
		return func(tree fstest.MapFS) { tree[name] = &fstest.MapFile{Mode: mode} }
	}
	for name, tt := range map[string]struct {
		change   func(tree fstest.MapFS)
		believed bool
	}{
		"of root":                           {func(fstest.MapFS) {}, true},
		"of a user":                         {status("1000\t1000\t1000\t1000"), false},
		"a user's, with root's rights":      {status("1000\t0\t0\t0"), false},
		"root's, with a user's rights":      {status("0\t1000\t1000\t1000"), false},
		"file access of a user":             {status("0\t0\t0\t1000"), false},
		"root of a user's namespace":        {status("100000\t100000\t100000\t100000"), false},
		"a user that the namespace has not": {status("65534\t65534\t65534\t65534"), false},
		"three numbers":                     {status("0\t0\t0"), false},
		"no numbers":                        {status("root"), false},
		"a number that overflows":           {status(strings.Repeat("18446744073709551616\t", 4)), false},
		"no line with users":                {func(tree fstest.MapFS) { tree["proc/50/status"] = text("Name:\tUid:\t0\t0\t0\t0\n") }, false},
		"no status":                         {func(tree fstest.MapFS) { delete(tree, "proc/50/status") }, false},
		"no start":                          {func(tree fstest.MapFS) { delete(tree, "proc/50/stat") }, false},
		"no program":                        {func(tree fstest.MapFS) { delete(tree, "proc/50/exe") }, false},
		"a program that is not there":       {func(tree fstest.MapFS) { tree["proc/50/exe"] = link("/usr/bin/gone") }, false},
		"a program without a path":          {func(tree fstest.MapFS) { tree["proc/50/exe"] = link("program") }, false},
		"in memory":                         {func(tree fstest.MapFS) { tree["proc/50/exe"] = link("/memfd:containerd (deleted)") }, false},
		"replaced by an update":             {func(tree fstest.MapFS) { tree["proc/50/exe"] = link("/usr/bin/program (deleted)") }, true},
		"a directory":                       {func(tree fstest.MapFS) { tree["proc/50/exe"] = link("/usr/bin") }, false},
		"the group may write it":            {mode("usr/bin/program", 0o775), false},
		"all may write it":                  {mode("usr/bin/program", 0o757), false},
		"its own rights":                    {mode("usr/bin/program", 0o755|fs.ModeSetuid), false},
		"its group's rights":                {mode("usr/bin/program", 0o755|fs.ModeSetgid), false},
		"all may write its directory":       {mode("usr/bin", 0o777|fs.ModeDir), false},
		"all may add to its directory":      {mode("usr/bin", 0o777|fs.ModeDir|fs.ModeSticky), true},
		"all may write above":               {mode("usr", 0o777|fs.ModeDir), false},
	} {
		tree := proc()
		add(tree, 50, "containerd", hostNet, firstPID, "HTTPS_PROXY=http://evil")
		tt.change(tree)
		got, ok := Find(tree)
		assert.Equal(t, tt.believed, ok, name)
		assert.Equal(t, tt.believed, got.PID == 50, name)
		tree["proc/50/comm"] = text("kubelet\n")
		tree["proc/50/cmdline"] = text("kubelet\x00")
		_, ok = FindKubelet(tree)
		assert.Equal(t, tt.believed, ok, name)
	}
}

// The user that this process is may say how it pulls itself.
func TestOwnProcessesAreBelieved(t *testing.T) {
	t.Parallel()
	if os.Getuid() < 0 {
		t.Skip("no numbers of users")
	}
	tree := proc()
	add(tree, 50, "containerd", hostNet, firstPID, "")
	belongsTo(tree, 50, os.Getuid())
	_, ok := Find(tree)
	assert.True(t, ok)
}

// An older process of a stranger does not take the place of the real one, and the
// runtime that it names as kubelet does not either.
func TestAStrangersKubeletChoosesNothing(t *testing.T) {
	t.Parallel()
	tree := proc()
	start(tree, 50, "kubelet", "kubelet --container-runtime-endpoint=unix:///run/crio/crio.sock")
	belongsTo(tree, 50, 1000)
	start(tree, 60, "containerd", "containerd --config /tmp/evil.toml")
	belongsTo(tree, 60, 1000)
	start(tree, 812, "containerd", "containerd")
	start(tree, 813, "crio", "crio")
	got, ok := Find(tree)
	require.True(t, ok)
	assert.Equal(t, 812, got.PID)
	assert.Empty(t, got.ConfigFile)
	assert.Empty(t, got.Rivals)
}

// swapping gives a process's number to another one as soon as its environment is
// opened, or lets it run another program.
type swapping struct {
	fstest.MapFS
	after  string
	change func(tree fstest.MapFS)
}

func (s swapping) Open(name string) (fs.File, error) {
	f, err := s.MapFS.Open(name)
	if name == s.after {
		s.change(s.MapFS)
	}
	return f, err
}

func TestANumberThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(tree fstest.MapFS){
		"another process": func(tree fstest.MapFS) { belongsTo(tree, 50, 0); tree["proc/50/stat"] = tree["proc/1/stat"] },
		"another user":    func(tree fstest.MapFS) { belongsTo(tree, 50, 1000) },
		"another program": func(tree fstest.MapFS) {
			tree["usr/bin/other"] = &fstest.MapFile{Mode: 0o755}
			tree["proc/50/exe"] = link("/usr/bin/other")
		},
		"gone": func(tree fstest.MapFS) { delete(tree, "proc/50/stat") },
	} {
		for _, file := range []string{"comm", "cmdline", "environ", "status"} {
			tree := proc()
			start(tree, 50, "containerd", "containerd")
			_, ok := Find(tree)
			require.True(t, ok)
			_, ok = Find(swapping{tree, "proc/50/" + file, change})
			if name == "another process" && file == "comm" || name == "another program" && file == "comm" || name == "another program" && file == "status" {
				continue // it is the new one from the start, and of root
			}
			assert.False(t, ok, "%s after %s", name, file)
		}
	}
}

func FuzzCheckUsers(f *testing.F) {
	f.Add("Name:\tx\nUid:\t0\t0\t0\t0\n")
	f.Add("Uid:\t1000\t0\t0\t0")
	f.Fuzz(func(t *testing.T, status string) {
		if checkUsers(status) == nil && !strings.Contains(status, "Uid:") {
			t.Fatal(status)
		}
	})
}
