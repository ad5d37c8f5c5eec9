package pullwalk

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/engine"
	"github.com/pullwalk/pullwalk/internal/node"
	"github.com/pullwalk/pullwalk/internal/notify"
	"github.com/pullwalk/pullwalk/internal/probe"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// Diagnose walks the pull of image as the node's runtime would, and says what
// broke first.
//
// The error is non-nil only for an invalid reference, platform, option or
// node view. Whatever the network, the registry or the
// context does is in the Result: when ctx ends, Diagnose returns within 250 ms
// with what is known.
func Diagnose(ctx context.Context, image string, opts *Options) (*Result, error) {
	all, err := DiagnoseAll(ctx, []string{image}, opts)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// DiagnoseAll diagnoses many images from one node and does once what is the same
// for all: the node's files are read once, and each host is looked up, connected
// to and verified once, however many images lead there. Connections are used
// again. What belongs to one image is asked for each: its manifests, its blobs, its
// Checks, and its tokens, which are never used for another repository. A host that is
// broken is therefore judged once and stands, with all its steps, in the
// result of every image that needs it: each Result is complete in itself and says
// what [Diagnose] would say alone.
//
// Results are in the order of images. An image that is named twice is diagnosed
// once, and both places hold the same Result; results share parts anyway, so that
// none should be changed. No images give no results.
//
// Images that ask the same registries are walked eight at a time, others do not
// wait for them; Options.Concurrency is per image. Options.Budget is for the whole
// call: with many images, or with Complete, allow more than the default. What it
// leaves untried is inconclusive. Keychain, Node and AllowAddr are used by several
// images at once, and so must be safe for that. OnStep is told of a shared step
// once for each image, see [Step].Image. The sandbox image is the node's: it is
// walked once, and stands in every result. Started and ElapsedMS count from the
// beginning of the call.
//
// The error is as of [Diagnose]. One invalid image refuses the whole call before
// the first packet; the error names it. When ctx ends, every image has what is
// known of it within 250 ms.
func DiagnoseAll(ctx context.Context, images []string, opts *Options) ([]*Result, error) {
	var distinct []string
	place := map[string]int{}
	for _, image := range images {
		if _, known := place[image]; !known {
			place[image] = len(distinct)
			distinct = append(distinct, image)
		}
	}
	q, err := ask(distinct, opts)
	if err != nil {
		return nil, err
	}
	results := make([]*Result, len(images))
	if len(images) == 0 {
		return results, nil
	}
	each, err := q.answer(ctx)
	if err != nil {
		return nil, err
	}
	for i, image := range images {
		results[i] = each[place[image]]
	}
	return results, nil
}

// question is a call that makes sense.
type question struct {
	opts     Options // with every default filled in
	hurried  bool    // the budget cuts limits below what the runtimes would wait
	platform registry.Platform
	refs     []registry.Reference

	mu       sync.Mutex
	reported map[string]imageEvents // what the cluster reported, by the reference
}

// ask refuses invalid arguments. Each image stands once in images.
func ask(images []string, opts *Options) (*question, error) {
	q := &question{reported: map[string]imageEvents{}}
	if opts != nil {
		q.opts = *opts
	}
	if err := q.opts.validate(); err != nil {
		return nil, err
	}
	if err := validateChecks(q.opts.Checks); err != nil {
		return nil, err
	}
	var err error
	if q.platform, err = registry.ParsePlatform(q.opts.Platform); err != nil {
		return nil, fmt.Errorf("pullwalk: %w", err)
	}
	q.opts.fillIn()
	q.hurried = q.opts.Budget/engine.BudgetShare < defaultTLS
	for _, image := range images {
		ref, err := registry.ParseReference(image)
		if err != nil {
			return nil, fmt.Errorf("pullwalk: %w", err)
		}
		if _, err := pull.TargetOf(&url.URL{Scheme: ref.Scheme, Host: ref.Host}, registry.RoleManifest, ""); err != nil {
			return nil, fmt.Errorf("pullwalk: image %q: %w", classify.Redact(image, 256), err)
		}
		q.refs = append(q.refs, ref)
	}
	return q, nil
}

// engine are the options as the engine takes them.
func (q *question) engine() engine.Options {
	o := &q.opts
	out := engine.Options{
		Node: node.Node{
			FS: o.Node.FS, Router: o.Node.Router, Dialer: o.Node.Dialer, DNS: o.Node.DNS, Roots: o.Node.Roots,
			Proxy: o.Node.Proxy, Now: o.Node.Now, Hosted: o.Node.hosted, HostRoot: o.Node.hostRoot,
		},
		Runtime: node.Hint(o.Runtime), Keychain: o.Keychain, NodeCredentials: o.NodeCredentials, RunPlugins: o.RunPlugins,
		Platform: q.platform, Depth: map[PullMode]pull.Depth{Connect: pull.Connect, Touch: pull.Touch, Complete: pull.Complete}[o.Pull],
		Expect: o.Expect, AuditRights: o.AuditRights, Checks: q.checks(), Rounds: o.Rounds, Budget: o.Budget, Hurried: q.hurried,
		Limits: probe.Limits(o.Limits), Concurrency: o.Concurrency, UserAgent: o.UserAgent, AllowAddr: o.AllowAddr, Recorded: o.observed,
	}
	for _, hostPort := range o.Also {
		host, port, err := pull.SplitHostPort(hostPort)
		if err == nil { // else refused by validate
			out.Also = append(out.Also, pull.Target{Scheme: "https", Host: host, Port: port, Role: registry.RoleExpected, FoundBy: "the caller", Expected: true})
		}
	}
	if len(o.Events) > 0 {
		out.Reported = func(v *node.View, image string) []classify.Finding {
			t := q.events(v).about(image)
			q.mu.Lock()
			defer q.mu.Unlock()
			q.reported[image] = t
			return t.findings()
		}
	}
	if o.OnStep != nil {
		out.OnStep = func(s pull.Step, hostPort, image string) { o.OnStep(stepOf(s, hostPort, image)) }
	}
	if o.OnProgress != nil {
		out.OnProgress = func(p notify.Progress) { o.OnProgress(Progress(p)) }
	}
	return out
}

// checks are those of the caller as the engine takes them.
func (q *question) checks() []engine.Check {
	var out []engine.Check
	for _, c := range q.opts.Checks {
		run := c.Run
		out = append(out, engine.Check{ID: c.ID, Layer: c.Layer, Roles: c.Roles, Needs: c.Needs, Timeout: c.Timeout, Run: func(ctx context.Context, in engine.Input) ([]classify.Finding, error) {
			return run(ctx, Input{
				Image: imageRef(in.Reference, q.platform), Scheme: in.Scheme, Host: in.Host, Port: in.Port, Roles: in.Roles, Via: in.Via,
				Addresses: in.Addresses, Dialer: in.Dialer, Roots: in.Roots, Now: in.Now,
			})
		}})
	}
	return out
}

// answer looks, and says what was seen.
func (q *question) answer(ctx context.Context) ([]*Result, error) {
	started := time.Now()
	call, err := engine.Look(ctx, q.refs, q.engine())
	if err != nil {
		return nil, err
	}
	results := make([]*Result, len(q.refs))
	for i, ref := range q.refs {
		img := call.Images[i]
		r := resultOf(call, img, ref, &q.opts, q.platform)
		r.Started, r.ElapsedMS = started.UTC(), img.Elapsed.Milliseconds()
		if len(q.opts.Events) > 0 {
			r.Reported = q.compare(r, call.View)
		}
		results[i] = r
	}
	if call.Sandbox != nil {
		sandbox, walked := sandboxOf(call, &q.opts, q.platform)
		for _, r := range results {
			r.joinSandbox(sandbox, walked)
		}
	}
	return results, nil
}

// events are what the cluster reported, as it looks from this node.
func (q *question) events(v *node.View) events {
	name := q.opts.Node.Labels[LabelNode]
	if name == "" { // a host name may be another than the cluster's
		return events{q.opts.Events, v.HostName, false}
	}
	return events{q.opts.Events, name, true}
}

// compare holds what the cluster reported against what the probes saw.
func (q *question) compare(r *Result, v *node.View) *Reported {
	q.mu.Lock()
	t := q.reported[r.Image.Reference]
	q.mu.Unlock()
	now := time.Now()
	if v.Now != nil {
		now = v.Now()
	}
	return q.events(v).compare(r, t, now, q.opts.Rounds)
}
