// Package pull owns the order of a pull: resolve, challenge, token, manifests, blobs,
// redirects and what is repeated. A [Run] walks one source; for each host that it comes
// to it asks an [Opener] for the way there, which may only dial, or probe the name, the
// route, the connection and TLS first.
//
// What was seen stands as steps in a [Log]. A step that stands there is never written to
// again; what the steps amount to together is for package judge to say.
package pull

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pullwalk/pullwalk/internal/registry"
)

// Depth is how far a pull goes.
type Depth int

// The depths.
const (
	Connect  Depth = iota // up to the token server, and no identity is used
	Resolve               // what the reference leads to, with the credentials
	Touch                 // the first bytes of every layer
	Complete              // every byte
)

// Run is the pull of one image from one source. Requests, Opener and Parallel are
// needed; nil functions mean what is said there. They may be called at the same time.
type Run struct {
	// Requests makes the requests. Its Base must be set; its Authorization is set here.
	Requests registry.Walk
	Opener   Opener
	Platform registry.Platform
	Depth    Depth
	Mirror   bool // of what another source has: nothing is asked twice
	OwnTLS   bool // it has TLS settings of its own, see [Target].OwnRoots
	MaxHosts int  // that are followed; 0 = any number
	Parallel int  // requests for blobs at one host
	// TokenFields are sent to token servers, as of [registry.TokenRequest].
	TokenFields registry.Fields
	// StopsAtHead says that the runtime is known to resolve a tag by HEAD alone.
	StopsAtHead bool
	AuditRights bool // ask what more the identity may do

	// Credentials returns what is tried, in order; a step instead says why that is not
	// known. nil = anonymous.
	Credentials func(ctx context.Context, reg *Host) ([]Credential, *Step)
	// Retries is what the runtime does after a failure; nil = nothing is repeated.
	Retries func(*registry.Report) registry.Retry
	// Fetching is told of the manifest before its blobs are asked for.
	Fetching func(reg *Host, m *registry.Manifest)
	// Once asks what is the same for other pulls, too; it reports false when own has
	// ended before there was an answer. nil = ask is called.
	Once func(ctx, own context.Context, reg *Host, what string, ask func(context.Context) Step) (Step, bool)
	// Timed makes a request within its limits; nil = it is just made.
	Timed func(ctx context.Context, h *Host, s Step, ask func(context.Context, func(int64)) Outcome) Outcome
	// Observe adds to a step what may have disturbed it; nil = nothing.
	Observe func(Step) Step
	// Recorded is told of each step that is recorded; at is what was seen of the host
	// before.
	Recorded func(at Endpoint, s Step)
	// FirstFailure names what stopped the pull, by what was seen so far; nil = nobody
	// knows.
	FirstFailure func(Source) string

	// For the goroutine that walks, and for others when Wait has returned.
	Info     registry.CredentialInfo // of the credential that was used; zero = none was
	Digest   string                  // what the reference led to
	Accepted int                     // as of [Source]
	Finished bool                    // the pull came to its end
	Blobs    []*registry.Report      // of the configuration and the layers; nil = not asked to the end

	known     *registry.Access // what was learnt of the credential that is tried; nil = none is
	auth      *bearer          // what requests for blobs carry; nil = nothing
	unwaited  sync.WaitGroup   // what Walk does not wait for
	manifests atomic.Int64

	mu        sync.Mutex
	hosts     []*Host
	overflow  bool // more hosts than are followed
	silence   givenUp
	postponed []postponed
}

// Outcome is a finished step, with what came of it.
type Outcome struct {
	Step
	Manifest *registry.Manifest
	token    registry.TokenResult
	at       *Host // where a token exchange ended; nil = where it began
}

// ErrBudget is the cause of a context that ends because the budget does.
var ErrBudget = errors.New("the budget ended")

// EndOf says in words why ctx ended.
func EndOf(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrBudget):
		return "the budget ended"
	case errors.Is(cause, context.DeadlineExceeded):
		return "the caller's deadline passed"
	}
	return "canceled by the caller"
}

// Walk is the pull, told in order: the registry, the challenge, a token for each
// credential until one may read, the index, the manifest of the platform, and every
// blob wherever it is redirected to. reg is the host of the registry.
func (r *Run) Walk(ctx context.Context, reg *Host) {
	asking, stop := context.WithCancel(ctx)
	if !r.Requests.Client.Pings { // what this runtime never asks must not hold the verdict up
		defer func() { time.AfterFunc(pingGrace, stop) }()
	}
	pinged := r.ping(ctx, asking, reg)
	top, challenge := r.authorize(ctx, reg)
	r.unwaited.Go(func() {
		defer stop()
		r.comparePing(reg, <-pinged, challenge)
	})
	if top == nil {
		if !reg.Has(StepResolve) {
			reg.BlockRest(StepResolve)
		}
		reg.BlockRest(StepManifest, StepConfig, StepLayer)
		return
	}
	if r.Depth <= Resolve {
		r.Finished = true
		return
	}
	manifest := r.platformManifest(ctx, reg, top)
	if manifest == nil {
		reg.BlockRest(StepConfig, StepLayer)
		return
	}
	if r.Fetching != nil {
		r.Fetching(reg, manifest)
	}
	r.blobs(ctx, reg, manifest)
}

// Wait waits for what no pull depends on.
func (r *Run) Wait() { r.unwaited.Wait() }

// ManifestRequests counts the requests for manifests that were sent.
func (r *Run) ManifestRequests() int { return int(r.manifests.Load()) }

// Base starts the host of the registry itself.
func (r *Run) Base(ctx context.Context, t Target) *Host {
	reg := r.Host(ctx, t)
	if reg != nil {
		reg.mu.Lock()
		reg.registry = true
		reg.mu.Unlock()
	}
	return reg
}

// Host returns the host of t, and begins the way to it if it is new. nil means that the
// pull names more hosts than are followed.
func (r *Run) Host(ctx context.Context, t Target) *Host {
	r.mu.Lock()
	h := r.find(t)
	if h == nil && r.MaxHosts > 0 && len(r.hosts) >= r.MaxHosts {
		r.overflow = true
		r.mu.Unlock()
		return nil
	}
	if h == nil {
		h = r.add(t)
		r.mu.Unlock()
		return r.begin(ctx, h)
	}
	r.mu.Unlock()
	h.meet(t)
	r.Opener.Met(ctx, h, t)
	return h
}

// Find returns the host of t if there is one.
func (r *Run) Find(t Target) *Host {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.find(t)
}

// Where the node's own settings say that credentials come from is kept apart: it may
// lie at an address to which a registry must not lead. So is a host that is asked with
// other TLS settings: what one set trusts says nothing of the other.
func (r *Run) find(t Target) *Host {
	own := t.Role == registry.RoleCredential
	for _, h := range r.hosts {
		if h.Scheme == t.Scheme && h.Target.Host == t.Host && h.Port == t.Port && own == (h.Role == registry.RoleCredential) && (h.OwnRoots == t.OwnRoots || !r.OwnTLS) {
			return h
		}
	}
	return nil
}

// Add begins the way to one more host, however many there are.
func (r *Run) Add(ctx context.Context, t Target) *Host {
	r.mu.Lock()
	h := r.add(t)
	r.mu.Unlock()
	return r.begin(ctx, h)
}

// AddBarred adds a host that is not asked, because of a step.
func (r *Run) AddBarred(t Target, blockedBy string) *Host {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.add(t)
	h.way = decided(nil, blockedBy)
	close(h.begun)
	return h
}

func (r *Run) add(t Target) *Host {
	h := &Host{Target: t, run: r, begun: make(chan struct{}), turns: make(chan struct{}, max(r.Parallel, 1)), changed: make(chan struct{})}
	h.meet(t)
	r.hosts = append(r.hosts, h)
	return h
}

func (r *Run) begin(ctx context.Context, h *Host) *Host {
	h.way = r.Opener.Open(ctx, h)
	close(h.begun)
	r.Opener.Met(ctx, h, h.Target)
	return h
}

// Hosts are those so far.
func (r *Run) Hosts() []*Host {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.hosts)
}

// Log is what was seen so far.
func (r *Run) Log() Source {
	out := Source{Digest: r.Digest, Finished: r.Finished, Partial: r.Depth <= Resolve, Accepted: r.Accepted}
	r.mu.Lock()
	if r.overflow {
		out.Overflow = r.MaxHosts
	}
	r.mu.Unlock()
	for _, h := range r.Hosts() {
		out.Endpoints = append(out.Endpoints, h.Log())
	}
	return out
}

func (r *Run) firstFailure() string {
	if r.FirstFailure == nil {
		return ""
	}
	return r.FirstFailure(r.Log())
}
