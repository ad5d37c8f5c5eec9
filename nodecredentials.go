package pullwalk

import (
	"bytes"
	"context"
	"errors"
	"path"

	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pluginrun"
	"github.com/pullwalk/pullwalk/tlsauth"
)

func (o *Options) wantsNodeCredentials() bool { return o.NodeCredentials || o.RunPlugins }

func (o *Options) validateCredentials() error {
	if !o.wantsNodeCredentials() || o.Keychain == nil {
		return nil
	}
	switch k, ok := o.Keychain.(*tlsauth.Kubelet); {
	case !ok:
		return errors.New("pullwalk: NodeCredentials and RunPlugins need no Keychain, or a *tlsauth.Kubelet")
	case k == nil || k.FS != nil:
		return errors.New("pullwalk: NodeCredentials and RunPlugins need a *tlsauth.Kubelet without FS, with nothing but pull secrets")
	}
	return nil
}

// kubelet is what the node's kubelet offers, read from its files and its command
// line; nil = nobody asked.
func (d *diagnosis) kubelet(v *view) *tlsauth.Kubelet {
	if !d.opts.wantsNodeCredentials() {
		return nil
	}
	var secrets []tlsauth.PullSecret
	if given, ok := d.opts.Keychain.(*tlsauth.Kubelet); ok {
		secrets = given.Secrets
	}
	if v.FS == nil {
		return &tlsauth.Kubelet{Secrets: secrets, Unseen: "the node has no file tree to look at"}
	}
	process, seen := noderuntime.FindKubelet(v.FS)
	if v.ownRoot && seen && !process.SameFiles {
		return &tlsauth.Kubelet{Secrets: secrets, Unseen: "the kubelet has another file tree than this process, so its credentials are not known"}
	}
	k := tlsauth.NodeKubelet(v.FS, process.Args, process.Environ)
	k.Secrets = secrets
	if !seen {
		k.Unseen = "the kubelet's process was not seen, so its credential providers are not known"
	}
	switch {
	case !d.opts.RunPlugins:
		k.NotRun = "nobody asked for it"
	case !v.ownRoot:
		k.NotRun = "plugins are run from the node's own root only"
	default:
		k.Plugins = &plugins{dir: k.PluginDir, environ: process.Environ, turn: make(chan struct{}, 1), answers: map[string]pluginAnswer{}}
	}
	return k
}

// plugins runs each plugin once per question, as the kubelet keeps an answer.
type plugins struct {
	dir     string
	environ map[string]string // of the kubelet's process
	turn    chan struct{}     // capacity 1: waited for on a channel, so that the end of a context is heard
	answers map[string]pluginAnswer
}

type pluginAnswer struct {
	out []byte
	err error
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
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	key := call.Path + "\x00" + string(call.Input)
	if known, ok := p.answers[key]; ok {
		return bytes.Clone(known.out), known.err
	}
	env := make([]string, 0, len(p.environ)+len(call.Env))
	for name, value := range p.environ {
		env = append(env, name+"="+value)
	}
	out, err := pluginrun.Run(ctx, call.Path, call.Args, append(env, call.Env...), call.Input)
	if ctx.Err() == nil {
		p.answers[key] = pluginAnswer{bytes.Clone(out), err}
	}
	return out, err
}

// needsNoSecrets takes back that it matters what the kubelet would offer: the
// registry answered without asking for it.
func (s *source) needsNoSecrets(reg *endpoint) {
	s.eachStep(func(e *endpoint, st *step) {
		if e == reg && st.ID == StepSecrets && st.Status == StatusInconclusive {
			st.Status, st.Reason = StatusSkipped, "the registry asks for no credential; "+st.Reason
		}
	})
}
