package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pluginrun"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// Kubelet is what the node's kubelet offers, read from its files and its command line.
// run says that its plugins are to be run, as child processes.
func (v *View) Kubelet(given authn.Keychain, run bool) *tlsauth.Kubelet {
	var secrets []tlsauth.PullSecret
	if own, ok := given.(*tlsauth.Kubelet); ok {
		secrets = own.Secrets
	}
	if v.FS == nil {
		return &tlsauth.Kubelet{Secrets: secrets, Unseen: "the node has no file tree to look at"}
	}
	process, seen := noderuntime.FindKubelet(v.FS)
	if v.ownRoot && seen && !process.SameFiles {
		return &tlsauth.Kubelet{Secrets: secrets, Unseen: "the kubelet has another file tree than this process, so its credentials are not known"}
	}
	if len(process.Rivals) > 0 {
		return &tlsauth.Kubelet{Secrets: secrets, Unseen: fmt.Sprintf("several kubelets run here with other settings, so it is not known whose credentials count: process %d, %s", process.PID, strings.Join(process.Rivals, ", "))}
	}
	k := tlsauth.NodeKubelet(v.FS, process.Args, process.Environ)
	k.Secrets = secrets
	if !seen {
		k.Unseen = "the kubelet's process was not seen, so its credential providers are not known"
	}
	switch {
	case !run:
		k.NotRun = "nobody asked for it"
	case !v.ownRoot:
		k.NotRun = "plugins are run from the node's own root only"
	default:
		k.RunPlugin = (&plugins{dir: k.PluginDir, environ: process.Environ}).RunPlugin
	}
	return k
}

// plugins runs each plugin once per question, as the kubelet keeps an answer. As
// there, no question waits for another: its time would run out meanwhile.
type plugins struct {
	dir     string
	environ map[string]string // of the kubelet's process

	mu    sync.Mutex
	calls map[string]*pluginCall // by question
}

// pluginCall is one question, and its answer.
type pluginCall struct {
	turn     chan struct{} // capacity 1: waited for on a channel, so that the end of a context is heard
	answered bool
	out      []byte
	err      error
}

// call returns the one that has this question.
func (p *plugins) call(question string) *pluginCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.calls[question]
	if c == nil {
		if p.calls == nil {
			p.calls = map[string]*pluginCall{}
		}
		c = &pluginCall{turn: make(chan struct{}, 1)}
		p.calls[question] = c
	}
	return c
}

// String tells nothing: an answer holds secrets.
func (p *plugins) String() string { return "credential provider plugins of " + p.dir }

// GoString keeps %#v from printing answers.
func (p *plugins) GoString() string { return p.String() }

// RunPlugin runs the program of a call below the kubelet's own directory.
func (p *plugins) RunPlugin(ctx context.Context, call tlsauth.PluginCall) ([]byte, error) {
	if !path.IsAbs(p.dir) || path.Dir(call.Path) != path.Clean(p.dir) {
		return nil, errors.New("it is not below the kubelet's directory of plugins")
	}
	own := p.call(call.Path + "\x00" + string(call.Input))
	select {
	case own.turn <- struct{}{}:
		defer func() { <-own.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if own.answered {
		return bytes.Clone(own.out), own.err
	}
	env := append(pluginrun.Inherited(p.environ), call.Env...)
	out, err := pluginrun.Run(ctx, call.Path, call.Args, env, call.Input)
	if ctx.Err() == nil {
		own.answered, own.out, own.err = true, bytes.Clone(out), err
	}
	return out, err
}
