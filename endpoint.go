package pullwalk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// target says which endpoint is meant, and how it is reached.
type target struct {
	scheme, host string
	port         uint16
	role         endpoints.Role
	foundBy      string
	hint         bool // only expected in this pull
	known        bool // a hint by what is known of a provider, and not by the caller
	ownRoots     bool // none of the source's TLS settings hold, only the node's roots
	beforePlain  bool // a hint: https, tried before plain http
	aside        bool // a hint that is only worth telling: nobody said that the pull comes there
}

// targetOf reads a URL that the reference, a challenge or a redirect gave.
func targetOf(u *url.URL, role endpoints.Role, foundBy string) (target, error) {
	t := target{scheme: u.Scheme, host: u.Hostname(), role: role, foundBy: foundBy}
	switch {
	case u.Port() != "":
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil || n == 0 {
			return t, fmt.Errorf("port %q", u.Port())
		}
		t.port = uint16(n)
	case u.Scheme == "http":
		t.port = 80
	case registry.IsSOCKS(u): // RFC 1928, section 3
		t.port = 1080
	default:
		t.port = 443
	}
	return t, nil
}

func (t target) hostPort() string { return net.JoinHostPort(t.host, strconv.Itoa(int(t.port))) }

// endpoint is one scheme, host and port in the pull of one image: the ladder that
// leads there, and the steps that were taken there for this image.
type endpoint struct {
	*ladder
	target
	src      *source
	roles    []endpoints.Role
	registry bool          // where the source's manifests are asked for
	left     bool          // the ladder, before its end; read when nothing else of the pull runs
	turns    chan struct{} // requests for blobs at once

	mu       sync.Mutex
	steps    []pull.Step
	changed  chan struct{}   // closed when one more step is recorded
	checks   map[StepID]bool // the caller's, that were begun here
	onlyHint bool            // the pull has not come here yet
	onlyTold bool            // and nobody said that it will
}

// isHint says that the pull was not seen to touch the endpoint, so far: what is
// wrong there can only warn.
func (e *endpoint) isHint() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.onlyHint
}

// logged is what the log has of the endpoint without its roles. The caller holds
// e.mu.
func (e *endpoint) logged() pull.Endpoint {
	out := pull.Endpoint{
		Scheme: e.scheme, Host: e.host, Port: e.port, FoundBy: e.foundBy, Registry: e.registry, Expected: e.onlyHint, Known: e.known,
		Aside: e.onlyTold, BeforePlain: e.beforePlain, Forwarded: e.forwarded(), Steps: slices.Clip(e.steps),
	}
	if e.via != nil {
		out.Via = e.via.hostPort()
	}
	return out
}

// soFar is logged for who does not hold e.mu.
func (e *endpoint) soFar() pull.Endpoint {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.logged()
}

// record keeps a finished step that is this image's own.
func (e *endpoint) record(s pull.Step, index int) pull.Step {
	st := e.observed(s, index)
	e.keep(st)
	return judge.Step(pull.Endpoint{Forwarded: e.forwarded()}, st)
}

// keep takes a finished step into the log and tells OnStep.
func (e *endpoint) keep(st pull.Step) {
	e.mu.Lock()
	at := e.logged()
	e.steps = append(e.steps, st)
	close(e.changed)
	e.changed = make(chan struct{})
	e.mu.Unlock()
	if e.d.opts.observed != nil {
		e.d.opts.observed(st)
	}
	e.d.notify.step(stepOf(judge.Step(at, st), e.hostPort(), e.src.d.ref.Given))
}

// place names the endpoint of a finding as host:port, so that every finding can
// be traced to the endpoint in whose ladder it stands; a nameserver's finding
// keeps the name that was looked up, and a tunnel is the proxy's to open.
func (e *ladder) place(id StepID, f classify.Finding) classify.Finding {
	switch {
	case e.blamesProxy(id, f):
		f.Endpoint = e.via.hostPort()
	case f.Layer == classify.LayerDNS:
		if f.Endpoint == "" {
			f.Endpoint = e.host
		}
	case e.scheme == pull.SchemeDNS:
		f.Endpoint = e.host
	default:
		f.Endpoint = e.hostPort()
	}
	return f
}

// blockRest says which steps never came to be tried, and because of what.
func (e *endpoint) blockRest(ids ...StepID) {
	by := ""
	select {
	case <-e.ready:
		if e.through == nil {
			by = e.blockedBy
		}
	default: // its ladder still runs: the end of ctx came first
	}
	if by == "" {
		by = judge.FirstFailure(e.src.log())
	}
	for _, id := range ids {
		e.record(pull.Step{ID: id, Status: StatusBlocked, BlockedBy: by}, 0)
	}
}

func (e *endpoint) has(id StepID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.steps, func(s pull.Step) bool { return s.ID == id })
}

// request runs one request at e once its ladder holds. The step is not recorded
// yet: what it amounts to may depend on the next.
func (e *endpoint) request(ctx context.Context, s pull.Step, run func(context.Context, http.RoundTripper, *watch) outcome) outcome {
	select {
	case <-e.ready:
	case <-ctx.Done():
		s.Status, s.Reason = StatusInconclusive, reasonOf(ctx)
		return outcome{Step: s}
	}
	if e.through == nil {
		s.Status, s.BlockedBy = StatusBlocked, e.blockedBy
		return outcome{Step: s}
	}
	return e.timed(ctx, s, func(ctx context.Context, w *watch) outcome { return run(ctx, clocked{e}, w) })
}

// open returns one more connection along the lane that is through, verified like
// the first.
func (e *ladder) open(ctx context.Context) (net.Conn, error) {
	l := e.through
	conn, _, err := l.dial(ctx)
	if err != nil || e.scheme != "https" {
		return conn, err
	}
	c := e.tlsChecker(l, conn)
	c.Hellos = c.Hellos[:1]
	rep, verified, err := c.Dial(ctx, l.tlsTarget(), e.host)
	switch {
	case err != nil:
		return nil, err
	case verified != nil:
		return verified, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if fs := rep.Findings(); len(fs) > 0 {
		return nil, fs[0]
	}
	return nil, errors.New(cmp.Or(rep.Inconclusive, "TLS was not verified"))
}

// tlsChecker verifies as the source's settings say. Its first connection is
// open; more go along the same lane.
func (e *ladder) tlsChecker(l *lane, open net.Conn) *tlsauth.Checker {
	first := make(chan net.Conn, 1)
	first <- open
	return &tlsauth.Checker{
		Hellos: e.d.hellos(),
		Roots:  e.d.view.Node.Roots, Trust: e.d.view.roots, FS: e.d.view.FS,
		CA: e.tls.ca, CASource: e.tls.by, ClientPairs: e.tls.pairs, SkipVerify: e.tls.skipVerify,
		RuntimeStarted: e.d.view.runtime.Started, Seen: e.seen, DialSegments: e.segments(), Now: e.d.view.Now, Limit: e.d.limits.TLS, UserAgent: e.d.userAgent,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			select {
			case c := <-first:
				return registry.ReadAhead(c), nil
			default:
			}
			c, _, err := l.dial(ctx)
			if err != nil {
				return nil, err
			}
			return registry.ReadAhead(c), nil
		},
	}
}

// hellos are both, the one that the node's runtime sends first.
func (d *diagnosis) hellos() []tlsauth.Hello {
	rt := d.view.runtime
	if tlsauth.HelloOf(rt.GoVersion, rt.GODEBUG, rt.Environ["GODEBUG"]) == tlsauth.HelloClassical {
		return []tlsauth.Hello{tlsauth.HelloClassical, tlsauth.HelloLarge}
	}
	return []tlsauth.Hello{tlsauth.HelloLarge, tlsauth.HelloClassical}
}

// segments clamps segments where the sockets are the system's own, to tell a
// silent server from a path that loses large packets.
func (e *ladder) segments() func(ctx context.Context, network, address string, mss int) (net.Conn, error) {
	if e.via != nil { // through a proxy the path is the proxy's
		return nil
	}
	switch d := e.d.view.Node.Dialer.(type) {
	case nil:
		return reach.System{}.DialSegment
	case segmentDialer:
		return d.DialSegment
	}
	return nil
}

// segmentDialer is a dialer that can clamp segments, as [reach.System] does.
type segmentDialer interface {
	DialSegment(ctx context.Context, network, address string, mss int) (net.Conn, error)
}
