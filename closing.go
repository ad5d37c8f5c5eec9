package pullwalk

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/endpoints"
)

// PullReport is the closing pull: the requests of a runtime once more, through an
// ordinary HTTP client that shares neither connections nor code of the transport
// with the steps. It runs beside them, each request behind the step that asks the
// same. The requests are each image's own; the images of one call share the client,
// as they do in a runtime.
//
// It costs one manifest request without identity; where a token was needed one
// more with it; and unless Connect is asked for the manifest of the platform, and
// from each host that blobs came from the first 64 KiB of one blob. A HEAD that
// the runtime repeats by GET counts twice. Token servers are not asked again, and
// neither are places that a layer names itself.
//
// It proves no more than the steps do. Where both agree, the steps stand; where
// not, nobody knows which of them the runtime would meet, and the source is
// inconclusive.
type PullReport struct {
	UserAgent string        `json:"userAgent"` // Options.UserAgent, else the node's runtime's where one is known, else "pullwalk"
	Requests  []PullRequest `json:"requests"`  // in the order in which they were begun
}

// PullRequest is one request of the closing pull, redirects included.
type PullRequest struct {
	// Hosts are the host:port that were asked, in order; more than one after a
	// redirect to another.
	Hosts []string `json:"hosts"`
	// Request is nil if no answer came before the closing pull ended.
	Request *endpoints.RequestReport `json:"request,omitempty"`
}

// How long the closing pull is waited for when the walk has come to its end. Where
// the source served every step, its requests get as long as a silent connect
// (Limits.Connect) beyond the walk. Where silence was decided they get nothing
// more: they have met the same for as long.
const (
	// closingShare is what a request gets from its beginning when the source has
	// failed in another way, closingRest what it gets at least: enough for an answer
	// that is on its way.
	closingShare = time.Second
	closingRest  = 50 * time.Millisecond
)

// closing is the closing pull of one source. Its methods are for the goroutine
// that walks.
type closing struct {
	s      *source
	reg    *endpoint
	walk   endpoints.Walk
	client *ordinary // nil = nothing is asked, see skip
	skip   string
	ctx    context.Context
	cancel context.CancelFunc
	early  func() // ends the wait for silence
	asked  []*asked
	blobs  []endpoints.Descriptor // one of each host but the first
}

// asked is one request.
type asked struct {
	step    StepID // which step asks the same
	subject string
	began   time.Time
	done    chan struct{}

	mu      sync.Mutex
	hosts   []string
	request *endpoints.RequestReport // nil = not finished
}

func (a *asked) met(hostPort string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.hosts) == 0 || a.hosts[len(a.hosts)-1] != hostPort {
		a.hosts = append(a.hosts, hostPort)
	}
}

func (a *asked) finish(r *endpoints.RequestReport) {
	a.mu.Lock()
	a.request = r
	a.mu.Unlock()
	close(a.done)
}

// seen is what has come of it so far.
func (a *asked) seen() PullRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	return PullRequest{Hosts: slices.Clone(a.hosts), Request: a.request}
}

// repeat prepares the closing pull of s.
func (s *source) repeat(ctx context.Context, reg *endpoint, w *endpoints.Walk) *closing {
	c := &closing{s: s, reg: reg, walk: *w}
	switch {
	case ctx.Err() != nil:
		c.skip = reasonOf(ctx)
		return c
	case reg.unknown != "":
		c.skip = reg.unknown
		return c
	case s.tls.skipVerify:
		c.skip = "certificates are not verified here, and nothing is sent over a connection that was not"
		return c
	case s.d.view.rootsErr != nil:
		c.skip = "the node's roots are not known"
		return c
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.client = s.ordinary(ctx)
	c.walk.UserAgent = s.d.agent()
	c.early = afterSilence(ctx, c.first)
	return c
}

// begin asks without identity, behind the steps: what comes once, the first time
// or until a rate is used up, is theirs to meet. Where they keep waiting, the
// request goes out beside them. It does not where they have waited in vain before.
func (c *closing) begin() {
	if c.client == nil {
		return
	}
	if c.early(); len(c.asked) == 0 && !c.reg.nameless() && !c.reg.lost() {
		c.first()
	}
}

func (c *closing) first() { c.ask(StepResolve, cmp.Or(c.s.ref.Digest, c.s.ref.Tag), c.resolve) }

// nameless says that the name leads nowhere: a client would only ask the same
// nameservers the same.
func (e *endpoint) nameless() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.steps, func(s step) bool { return s.ID == StepDNS && !s.Status.passes() })
}

// ask begins a request beside those that run.
func (c *closing) ask(step StepID, subject string, do func(context.Context, *endpoints.Walk, http.RoundTripper) *endpoints.RequestReport) {
	if c.client == nil {
		return
	}
	a := &asked{step: step, subject: subject, began: time.Now(), done: make(chan struct{})}
	c.asked = append(c.asked, a)
	own := c.walk // the walk's Authorization changes meanwhile
	sent := func() {}
	if step == StepResolve || step == StepManifest {
		sent = c.s.d.countManifest
	}
	go func() { a.finish(do(c.ctx, &own, c.client.follower(a.met, sent))) }()
}

// resolve asks as the runtime does: by GET only after a HEAD that did not say
// enough.
func (c *closing) resolve(ctx context.Context, w *endpoints.Walk, rt http.RoundTripper) *endpoints.RequestReport {
	r := w.Resolve(ctx, rt, c.s.d.way.Method())
	if !r.NeedsGet() || r.Outcome == endpoints.OutcomeFailed && c.s.d.stopsAtHead() {
		return r
	}
	return w.Resolve(ctx, rt, http.MethodGet)
}

// stopsAtHead says that the node's runtime is known to resolve by HEAD alone.
func (d *diagnosis) stopsAtHead() bool {
	return d.view.knowsRuntime() && d.way == endpoints.WayContainerd
}

// authorized repeats the request that was allowed. A credential that was refused
// is not tried twice: accounts are locked for less.
func (c *closing) authorized(authorization string) {
	if authorization == "" { // the first request was it
		return
	}
	c.walk.Authorization = authorization
	c.ask(StepResolve, cmp.Or(c.s.ref.Digest, c.s.ref.Tag), c.resolve)
}

// manifest asks for the manifest of the platform.
func (c *closing) manifest(digest, mediaType string) {
	if slices.ContainsFunc(c.asked, func(a *asked) bool { return a.step == StepManifest }) {
		return
	}
	c.ask(StepManifest, digest, func(ctx context.Context, w *endpoints.Walk, rt http.RoundTripper) *endpoints.RequestReport {
		r, _ := w.Manifest(ctx, rt, digest, mediaType)
		return r
	})
}

// blob asks for the first bytes of one.
func (c *closing) blob(id StepID, d endpoints.Descriptor) {
	c.ask(id, d.Digest, func(ctx context.Context, w *endpoints.Walk, rt http.RoundTripper) *endpoints.RequestReport {
		return w.Blob(ctx, rt, d, endpoints.First64K)
	})
}

// located notes where the steps found the blobs. The first of them has been asked
// for already; each further host is asked for one of its own. A layer that names a
// place itself is left out: the registry need not have it.
func (c *closing) located(blobs []endpoints.Descriptor, reports []*endpoints.RequestReport) {
	met := map[string]bool{}
	for i, r := range reports {
		if r == nil || met[r.Host] || len(blobs[i].ForeignURLs()) > 0 {
			continue
		}
		met[r.Host] = true
		if i > 0 {
			c.blobs = append(c.blobs, blobs[i])
		}
	}
}

// end waits for what still runs, records what the closing pull amounts to, and
// ends it.
func (c *closing) end(ctx context.Context) {
	st := Step{ID: StepPull, Status: StatusSkipped, Reason: c.skip}
	if c.client != nil {
		defer c.cancel()
		c.early()
		st = c.outcome(ctx)
	}
	c.reg.record(st, 0)
}

func (c *closing) outcome(ctx context.Context) Step {
	verdict, _ := c.s.served() // what checks of the caller's say the client does not repeat
	if verdict.passes() && len(c.blobs) > 0 {
		c.walk.Authorization = c.s.auth.current(ctx, "") // a download may outlast a token
		for _, b := range c.blobs {
			c.blob(StepLayer, b)
		}
	}
	st := Step{ID: StepPull}
	st = c.reg.timed(ctx, st, func(ctx context.Context, _ *watch) outcome {
		c.wait(ctx, verdict)
		return outcome{Step: st}
	}).Step
	if ctx.Err() != nil {
		st.Status, st.Reason = StatusSkipped, reasonOf(ctx)
		return st
	}
	st.Pull = &PullReport{UserAgent: c.walk.UserAgent, Requests: []PullRequest{}}
	for _, a := range c.asked { // before anything is cut off
		st.Pull.Requests = append(st.Pull.Requests, a.seen())
	}
	return c.judge(ctx, st, verdict)
}

// wait returns when every request is through, or has had its time.
func (c *closing) wait(ctx context.Context, verdict Status) {
	limit, now := c.s.d.limits.Connect, time.Now()
	for _, a := range c.asked {
		end := now
		switch {
		case verdict.passes():
			end = now.Add(limit)
		case c.reg.lost() || c.s.silentStep() != "":
		case verdict == StatusFailed && now.Sub(a.began) < closingShare: // else there is nothing to compare with
			end = a.began.Add(min(closingShare, limit))
		default:
			end = now.Add(closingRest)
		}
		timer := time.NewTimer(time.Until(end))
		select {
		case <-a.done:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}
