package pluginrun

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// script is a plugin.
func script(t *testing.T, body string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	name := filepath.Join(t.TempDir(), "plugin")
	require.NoError(t, os.WriteFile(name, []byte("#!/bin/sh\n"+body), 0o755))
	return name
}

func TestRun(t *testing.T) {
	t.Setenv("PULLWALK_OWN", "secret-of-this-process")
	for name, tt := range map[string]struct {
		body, want, err string
	}{
		"input, arguments, environment": {`cat; echo " $1 $A"`, "request one b\n", ""},
		"nothing of this process":       {`echo "[$PULLWALK_OWN]"; pwd`, "[]\n/\n", ""},
		"it fails":                      {"echo too bad >&2; exit 3", "", "exit status 3: too bad"},
		"it fails silently":             {"exit 3", "", "exit status 3"},
		"it talks too much":             {"head -c 2000000 /dev/zero", "", "more than 1 MiB"},
		"it fails with many words":      {"head -c 2000000 /dev/zero | tr '\\0' x >&2; exit 1", "", "xxxx"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Run(t.Context(), script(t, tt.body), []string{"one"}, []string{"A=b", "PATH=/usr/bin:/bin"}, []byte("request"))
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				assert.LessOrEqual(t, len(err.Error()), maxWords+100)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(out))
		})
	}
	_, err := Run(t.Context(), "plugin", nil, nil, nil)
	require.ErrorContains(t, err, "want an absolute path")
	_, err = Run(t.Context(), filepath.Join(t.TempDir(), "gone"), nil, nil, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Whoever can change the file, or put another one in its place, would be run.
func TestOnlyWhatNobodyElseCanChangeRuns(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, dir, file string) error{
		"the file is writable":      func(_ *testing.T, _, file string) error { return os.Chmod(file, 0o777) },
		"the directory is writable": func(_ *testing.T, dir, _ string) error { return os.Chmod(dir, 0o777) },
		"the file is another user's": func(t *testing.T, _, file string) error {
			return chown(t, file)
		},
		"the directory is another user's": func(t *testing.T, dir, _ string) error { return chown(t, dir) },
		"the link is another user's": func(t *testing.T, dir, file string) error {
			if err := os.Rename(file, dir+"/real"); err != nil {
				return err
			}
			if err := os.Symlink("real", file); err != nil {
				return err
			}
			return chown(t, file)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := script(t, "echo run")
			_, err := Run(t.Context(), file, nil, nil, nil)
			require.NoError(t, err)
			require.NoError(t, change(t, filepath.Dir(file), file))
			out, err := Run(t.Context(), file, nil, nil, nil)
			require.Error(t, err)
			require.Regexp(t, "can be written by others|belongs to user", err.Error())
			require.Empty(t, out)
		})
	}
	_, err := Run(t.Context(), filepath.Dir(script(t, "")), nil, nil, nil)
	require.ErrorContains(t, err, "want a program")
}

func chown(t *testing.T, name string) error {
	if os.Getuid() != 0 {
		t.Skip("not root: no files of another user")
	}
	return os.Lchown(name, 65534, 65534)
}

// A program that has several names hears by which it is called.
func TestTheNameOfALink(t *testing.T) {
	t.Parallel()
	file := script(t, "echo $0")
	link := filepath.Join(filepath.Dir(file), "other")
	require.NoError(t, os.Symlink("plugin", link))
	out, err := Run(t.Context(), link, nil, nil, nil)
	require.NoError(t, err)
	require.Equal(t, link+"\n", string(out))
}

func TestInherited(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"AWS_REGION=west", "HOME=/root", "HTTPS_PROXY=http://p:1", "PATH=/bin"}, Inherited(map[string]string{
		"PATH": "/bin", "HOME": "/root", "HTTPS_PROXY": "http://p:1", "AWS_REGION": "west",
		"LD_PRELOAD": "/tmp/evil.so", "LD_LIBRARY_PATH": "/tmp", "LD_AUDIT": "x", "DYLD_INSERT_LIBRARIES": "x", "GLIBC_TUNABLES": "x", "GCONV_PATH": "/tmp",
		"BASH_ENV": "/tmp/evil.sh", "ENV": "/tmp/evil.sh", "BASH_FUNC_ls%%": "() { evil; }", "PYTHONPATH": "/tmp", "PERL5OPT": "x", "NODE_OPTIONS": "x",
	}))
}

// A plugin that hangs ends with its context, and so does what it started.
func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	late := filepath.Join(dir, "late")
	plugin := script(t, "(sleep 0.7; echo x >"+late+") & sleep 30")
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, enough)
	defer cancel()
	start := time.Now()
	_, err := Run(ctx, plugin, nil, []string{"PATH=/usr/bin:/bin"}, nil)
	require.ErrorIs(t, err, enough)
	require.Less(t, time.Since(start), 2*time.Second)
	require.Never(t, func() bool { _, err := os.Stat(late); return err == nil }, 900*time.Millisecond, 100*time.Millisecond, "the child lives on")
}

func TestBounded(t *testing.T) {
	t.Parallel()
	b := &bounded{limit: 5}
	for range 3 {
		n, err := b.Write([]byte("abc"))
		require.NoError(t, err)
		require.Equal(t, 3, n)
	}
	require.Equal(t, "abcab", b.String())
	require.Equal(t, 5, b.len())
	require.False(t, strings.Contains(string(b.Bytes()), "abcabc"))
}
