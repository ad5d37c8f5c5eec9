package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/probe"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// source is one registry that the runtime would ask. It opens the hosts of its pull.
type source struct {
	image    *image
	cfg      noderuntime.Source
	tls      *probe.TLS
	run      *pull.Run
	pending  *pull.Step // the settings step, until there is a host to record it at
	skipped  string
	pullOnly bool // serves content by digest, and is not asked what a tag means
	ownLogin bool // the credential comes from the runtime's own files
	inStore  int  // blobs that the node's store holds already

	proxies sync.Mutex // held to find or add a proxy
	checks  sync.Mutex // guards way.checks of all hosts
}

func (c *image) newSource(cfg noderuntime.Source) *source {
	s := &source{image: c, cfg: cfg, tls: tlsSettingsOf(cfg)}
	switch {
	case !cfg.Can(noderuntime.CapabilityPull):
		s.skipped = cfg.File + " does not let the runtime pull from it"
	case !cfg.Can(noderuntime.CapabilityResolve) && c.ref.Digest == "":
		s.pullOnly = true
		s.skipped = cfg.File + " does not let the runtime resolve a tag there, and no other source resolved it"
	}
	o := &c.opts
	s.run = &pull.Run{
		Requests: *cfg.Walk(c.ref, c.profile.Client), Opener: s, Platform: o.Platform, Depth: o.Depth, Mirror: cfg.Kind == noderuntime.KindMirror,
		OwnTLS: s.tls.Key != tlsSettingsOf(noderuntime.Source{}).Key, MaxHosts: maxHosts, Parallel: o.Concurrency,
		TokenFields: cfg.TokenFields, StopsAtHead: c.profile.HeadOnly, AuditRights: o.AuditRights,
		Credentials: s.credentials, Retries: s.retries, Fetching: s.stored, Timed: timedRequest,
		Once: func(ctx, own context.Context, reg *pull.Host, what string, ask func(context.Context) pull.Step) (pull.Step, bool) {
			return wayOf(reg).probe.Once(ctx, own, common{c.group, what}, ask)
		},
		Observe: c.prober.Observe, FirstFailure: func(seen pull.Source) string { return judge.FirstFailure(s.describe(seen)) },
		Recorded: func(at pull.Endpoint, st pull.Step) {
			if o.Recorded != nil {
				o.Recorded(st)
			}
			c.notify.Step(judge.Step(at, st), at.HostPort(), c.ref.Given)
		},
	}
	s.run.Requests.UserAgent = o.UserAgent
	return s
}

// walk pulls from the source.
func (s *source) walk(ctx context.Context) {
	if s.skipped != "" {
		return
	}
	base := s.base(ctx)
	t, err := pull.TargetOf(base, s.role(), s.foundBy())
	if err != nil {
		return
	}
	s.run.Requests.Base = base
	reg := s.run.Base(ctx, t)
	s.recordSettings(reg)
	s.recordPlan(reg)
	defer s.hints(ctx, base)()
	s.run.Walk(ctx, reg)
}

// base is where the source is. Containerd tries https before http on a loopback
// registry, and http only where no TLS is spoken.
func (s *source) base(ctx context.Context) *url.URL {
	base := s.cfg.Base
	if !s.cfg.HTTPSFirst {
		return base
	}
	secure := *base
	secure.Scheme = "https"
	t, err := pull.TargetOf(&secure, s.role(), "tried before plain http")
	if err != nil {
		return base
	}
	t.Expected, t.BeforePlain = true, true
	h := s.run.Host(ctx, t)
	select {
	case <-wayOf(h).probe.Done():
	case <-ctx.Done():
		return base
	}
	if judge.SpeaksPlainHTTP(h.Log()) {
		return base
	}
	h.Touch()
	return &secure
}

func (s *source) role() registry.Role {
	switch {
	case s.cfg.Kind == noderuntime.KindMirror:
		return registry.RoleMirror
	case s.image.sandbox != nil:
		return registry.RoleSandbox
	}
	return registry.RoleManifest
}

// foundBy says how the source came to be asked.
func (s *source) foundBy() string {
	by := "the image reference"
	if s.image.sandbox != nil {
		by = "the sandbox image of " + s.image.sandbox.File
	}
	return cmp.Or(s.cfg.File, by)
}

// log is what was seen of the source so far.
func (s *source) log() pull.Source { return s.describe(s.run.Log()) }

func (s *source) describe(out pull.Source) pull.Source {
	p := s.image.plan
	out.Host, out.Kind, out.Doubt, out.Skipped = s.cfg.Host, s.cfg.Kind, s.image.view.Rivals(), s.skipped
	out.NotOffered = p != nil && len(p.Offered) == 0 && p.Inconclusive == "" && !s.ownLogin
	return out
}

// wait waits for the probes of every host that was not left.
func (s *source) wait() {
	for _, h := range s.run.Hosts() {
		if w := wayOf(h); w != nil && !w.left {
			<-w.probe.Done()
		}
	}
}

// judgeSettings says what the runtime's configuration for this registry amounts to; the
// step is recorded with the registry's host. It reports false if the runtime would not
// send a packet.
func (s *source) judgeSettings(findings []classify.Finding, err error) bool {
	reason := ""
	if err != nil {
		reason = "the configuration could not be read from here: " + classify.Redact(err.Error(), 300)
	}
	if unsent := s.cfg.Fields.Unsent(); len(unsent) > 0 && reason == "" {
		reason = cmp.Or(s.cfg.File, "the runtime's configuration") + " adds header fields (" + strings.Join(unsent, ", ") + "), which are not sent from here"
	}
	if len(findings) == 0 && reason == "" && s.cfg.File == "" {
		return true
	}
	st := pull.StatusOf(pull.Step{ID: pull.StepSettings}, true, reason, findings)
	s.pending = &st
	return st.Status != pull.StatusFailed
}

// recordSettings gives the settings step its place at the registry's host, or at one
// that nothing was sent to.
func (s *source) recordSettings(reg *pull.Host) {
	if s.pending == nil {
		return
	}
	if reg == nil {
		t, err := pull.TargetOf(s.cfg.Base, s.role(), s.cfg.File)
		if err != nil {
			return
		}
		by := ""
		if s.pending.Status == pull.StatusFailed {
			by = pull.StepName(pull.StepSettings, t.HostPort(), netip.Addr{})
		}
		reg = s.run.AddBarred(t, by)
	}
	st := *s.pending
	s.pending = nil
	reg.Record(st, 0)
}

// block says that nothing of a source was tried because the settings stop it.
func (s *source) block() {
	s.recordSettings(nil)
	for _, h := range s.run.Hosts() {
		if h.Has(pull.StepSettings) {
			h.BlockRest(pull.StepDNS, pull.StepRoute, pull.StepConnect, pull.StepTLS, pull.StepResolve, pull.StepManifest, pull.StepConfig, pull.StepLayer)
		}
	}
}

// recordPanics says at the registry's host that the caller's code failed.
func (s *source) recordPanics() {
	findings := s.image.view.Panics()
	if len(findings) == 0 {
		return
	}
	st := pull.StatusOf(pull.Step{ID: pull.StepSettings, Subject: "node view"}, true, findings[0].Summary, findings)
	for _, h := range s.run.Hosts() {
		if h.Role == s.role() {
			h.Record(st, 1)
			return
		}
	}
	if s.pending != nil {
		st = pull.StatusOf(*s.pending, true, cmp.Or(s.pending.Reason, st.Reason), append(s.pending.Findings, st.Findings...))
	}
	s.pending = &st
}

// stored says which of the image's content lies on the node already: the runtime will
// not ask for that, so its success would prove less.
func (s *source) stored(reg *pull.Host, m *registry.Manifest) {
	store := s.image.store
	if store == nil {
		return
	}
	present, findings := store.Present(m)
	s.inStore = len(present)
	if len(findings) > 0 {
		reg.Record(pull.StatusOf(pull.Step{ID: pull.StepStore}, true, "", findings), 0)
	}
}

// retries is what this node's runtime does after a failure, by its release.
func (s *source) retries(r *registry.Report) registry.Retry {
	retry := s.image.profile.Client.Retry(r)
	if !retry.Done(s.image.view.Runtime.Version) {
		return registry.Retry{}
	}
	return retry
}

// proof is nil unless all bytes came and every digest was right.
func (s *source) proof() *Proof {
	if s.run.Depth != pull.Complete || !s.run.Finished {
		return nil
	}
	p := &Proof{Digest: s.run.Digest, Layers: len(s.run.Blobs) - 1, InStore: s.inStore}
	for _, r := range s.run.Blobs {
		if r == nil || !r.Complete {
			return nil
		}
		p.Bytes += r.Bytes
	}
	return p
}

// settings are those that hold for t.
func (s *source) settings(t pull.Target) *probe.TLS {
	if t.OwnRoots {
		return tlsSettingsOf(noderuntime.Source{})
	}
	return s.tls
}

func tlsSettingsOf(c noderuntime.Source) *probe.TLS {
	s := &probe.TLS{SkipVerify: c.SkipVerify}
	if len(c.CA) > 0 {
		s.CA = bytes.Join(c.CA, []byte("\n"))
	}
	if s.SkipVerify || s.CA != nil {
		s.By = c.File
	}
	h := sha256.New()
	fmt.Fprintf(h, "%t %q %q", s.SkipVerify, s.By, s.CA)
	for i := range c.Certificates {
		s.Pairs = append(s.Pairs, tlsauth.ClientPair{Parsed: &c.Certificates[i], Source: c.File})
		fmt.Fprintf(h, " %x", c.Certificates[i].Certificate)
	}
	s.Key = string(h.Sum(nil))
	return s
}

// common names a question that several images have in common: those of one group.
type common struct {
	group *group
	what  string
}
