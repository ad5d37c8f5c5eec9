package pullwalk

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// diagnosis is one call of Diagnose or DiagnoseAll: what its images have in
// common.
type diagnosis struct {
	opts      Options
	pulls     []*imageRun
	view      *view
	platform  registry.Platform
	limits    Limits
	budget    time.Duration
	hurried   bool // the budget cuts limits below what the runtimes would wait
	profile   *noderuntime.Profile
	store     *noderuntime.ContentStore // nil = another runtime's
	userAgent string
	allow     func(netip.AddrPort) error
	dns       *dnscheck.Checker
	reach     *reach.Checker
	settings  dnscheck.Settings
	notify    *notifier
	parallel  int // blob requests of one image at one host
	pulse     *pulse

	mu      sync.Mutex
	ladders map[ladderKey]*ladder // that others may join
	begun   []*ladder             // every one
}

// newDiagnosis refuses senseless questions. Each image stands once in images.
func newDiagnosis(images []string, opts *Options) (*diagnosis, error) {
	d := &diagnosis{ladders: map[ladderKey]*ladder{}, pulse: &pulse{}}
	if opts != nil {
		d.opts = *opts
	}
	o := &d.opts
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := validateChecks(o.Checks); err != nil {
		return nil, err
	}
	var err error
	if d.platform, err = registry.ParsePlatform(o.Platform); err != nil {
		return nil, fmt.Errorf("pullwalk: %w", err)
	}
	o.fillIn()
	d.hurried = o.Budget/budgetShare < defaultTLS
	d.budget, d.limits, d.allow = o.Budget, o.Limits, o.AllowAddr
	for _, image := range images {
		ref, err := registry.ParseReference(image)
		if err != nil {
			return nil, fmt.Errorf("pullwalk: %w", err)
		}
		if _, err := targetOf(&url.URL{Scheme: ref.Scheme, Host: ref.Host}, endpoints.RoleManifest, ""); err != nil {
			return nil, fmt.Errorf("pullwalk: image %q: %w", classify.Redact(image, 256), err)
		}
		d.pulls = append(d.pulls, d.newPull(ref))
	}
	return d, nil
}

// fillIn replaces zero options by their defaults, and keeps every limit within
// its share of the budget.
func (o *Options) fillIn() {
	if o.Pull == "" {
		o.Pull = Touch
	}
	if o.Budget == 0 {
		o.Budget = defaultBudget
		if o.Pull == Complete {
			o.Budget = defaultBudgetComplete
		}
	}
	if o.AllowAddr == nil {
		o.AllowAddr = DenyPlatformAddrs
	}
	limit := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
		*d = min(*d, o.Budget/budgetShare)
	}
	limit(&o.Limits.DNS, defaultDNS)
	limit(&o.Limits.Connect, defaultConnect)
	limit(&o.Limits.TLS, defaultTLS)
	limit(&o.Limits.Header, registry.DefaultHeader)
	limit(&o.Limits.Idle, registry.DefaultIdle)
}

// files is what is read of the node before the first packet.
type files struct {
	view     *view
	viewErr  error
	store    *noderuntime.ContentStore
	kubelet  *tlsauth.Kubelet // nil = its credentials are not asked for
	settings dnscheck.Settings
	pulls    []configured // one for each pull
	sandbox  *sandboxFiles
}

// configured is what the node's files and the cluster's events say of one image.
type configured struct {
	sources  []noderuntime.Source
	findings []classify.Finding
	err      error // what could not be read of it
	told     told
}

func (d *diagnosis) read() files {
	var f files
	if f.view, f.viewErr = d.opts.Node.resolve(d.opts.Runtime); f.viewErr != nil {
		return f
	}
	f.settings = dnscheck.ReadSettings(f.view.files)
	f.kubelet = d.kubelet(f.view)
	config := f.view.config()
	if f.view.knowsRuntime() {
		f.store, _ = config.Store()
	}
	f.sandbox = readSandbox(f.view)
	var byHand []classify.Finding
	if len(f.view.files) > 0 {
		byHand = resolverByHand(f.view.files[0].FS, f.settings.File)
	}
	for _, p := range d.pulls {
		var c configured
		c.sources, c.findings, c.err = config.Sources(p.ref)
		for _, s := range c.sources {
			// What it says of a host that goes through the proxy is told there, once the
			// addresses are known.
			c.findings = append(c.findings, slices.DeleteFunc(noderuntime.JudgeProxy(f.view.proxyEnv, noderuntime.ProxiedURL{URL: s.Base}), func(found classify.Finding) bool {
				u, err := f.view.Proxy(s.Base)
				return found.Endpoint != "" && err == nil && u != nil && s.Base.Scheme == "https"
			})...)
		}
		c.findings = judge.Distinct(c.findings)
		if f.view.netns == "other" && !f.view.hasRuntime {
			v := classify.New(classify.NodeVantageNotNode, "This ran in another network namespace than the node's, and no container runtime shares it: what holds here need not hold for the node.")
			v.Severity = classify.SeverityWarn
			c.findings = append(c.findings, v)
		}
		c.told = toldOf(d.opts.Events, f.view, p.ref.String())
		c.findings = slices.Concat(c.findings, byHand, c.told.findings())
		f.pulls = append(f.pulls, c)
	}
	return f
}

// run reads the node and walks every pull. The error is about a node view that
// cannot be looked at.
func (d *diagnosis) run(parent context.Context) ([]*Result, error) {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(parent, d.budget, errBudget)
	defer cancel()
	results := make([]*Result, len(d.pulls))
	finish := func(i int, r *Result) {
		r.Started, r.ElapsedMS = started.UTC(), time.Since(started).Milliseconds()
		results[i] = r
	}
	f, ok := await(ctx, d.read)
	if f.viewErr != nil {
		return nil, f.viewErr
	}
	if !ok { // a file system that hangs
		d.view = &view{Node: Node{Labels: d.opts.Node.Labels}, netns: "unknown"}
		for i, p := range d.pulls {
			res := p.result(p.log(ctx, nil), nil)
			res.Inconclusive += "; the node's files were not read in time"
			finish(i, res)
		}
		return results, nil
	}
	d.store = f.store
	d.allow, d.opts.Keychain = f.view.guard.allow(d.allow), f.view.guard.keychain(d.opts.Keychain)
	if f.kubelet != nil {
		d.opts.Keychain = f.kubelet
	}
	d.view, d.settings, d.profile = f.view, f.settings, f.view.config().Profile
	d.userAgent = cmp.Or(d.opts.UserAgent, f.view.agent(), defaultAgent)
	d.parallel = cmp.Or(d.opts.Concurrency, d.profile.Parallel)
	d.dns = &dnscheck.Checker{FS: d.view.FS, Sources: d.view.files, Exchanger: d.view.DNS, Expect: d.opts.Expect, Limit: d.limits.DNS}
	d.reach = &reach.Checker{Router: d.view.Router, Dialer: d.view.Dialer, Limit: d.limits.Connect, Pressure: d.view.FS}
	d.notify = newNotifier(&d.opts)
	beating, still := context.WithCancel(ctx)
	defer still()
	go d.pulse.beat(beating)
	sandbox := d.startSandbox(ctx, f.sandbox)
	d.together(ctx, f.pulls, func(i int) { finish(i, d.pulls[i].run(ctx, f.pulls[i])) })
	d.hangUp()
	walked := <-sandbox
	for _, res := range results {
		res.joinSandbox(walked)
	}
	d.notify.finish(ctx)
	return results, nil
}

// hangUp drops the connections that wait for a next request. No pull runs any more;
// a ladder may that all have left.
func (d *diagnosis) hangUp() {
	for _, l := range d.begun {
		<-l.done
		l.pool.Close()
	}
}
