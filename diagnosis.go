package pullwalk

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
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
	userAgent string
	allow     func(netip.AddrPort) error
	dns       *dnscheck.Checker
	reach     *reach.Checker
	settings  dnscheck.Settings
	notify    *notifier
	slots     chan struct{} // parallel blob requests
	climbing  sync.WaitGroup

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
	if d.view, err = o.Node.resolve(); err != nil {
		return nil, err
	}
	o.fillIn()
	d.hurried = o.Budget/budgetShare < defaultTLS
	d.budget, d.limits, d.userAgent, d.allow = o.Budget, o.Limits, o.UserAgent, o.AllowAddr
	d.dns = &dnscheck.Checker{FS: d.view.FS, Sources: d.view.files, Exchanger: d.view.DNS, Expect: o.Expect, Limit: d.limits.DNS}
	d.reach = &reach.Checker{Router: d.view.Router, Dialer: d.view.Dialer, Limit: d.limits.Connect}
	d.slots = make(chan struct{}, o.Concurrency)
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
	if o.Concurrency == 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.UserAgent == "" {
		o.UserAgent = "pullwalk"
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

// run walks the sources in the runtime's order and gathers the result.
func (d *diagnosis) run(parent context.Context) *Result {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(parent, d.budget, errBudget)
	defer cancel()
	d.notify = newNotifier(&d.opts)
	d.settings = dnscheck.ReadSettingsFrom(d.view.files)

	configured, findings, err := endpoints.Sources(d.view.FS, d.view.runtime.ConfigFile, d.ref)
	err = errors.Join(err, endpoints.Unmodelled(d.view.FS, d.view.runtime.Name, d.ref))
	var sources []*source
	for _, c := range configured {
		sources = append(sources, d.newSource(c))
	}
	usable := sources[0].settings(ctx, findings, err)
	sources[0].resolvers(ctx)
	sources[len(sources)-1].also(ctx)
	for i, s := range sources {
		if !usable {
			s.block()
			if i > 0 {
				s.skipped = "the runtime's configuration stops the pull before it is asked"
			}
			continue
		}
		s.walk(ctx)
		if s.serves() {
			break
		}
	}
	d.climbing.Wait()
	for _, s := range sources {
		for _, e := range s.endpoints {
			e.pool.Close()
		}
	}
	res := d.result(ctx, sources)
	res.Started, res.ElapsedMS = started.UTC(), time.Since(started).Milliseconds()
	d.notify.finish(ctx)
	return res
}

func (d *diagnosis) setIdentity(info tlsauth.CredentialInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.identity = info.Source
	if info.Username != "" {
		d.identity += " (user " + info.Username + ")"
	}
}

func (d *diagnosis) countManifest() {
	d.mu.Lock()
	d.manifests++
	d.mu.Unlock()
}
