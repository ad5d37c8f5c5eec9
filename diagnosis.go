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
	"github.com/pullwalk/pullwalk/internal/wire"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// diagnosis is one call of Diagnose.
type diagnosis struct {
	opts      Options
	view      *view
	ref       endpoints.Reference
	platform  endpoints.Platform
	limits    Limits
	budget    time.Duration
	hurried   bool // the budget cuts limits below what the runtimes would wait
	way       endpoints.Way
	store     *endpoints.ContentStore // nil = another runtime's
	seen      tlsauth.Seen            // what the TLS checks of this diagnosis learn from each other
	plan      *tlsauth.CredentialPlan // what a kubelet would offer, and why; nil = not known
	sandbox   *sandboxFiles           // nil = the image's own walk
	told      told                    // what the cluster reported about this image
	unsure    bool                    // it is not known whether the runtime's configuration is in force
	userAgent string
	allow     func(netip.AddrPort) error
	dns       *dnscheck.Checker
	reach     *reach.Checker
	settings  dnscheck.Settings
	notify    *notifier
	parallel  int // blob requests at one host
	climbing  sync.WaitGroup
	checking  sync.WaitGroup // the caller's own checks
	over      chan struct{}  // closed when all but those has ended

	mu        sync.Mutex
	manifests int // manifest requests sent
	identity  string
}

func newDiagnosis(image string, opts *Options) (*diagnosis, error) {
	d := &diagnosis{}
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
	ref, err := endpoints.ParseReference(image)
	if err != nil {
		return nil, fmt.Errorf("pullwalk: %w", err)
	}
	d.ref = ref
	if _, err := targetOf(&url.URL{Scheme: ref.Scheme, Host: ref.Host}, endpoints.RoleManifest, ""); err != nil {
		return nil, fmt.Errorf("pullwalk: image %q: %w", classify.Redact(image, 256), err)
	}
	if d.platform, err = endpoints.ParsePlatform(o.Platform); err != nil {
		return nil, fmt.Errorf("pullwalk: %w", err)
	}
	o.fillIn()
	d.hurried = o.Budget/budgetShare < defaultTLS
	d.budget, d.limits, d.userAgent, d.allow = o.Budget, o.Limits, o.UserAgent, o.AllowAddr
	d.identity = "anonymous"
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
	if o.UserAgent == "" {
		o.UserAgent = defaultAgent
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
	limit(&o.Limits.Header, wire.DefaultHeader)
	limit(&o.Limits.Idle, wire.DefaultIdle)
}

// files is what is read of the node before the first packet.
type files struct {
	view       *view
	viewErr    error
	store      *endpoints.ContentStore
	told       told
	kubelet    *tlsauth.Kubelet // nil = its credentials are not asked for
	settings   dnscheck.Settings
	configured []endpoints.Source
	findings   []classify.Finding
	err        error // what could not be read of the configuration
	sandbox    *sandboxFiles
}

func (d *diagnosis) read() files {
	var f files
	if f.view, f.viewErr = d.opts.Node.resolve(d.opts.Runtime); f.viewErr != nil {
		return f
	}
	f.settings = dnscheck.ReadSettingsFrom(f.view.files)
	f.kubelet = d.kubelet(f.view)
	rt := f.view.runtime
	f.configured, f.findings, f.err = endpoints.SourcesOf(f.view.FS, rt.Name, rt.ConfigFile, d.ref)
	for _, c := range f.configured {
		// What it says of a host that goes through the proxy is told there, once the
		// addresses are known.
		f.findings = append(f.findings, slices.DeleteFunc(endpoints.JudgeProxy(f.view.proxyEnv, endpoints.ProxiedURL{URL: c.Base}), func(found classify.Finding) bool {
			u, err := f.view.Proxy(c.Base)
			return found.Endpoint != "" && err == nil && u != nil && c.Base.Scheme == "https"
		})...)
	}
	f.findings = distinct(f.findings)
	f.sandbox = readSandbox(f.view)
	if f.view.FS != nil && f.view.way() == endpoints.WayContainerd {
		f.store, _ = endpoints.OpenContentStore(f.view.FS, rt.ConfigFile)
	}
	if f.view.netns == "other" && !f.view.hasRuntime {
		v := classify.New(classify.NodeVantageNotNode, "This ran in another network namespace than the node's, and no container runtime shares it: what holds here need not hold for the node.")
		v.Severity = classify.SeverityWarn
		f.findings = append(f.findings, v)
	}
	if len(f.view.files) > 0 {
		f.findings = append(f.findings, resolverByHand(f.view.files[0].FS, f.settings.File)...)
	}
	f.told = toldOf(d.opts.Events, f.view, d.ref.String())
	f.findings = append(f.findings, f.told.findings()...)
	return f
}

// run reads the node, walks the sources in the runtime's order and gathers the
// result. The error is about a node view that cannot be looked at.
func (d *diagnosis) run(parent context.Context) (*Result, error) {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(parent, d.budget, errBudget)
	defer cancel()
	f, ok := await(ctx, d.read)
	if f.viewErr != nil {
		return nil, f.viewErr
	}
	if !ok { // a file system that hangs
		d.view = &view{Node: Node{Labels: d.opts.Node.Labels}, netns: "unknown"}
		res := d.result(ctx, nil)
		res.Inconclusive += "; the node's files were not read in time"
		res.Started, res.ElapsedMS = started.UTC(), time.Since(started).Milliseconds()
		return res, nil
	}
	d.store, d.told = f.store, f.told
	d.allow, d.opts.Keychain = f.view.guard.allow(d.allow), f.view.guard.keychain(d.opts.Keychain)
	if f.kubelet != nil {
		d.opts.Keychain = f.kubelet
	}
	d.view, d.settings, d.way = f.view, f.settings, f.view.way()
	d.parallel = cmp.Or(d.opts.Concurrency, d.way.Parallel())
	d.dns = &dnscheck.Checker{FS: d.view.FS, Sources: d.view.files, Exchanger: d.view.DNS, Expect: d.opts.Expect, Limit: d.limits.DNS}
	d.reach = &reach.Checker{Router: d.view.Router, Dialer: d.view.Dialer, Limit: d.limits.Connect, Pressure: d.view.FS}
	d.notify = newNotifier(&d.opts)
	sandbox := d.startSandbox(ctx, f.sandbox)
	sources := d.pull(ctx, f.configured, f.findings, f.err)
	res := d.result(ctx, sources)
	res.joinSandbox(<-sandbox)
	res.Started, res.ElapsedMS = started.UTC(), time.Since(started).Milliseconds()
	d.notify.finish(ctx)
	return res, nil
}

// pull walks the sources in the runtime's order until one serves the image.
// Nothing of it runs any more when it returns.
func (d *diagnosis) pull(ctx context.Context, configured []endpoints.Source, findings []classify.Finding, err error) []*source {
	d.over = make(chan struct{})
	var sources []*source
	for _, c := range configured {
		sources = append(sources, d.newSource(c))
	}
	usable := sources[0].judgeSettings(findings, err)
	d.unsure = slices.ContainsFunc(findings, func(f classify.Finding) bool {
		return f.Cause == classify.NodeRuntimeConfigIgnored && f.Certainty == classify.CertaintyPossible
	})
	if d.sandbox == nil { // the image's own walk does so
		sources[0].resolvers(ctx)
	}
	sources[len(sources)-1].also(ctx)
	d.planCredentials(ctx, sources[len(sources)-1])
	for i, s := range sources {
		if !usable {
			s.block()
			if i > 0 {
				s.skipped = "the runtime's configuration stops the pull before it is asked"
			}
			continue
		}
		walked := afterSilence(ctx, func() { s.lookAhead(ctx, sources[i+1:]) })
		s.walk(ctx)
		walked()
		if s.digest != "" {
			d.pullByDigest(ctx, sources, s.digest)
		}
		if slices.ContainsFunc(sources, (*source).serves) && !d.unsure {
			break
		}
	}
	d.climbing.Wait()
	sources[0].recordView()
	for _, s := range sources {
		s.recordSettings(nil)
	}
	d.finishChecks(ctx, sources)
	for _, s := range sources {
		for _, e := range s.endpoints {
			e.pool.Close()
		}
	}
	return sources
}

// pullByDigest walks the sources that serve content and resolve no tag: the
// runtime asks them for manifests and blobs as soon as another has resolved it.
func (d *diagnosis) pullByDigest(ctx context.Context, sources []*source, digest string) {
	for _, s := range sources {
		if !s.pullOnly {
			continue
		}
		s.pullOnly, s.skipped = false, ""
		s.ref.Digest = digest
		s.walk(ctx)
	}
}

func (d *diagnosis) setIdentity(info tlsauth.CredentialInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.identity = info.Source
	if info.Username != "" {
		d.identity += " (user " + info.Username + ")"
	}
}

// imageRef is the image as the runtime reads it, before anything was asked.
func (d *diagnosis) imageRef() ImageRef {
	return ImageRef{
		Given: d.ref.Given, Reference: d.ref.String(), Registry: d.ref.Registry, Repository: d.ref.Repository,
		Tag: d.ref.Tag, Digest: d.ref.Digest, Platform: d.platform.String(),
	}
}

func (d *diagnosis) countManifest() {
	d.mu.Lock()
	d.manifests++
	d.mu.Unlock()
}

func (d *diagnosis) manifestsSent() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.manifests
}
