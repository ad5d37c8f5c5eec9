package pullwalk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// Sandbox is what became of the sandbox image (the pause image). The runtime pulls
// it by itself when the first pod comes to a node: without it no pod starts there,
// no container's event says so, and pull secrets do not count for it. A pull of the
// image in question works without it all the same; that is why what is wrong here
// never is the Primary of a [Result], and stands among its warnings, with the
// operation sandbox-image.
//
// Not proved is that pods start: a runtime class may need no such image.
type Sandbox struct {
	Image string `json:"image,omitempty"` // as configured; "" = no file names one
	File  string `json:"file,omitempty"`  // the file that names it
	// Verdict is skipped where nothing was asked, for Reason: the node has the image,
	// or no file names one and what the runtime was built with is not known. Else it
	// is the verdict of a walk like the image's own, in the same [PullMode].
	Verdict Status `json:"verdict"`
	Reason  string `json:"reason,omitempty"` // why it is skipped or inconclusive
	// Primary is the root cause if the verdict is failed.
	Primary  *classify.Finding `json:"primary,omitempty"`
	Identity string            `json:"identity,omitempty"` // source of the credential that was used
	Sources  []Source          `json:"sources,omitempty"`  // as those of the image
}

// sandboxFiles is what the node's files say of its sandbox image.
type sandboxFiles struct {
	noderuntime.Sandbox
	view       *view
	ref        registry.Reference
	refErr     error // the name is none: the runtime cannot pull it
	configured []noderuntime.Source
	findings   []classify.Finding
	err        error // what could not be read
	stored     bool
	storedErr  error // why it is not known whether the node has it
}

// readSandbox returns nil where there is nothing that could name a sandbox image.
func readSandbox(v *view) *sandboxFiles {
	config := v.config()
	named, err := config.Sandbox()
	if named.Image == "" && !v.hasRuntime {
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
	out := &Sandbox{Image: f.Image, File: f.File, Verdict: StatusSkipped}
	switch {
	case f.Image == "" && f.err != nil:
		out.Verdict, out.Reason = StatusInconclusive, "the configuration could not be read from here: "+classify.Redact(f.err.Error(), 300)
	case f.Image == "":
		out.Reason = "no file names one; the runtime takes the one that it was built with"
	case f.refErr != nil:
		finding := classify.Error(f.refErr)
		out.Verdict, out.Primary = StatusFailed, &finding
	case f.stored:
		out.Reason = "the node has it already, so the runtime does not ask for it"
	default:
		return nil
	}
	return out
}

// offers is what the runtime's own files have for the host of a source: the kubelet
// hands over nothing for this image.
func (f *sandboxFiles) offers(ctx context.Context, s *source) ([]tlsauth.Offer, *pull.Step) {
	offers, step := s.ownOffers(ctx, f.AuthFile)
	if offers == nil && step == nil {
		return []tlsauth.Offer{{Info: tlsauth.CredentialInfo{Source: "anonymous: pull secrets are not used for the sandbox image, and the runtime's files have nothing for " + s.cfg.Host}}}, nil
	}
	return offers, step
}

// startSandbox walks the sandbox image beside the image itself. It gets at most
// half of the budget, so that it cannot hold the answer up to the end.
func (d *diagnosis) startSandbox(ctx context.Context, f *sandboxFiles) <-chan sandboxWalk {
	out := make(chan sandboxWalk, 1)
	if f == nil {
		close(out)
		return out
	}
	if s := f.unasked(); s != nil {
		out <- sandboxWalk{sandbox: s}
		return out
	}
	shared := &diagnosis{
		opts: Options{Pull: d.opts.Pull, observed: d.opts.observed, judging: d.opts.judging}, view: d.view, platform: d.platform, limits: d.limits, budget: d.budget / 2,
		hurried: d.hurried, profile: d.profile, userAgent: d.userAgent, allow: d.allow, dns: d.dns, reach: d.reach,
		settings: d.settings, notify: d.notify, parallel: d.profile.Parallel, pulse: d.pulse, ladders: map[ladderKey]*ladder{},
	}
	own := shared.newPull(f.ref)
	own.company, own.sandbox = &company{}, f
	go func() {
		ctx, cancel := context.WithTimeoutCause(ctx, own.budget, errBudget)
		defer cancel()
		defer own.hangUp()
		began := time.Now()
		r := own.run(ctx, configured{sources: f.configured, findings: f.findings, err: f.err})
		r.ElapsedMS = time.Since(began).Milliseconds()
		out <- sandboxWalk{own.exportSandbox(r), r}
	}()
	return out
}

// sandboxWalk is the sandbox image's part of the result; result is nil if nothing
// was walked.
type sandboxWalk struct {
	sandbox *Sandbox
	result  *Result
}

func (d *imageRun) exportSandbox(r *Result) *Sandbox {
	f := d.sandbox
	out := &Sandbox{Image: f.Image, File: f.File, Verdict: r.Verdict, Reason: r.Inconclusive, Primary: r.Primary, Identity: d.identity, Sources: r.Sources}
	if r.Verdict == StatusFailed && f.storedErr != nil {
		out.Verdict, out.Primary = StatusInconclusive, nil
		out.Reason = fmt.Sprintf("it cannot be pulled (%s), and whether the node has it already is not known: %s", r.Primary.Cause, classify.Redact(f.storedErr.Error(), 200))
	}
	return out
}

// compareSandbox holds an event about the sandbox image against what was seen of it.
func (r *Result) compareSandbox() {
	p, s := r.Reported, r.Sandbox
	if p == nil || p.Reading.Best.Operation != classify.OperationSandboxImage {
		return
	}
	p.Agrees, p.Note = "unknown", "the event is about the sandbox image"
	switch {
	case s.Primary != nil && related(p.Reading.Best.Cause, s.Primary.Cause):
		p.Agrees, p.Note = "yes", ""
	case s.Verdict == StatusSkipped:
		p.Note += ", which was not walked: " + s.Reason
	case s.Primary != nil || pull.Passes(s.Verdict):
		p.Agrees = "no"
		p.Note += ": repaired or intermittent since, another node, or the text names a consequence"
	}
}

// foundBy says how a source came to be asked.
func (s *source) foundBy() string {
	by := "the image reference"
	if s.d.sandbox != nil {
		by = "the sandbox image of " + s.d.sandbox.File
	}
	return cmp.Or(s.cfg.File, by)
}

// said is the sandbox image's line of the report; "" if there is nothing to say.
func (s *Sandbox) said() string {
	switch {
	case s == nil || s.Image == "":
		return ""
	case s.Verdict == StatusSkipped:
		return s.Image + ": " + s.Reason
	case s.Verdict == StatusFailed:
		where := ""
		if s.Primary.Endpoint != "" {
			where = " at " + s.Primary.Endpoint
		}
		return fmt.Sprintf("%s: cannot be pulled (%s%s, owner %s), so no pod starts on a node that does not have it", s.Image, s.Primary.Cause, where, s.Primary.Owner)
	case s.Verdict == StatusInconclusive:
		return s.Image + ": not known: " + s.Reason
	}
	return fmt.Sprintf("%s: every hop held; asked as %s", s.Image, s.Identity)
}
