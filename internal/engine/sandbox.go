package engine

import (
	"context"
	"errors"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/node"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// sandboxFiles is what the node's files say of its sandbox image.
type sandboxFiles struct {
	noderuntime.Sandbox
	view       *node.View
	ref        registry.Reference
	refErr     error // the name is none: the runtime cannot pull it
	configured []noderuntime.Source
	findings   []classify.Finding
	err        error // what could not be read
	stored     bool
	storedErr  error // why it is not known whether the node has it
}

// readSandbox returns nil where there is nothing that could name a sandbox image.
func readSandbox(v *node.View) *sandboxFiles {
	config := v.Config()
	named, err := config.Sandbox()
	if named.Image == "" && !v.HasRuntime {
		return nil
	}
	f := &sandboxFiles{Sandbox: named, view: v, err: err}
	if named.Image == "" {
		return f
	}
	if f.ref, f.refErr = registry.ParseReference(named.Image); f.refErr != nil {
		return f
	}
	if f.stored, f.storedErr = config.Stored(f.ref); f.stored {
		return f
	}
	var more error
	f.configured, f.findings, more = config.Sources(f.ref)
	f.err = errors.Join(err, more)
	return f
}

// unasked is the result where no packet is needed for it; nil = it must be walked.
func (f *sandboxFiles) unasked() *Sandbox {
	out := &Sandbox{Image: f.Image, File: f.File, Verdict: pull.StatusSkipped}
	switch {
	case f.Image == "" && f.err != nil:
		out.Verdict, out.Reason = pull.StatusInconclusive, "the configuration could not be read from here: "+classify.Redact(f.err.Error(), 300)
	case f.Image == "":
		out.Reason = "no file names one; the runtime takes the one that it was built with"
	case f.refErr != nil:
		finding := classify.Error(f.refErr)
		out.Verdict, out.Primary = pull.StatusFailed, &finding
	case f.stored:
		out.Reason = "the node has it already, so the runtime does not ask for it"
	default:
		return nil
	}
	return out
}

// startSandbox walks the sandbox image beside the image itself. It gets at most half of
// the budget, so that it cannot hold the answer up to the end.
func (c *call) startSandbox(ctx context.Context, f *sandboxFiles) <-chan *Sandbox {
	out := make(chan *Sandbox, 1)
	if f == nil {
		close(out)
		return out
	}
	if s := f.unasked(); s != nil {
		out <- s
		return out
	}
	shared := newCall([]registry.Reference{f.ref}, c.opts)
	o := &shared.opts
	o.Budget, o.Keychain, o.Concurrency = c.opts.Budget/2, nil, c.profile.Parallel
	o.Also, o.Checks, o.Rounds, o.AuditRights = nil, nil, 0, false
	shared.view, shared.profile, shared.settings, shared.notify, shared.stalls = c.view, c.profile, c.settings, c.notify, c.stalls
	shared.prober = shared.newProber()
	own := shared.images[0]
	own.group, own.sandbox = &group{}, f
	go func() {
		ctx, cancel := context.WithTimeoutCause(ctx, o.Budget, pull.ErrBudget)
		defer cancel()
		defer shared.prober.Close()
		began := time.Now()
		seen := own.run(ctx, configured{sources: f.configured, findings: f.findings, err: f.err})
		seen.Elapsed = time.Since(began)
		out <- &Sandbox{Image: f.Image, File: f.File, Reference: f.ref, Seen: &seen, StoredErr: f.storedErr}
	}()
	return out
}
