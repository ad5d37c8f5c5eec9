package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/node"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/notify"
	"github.com/pullwalk/pullwalk/internal/probe"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// Look walks the pull of every image. The error is about a node view that cannot be
// looked at.
func Look(ctx context.Context, images []registry.Reference, o Options) (*Call, error) {
	return newCall(images, o).run(ctx)
}

// call is what the images of one call have in common.
type call struct {
	opts     Options
	images   []*image
	view     *node.View
	profile  *noderuntime.Profile
	store    *noderuntime.ContentStore // nil = another runtime's
	settings dnscheck.Settings
	prober   *probe.Prober
	notify   *notify.Notifier
	stalls   *probe.Stalls
}

func newCall(images []registry.Reference, o Options) *call {
	c := &call{opts: o, stalls: &probe.Stalls{}}
	for _, ref := range images {
		c.images = append(c.images, c.newImage(ref))
	}
	return c
}

// files is what is read of the node before the first packet.
type files struct {
	view     *node.View
	viewErr  error
	store    *noderuntime.ContentStore
	kubelet  *tlsauth.Kubelet // nil = its credentials are not asked for
	settings dnscheck.Settings
	images   []configured // one for each image
	sandbox  *sandboxFiles
}

// configured is what the node's files and the cluster's events say of one image.
type configured struct {
	sources  []noderuntime.Source
	findings []classify.Finding
	err      error // what could not be read of it
}

func (c *call) read() files {
	var f files
	if f.view, f.viewErr = c.opts.Node.Look(c.opts.Runtime); f.viewErr != nil {
		return f
	}
	f.settings = dnscheck.ReadSettings(f.view.ResolverFiles)
	if c.opts.NodeCredentials || c.opts.RunPlugins {
		f.kubelet = f.view.Kubelet(c.opts.Keychain, c.opts.RunPlugins)
	}
	config := f.view.Config()
	if f.view.KnowsRuntime() {
		f.store, _ = config.Store()
	}
	f.sandbox = readSandbox(f.view)
	var byHand []classify.Finding
	if len(f.view.ResolverFiles) > 0 {
		byHand = node.ResolverByHand(f.view.ResolverFiles[0].FS, f.settings.File)
	}
	for _, img := range c.images {
		var x configured
		x.sources, x.findings, x.err = config.Sources(img.ref)
		for _, s := range x.sources {
			x.findings = append(x.findings, judgeProxy(f.view, s)...)
		}
		x.findings = judge.Distinct(x.findings)
		if f.view.NetNS == "other" && !f.view.HasRuntime {
			v := classify.New(classify.NodeVantageNotNode, "This ran in another network namespace than the node's, and no container runtime shares it: what holds here need not hold for the node.")
			v.Severity = classify.SeverityWarn
			x.findings = append(x.findings, v)
		}
		x.findings = slices.Concat(x.findings, byHand)
		if c.opts.Reported != nil {
			x.findings = append(x.findings, c.opts.Reported(f.view, img.ref.String())...)
		}
		f.images = append(f.images, x)
	}
	return f
}

// judgeProxy judges the proxy settings for a source. What they say of a host that goes
// through the proxy is told there, once the addresses are known.
func judgeProxy(v *node.View, s noderuntime.Source) []classify.Finding {
	return slices.DeleteFunc(noderuntime.JudgeProxy(v.ProxyEnv, noderuntime.ProxiedURL{URL: s.Base}), func(found classify.Finding) bool {
		u, err := v.Proxy(s.Base)
		return found.Endpoint != "" && err == nil && u != nil && s.Base.Scheme == "https"
	})
}

// run reads the node and walks every image.
func (c *call) run(parent context.Context) (*Call, error) {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(parent, c.opts.Budget, pull.ErrBudget)
	defer cancel()
	f, ok := notify.Await(ctx, c.read)
	if f.viewErr != nil {
		return nil, f.viewErr
	}
	out := &Call{View: f.view, Settings: f.settings, Images: make([]Image, len(c.images))}
	if !ok { // a file system that hangs
		out.View = &node.View{NetNS: "unknown"}
		for i := range out.Images {
			out.Images[i] = Image{Log: pull.Log{Ended: pull.EndOf(ctx) + "; the node's files were not read in time"}, Elapsed: time.Since(started)}
		}
		return out, nil
	}
	c.use(f)
	beating, still := context.WithCancel(ctx)
	defer still()
	go c.stalls.Watch(beating)
	sandbox := c.startSandbox(ctx, f.sandbox)
	c.together(ctx, f.images, func(i int) {
		out.Images[i] = c.images[i].run(ctx, f.images[i])
		out.Images[i].Elapsed = time.Since(started)
	})
	c.prober.Close()
	out.Sandbox = <-sandbox
	c.notify.Finish(ctx)
	return out, nil
}

// use takes what was read of the node.
func (c *call) use(f files) {
	o := &c.opts
	o.AllowAddr, o.Keychain = f.view.Allow(o.AllowAddr), f.view.Keychain(o.Keychain)
	if f.kubelet != nil {
		o.Keychain = f.kubelet
	}
	c.view, c.settings, c.store, c.profile = f.view, f.settings, f.store, f.view.Config().Profile
	o.UserAgent = cmp.Or(o.UserAgent, f.view.UserAgent(), registry.DefaultAgent)
	o.Concurrency = cmp.Or(o.Concurrency, c.profile.Parallel)
	c.notify = notify.New(o.OnStep, o.OnProgress)
	c.prober = c.newProber()
}

func (c *call) newProber() *probe.Prober {
	o := &c.opts
	return probe.New(probe.Config{
		View: c.view, Limits: o.Limits, Hurried: o.Hurried, AllowAddr: o.AllowAddr, UserAgent: o.UserAgent, Expect: o.Expect, Rounds: o.Rounds,
		Complete: o.Depth == pull.Complete, Notify: c.notify, Stalls: c.stalls,
	})
}

// atOnce is how many images of one group are walked at the same time. It bounds the
// burst that a registry sees, and not how many images there are: one that hangs holds up
// nobody who asks another.
const atOnce = 8

// group are the images for which the runtime asks the same registries, in the same way.
type group struct {
	images []int
	// seen is what their TLS checks learn from each other. Other groups' hosts are not
	// in their results, and so explain nothing there.
	seen tlsauth.Seen
}

// groups tells the images apart by whom they ask.
func (c *call) groups(all []configured) []*group {
	var out []*group
	byKey := map[string]*group{}
	for i, x := range all {
		key := keyOf(x.sources)
		if byKey[key] == nil {
			byKey[key] = &group{}
			out = append(out, byKey[key])
		}
		byKey[key].images = append(byKey[key].images, i)
		c.images[i].group = byKey[key]
	}
	return out
}

// keyOf is equal for images whose requests the same files shape: header fields may be
// secrets, and so are told apart by where they stand.
func keyOf(sources []noderuntime.Source) string {
	var key strings.Builder
	for _, s := range sources {
		fmt.Fprintf(&key, "%s %x %q\n", s.Base, tlsSettingsOf(s).Key, s.File)
	}
	return key.String()
}

// together runs every image. When ctx ends nobody waits for a turn any more: what is
// left says so at once.
func (c *call) together(ctx context.Context, all []configured, run func(i int)) {
	var wg sync.WaitGroup
	for _, g := range c.groups(all) {
		wg.Go(func() {
			turns := make(chan struct{}, atOnce)
			for _, i := range g.images {
				select {
				case turns <- struct{}{}:
					wg.Go(func() {
						run(i)
						<-turns
					})
				case <-ctx.Done():
					wg.Go(func() { run(i) })
				}
			}
		})
	}
	wg.Wait()
}
