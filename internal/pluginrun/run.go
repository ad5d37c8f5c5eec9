// Package pluginrun runs one credential provider plugin of the kubelet. It is the
// only place of this module that starts a process, and it does so only where the
// caller of the library asked for it.
package pluginrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/internal/nodefs"
)

// Bounds of what a plugin may say. The kubelet reads at most 1 MiB of its answer.
const (
	maxAnswer = 1 << 20
	maxWords  = 4 << 10
	// afterKill is how long the pipes are waited for when the plugin was ended: a
	// child of its own may hold them open.
	afterKill = 200 * time.Millisecond
)

// Run runs the program at an absolute path, hands it input, and returns what it
// wrote to its standard output. It runs only what no other user can change, see
// [nodefs.Owned]. env is its whole environment, so that nothing of this process is
// inherited by accident. The end of ctx ends the program and all that it started.
// The error holds the end of its standard error, which is not fit to be printed as
// it is.
func Run(ctx context.Context, path string, args, env []string, input []byte) ([]byte, error) {
	if err := owned(path); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append([]string{}, env...) // never nil, which would be this process's own
	cmd.Dir = string(filepath.Separator)
	cmd.Stdin = bytes.NewReader(input)
	answer, words := &bounded{limit: maxAnswer + 1}, &bounded{limit: maxWords}
	cmd.Stdout, cmd.Stderr = answer, words
	cmd.WaitDelay = afterKill
	ownGroup(cmd)
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && words.len() > 0:
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(words.String()))
	case err != nil:
		return nil, err
	case answer.len() > maxAnswer:
		return nil, errors.New("it wrote more than 1 MiB")
	}
	return answer.Bytes(), nil
}

// owned returns an error where somebody else can change a program, or put another
// one in its place before it starts.
func owned(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("want an absolute path, got %q", path)
	}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	tree, err := nodefs.New(root)
	if err != nil {
		return err
	}
	info, err := nodefs.Owned(tree, filepath.ToSlash(filepath.Clean(path)[len(root):]))
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("want a program, got %s (mode %v)", path, info.Mode())
	}
	return err
}

// loaderPrefixes are those of variables that make a program run other code, or
// read other files, than its own: ld.so(8), and the interpreters of scripts. The
// rest of glibc's list, sysdeps/generic/unsecvars.h, stands in loaderNames.
var loaderPrefixes = []string{"LD_", "DYLD_", "BASH_FUNC_", "PYTHON", "PERL5", "RUBY", "NODE_"}

var loaderNames = []string{
	"GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "HOSTALIASES", "LOCALDOMAIN", "LOCPATH", "MALLOC_TRACE", "NIS_PATH", "NLSPATH", "RESOLV_HOST_CONF", "RES_OPTIONS", "TMPDIR", "TZDIR",
	"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS",
}

// Inherited is what a plugin gets of the environment of the kubelet's process: all
// but what makes it run other code than its own.
func Inherited(environ map[string]string) []string {
	out := make([]string, 0, len(environ))
	for name, value := range environ {
		if !slices.Contains(loaderNames, name) && !slices.ContainsFunc(loaderPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			out = append(out, name+"="+value)
		}
	}
	slices.Sort(out)
	return out
}

// bounded keeps the first bytes of a stream and takes the rest without a word, so
// that the writer does not hang. os/exec writes to each from one goroutine.
type bounded struct {
	limit int
	buf   bytes.Buffer
}

func (b *bounded) Write(p []byte) (int, error) {
	b.buf.Write(p[:min(len(p), b.limit-b.buf.Len())])
	return len(p), nil
}

func (b *bounded) len() int       { return b.buf.Len() }
func (b *bounded) String() string { return b.buf.String() }
func (b *bounded) Bytes() []byte  { return b.buf.Bytes() }
