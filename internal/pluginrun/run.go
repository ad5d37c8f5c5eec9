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
	"strings"
	"time"
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
// wrote to its standard output. env is its whole environment, so that nothing of
// this process is inherited by accident. The end of ctx ends the program and all
// that it started. The error holds the end of its standard error, which is not
// fit to be printed as it is.
func Run(ctx context.Context, path string, args, env []string, input []byte) ([]byte, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%q is no absolute path", path)
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
