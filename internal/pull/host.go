package pull

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// Target says which host is meant, and what for.
type Target struct {
	Scheme, Host string
	Port         uint16
	Role         registry.Role
	FoundBy      string // who led there
	Expected     bool   // the pull may come here, and has not yet
	Known        bool   // expected by what is known of a provider, and not by the caller
	Aside        bool   // expected by nobody: it is only looked at
	BeforePlain  bool   // https, tried before plain http
	OwnRoots     bool   // the source's own TLS settings do not hold here
}

// TargetOf reads a URL that a reference, a challenge or a redirect gave.
func TargetOf(u *url.URL, role registry.Role, foundBy string) (Target, error) {
	t := Target{Scheme: u.Scheme, Host: u.Hostname(), Role: role, FoundBy: foundBy}
	switch {
	case u.Port() != "":
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil || n == 0 {
			return t, fmt.Errorf("want a port from 1 to 65535, got %q", u.Port())
		}
		t.Port = uint16(n)
	case u.Scheme == "http":
		t.Port = 80
	case registry.IsSOCKS(u): // RFC 1928, section 3
		t.Port = 1080
	default:
		t.Port = 443
	}
	return t, nil
}

// HostPort returns host:port.
func (t Target) HostPort() string { return HostPort(t.Host, t.Port) }

// HostPort joins a host and a port.
func HostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// SplitHostPort reads host or host:port; the port is 443 if it is not said.
func SplitHostPort(s string) (host string, port uint16, err error) {
	host, p, err := net.SplitHostPort(s)
	if err != nil {
		host, p = s, "443"
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 || host == "" || strings.ContainsAny(host, "/@?# ") {
		return "", 0, fmt.Errorf("want host:port, got %q", s)
	}
	return host, uint16(n), nil
}

// Way is the way to a host, once it is open or known to be barred.
type Way interface {
	// Ready is closed when it is known which of the two.
	Ready() <-chan struct{}
	// Open returns how the host is asked, or by which step the way is barred, as of
	// [StepName]. It is called when Ready is closed.
	Open() (rt http.RoundTripper, blockedBy string)
	// Silent reports whether a step on the way was given up because nothing came.
	Silent() bool
}

// Opener begins the way to a host without waiting for it. It may record in h the steps
// that it takes. Met is told whenever the pull comes to a host again: for the first
// time, or in another role.
type Opener interface {
	Open(ctx context.Context, h *Host) Way
	Met(ctx context.Context, h *Host, t Target)
}

// Host is one scheme, host and port in the pull from one source, and the steps that
// were taken there.
type Host struct {
	Target
	run   *Run
	way   Way
	begun chan struct{} // closed when way is set
	turns chan struct{} // requests for blobs at once

	mu        sync.Mutex
	roles     []registry.Role
	registry  bool   // the source's manifests are asked for here
	touched   bool   // the pull came here
	named     bool   // somebody said that it comes here
	via       string // the proxy in between, host:port
	forwarded bool   // and requests are made of the proxy itself
	steps     []Step
	changed   chan struct{} // closed when one more step is recorded
}

// Way is the way that the opener began.
func (h *Host) Way() Way {
	<-h.begun
	return h.way
}

// Through says which proxy is asked instead of the host, or opens a tunnel there. It is
// for the opener, before it records anything.
func (h *Host) Through(via string, forwarded bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.via, h.forwarded = via, forwarded
}

// Roles are those so far.
func (h *Host) Roles() []registry.Role {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.roles)
}

// IsExpected reports whether the pull was not seen to come here so far.
func (h *Host) IsExpected() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.touched
}

// Touch says that the pull has come here.
func (h *Host) Touch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.touched = true
}

// meet adds what t says of why the pull comes here.
func (h *Host) meet(t Target) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.roles, t.Role) {
		h.roles = append(h.roles, t.Role)
	}
	h.touched, h.named = h.touched || !t.Expected, h.named || !t.Aside
}

// Log is what was seen of the host so far.
func (h *Host) Log() Endpoint {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log()
}

func (h *Host) log() Endpoint {
	return Endpoint{
		Scheme: h.Scheme, Host: h.Host, Port: h.Port, Roles: slices.Clone(h.roles), Via: h.via, FoundBy: h.FoundBy, Registry: h.registry,
		Expected: !h.touched, Known: h.Known, Aside: !h.named, BeforePlain: h.BeforePlain, Forwarded: h.forwarded, Steps: slices.Clip(h.steps),
	}
}

// Changed returns a channel that is closed when one more step is recorded.
func (h *Host) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

// Has reports whether a step was recorded.
func (h *Host) Has(id StepID) bool {
	return slices.ContainsFunc(h.Log().Steps, func(s Step) bool { return s.ID == id })
}

// Record keeps a finished step that is taken for this pull alone. index is its order
// among those of its ID.
func (h *Host) Record(s Step, index int) Step {
	s = h.Log().Complete(s, index)
	if h.run.Observe != nil {
		s = h.run.Observe(s)
	}
	h.Keep(s)
	return s
}

// Keep takes a step that is complete into the log.
func (h *Host) Keep(s Step) {
	h.mu.Lock()
	at := h.log()
	h.steps = append(h.steps, s)
	close(h.changed)
	h.changed = make(chan struct{})
	h.mu.Unlock()
	if h.run.Recorded != nil {
		h.run.Recorded(at, s)
	}
}

// Request makes one request when the way to the host is open. The step is not
// recorded: what it amounts to may depend on the next.
func (h *Host) Request(ctx context.Context, s Step, do func(context.Context, http.RoundTripper, func(int64)) Outcome) Outcome {
	select {
	case <-h.Way().Ready():
	case <-ctx.Done():
		s.Status, s.Reason = StatusInconclusive, EndOf(ctx)
		return Outcome{Step: s}
	}
	rt, by := h.Way().Open()
	if rt == nil {
		s.Status, s.BlockedBy = StatusBlocked, by
		return Outcome{Step: s}
	}
	ask := func(ctx context.Context, heard func(int64)) Outcome { return do(ctx, rt, heard) }
	if h.run.Timed != nil {
		return h.run.Timed(ctx, h, s, ask)
	}
	return ask(ctx, func(int64) {})
}

// BlockRest says which steps never came to be tried, and because of what.
func (h *Host) BlockRest(ids ...StepID) {
	by := ""
	select {
	case <-h.Way().Ready():
		_, by = h.Way().Open()
	default: // the end of ctx came first
	}
	if by == "" {
		by = h.run.firstFailure()
	}
	for _, id := range ids {
		h.Record(Step{ID: id, Status: StatusBlocked, BlockedBy: by}, 0)
	}
}

// Opened is the way to a host that needs no steps.
func Opened(rt http.RoundTripper) Way { return decided(rt, "") }

func decided(rt http.RoundTripper, blockedBy string) Way {
	w := decidedWay{rt, blockedBy, make(chan struct{})}
	close(w.ready)
	return w
}

type decidedWay struct {
	rt        http.RoundTripper
	blockedBy string
	ready     chan struct{}
}

func (w decidedWay) Ready() <-chan struct{}            { return w.ready }
func (w decidedWay) Open() (http.RoundTripper, string) { return w.rt, w.blockedBy }
func (w decidedWay) Silent() bool                      { return false }

// Complete fills in a finished step what follows from where it was taken. Findings are
// copied: the slice may be part of another pull's step.
func (e Endpoint) Complete(s Step, index int) Step {
	if s.Layer == "" {
		s.Layer = LayerOf(s.ID)
	}
	s.Index = index
	s.Findings = slices.Clone(s.Findings)
	for i, f := range s.Findings {
		s.Findings[i].Endpoint = e.endpointOf(s.ID, f)
	}
	return s
}

// endpointOf is the host:port of a finding, so that it can be traced to the host at
// which it was made. A nameserver's finding keeps the name that was looked up, and a
// tunnel is the proxy's to open.
func (e Endpoint) endpointOf(id StepID, f classify.Finding) string {
	proxys := id == StepTunnel || f.Cause == classify.EndpointProxyAuthRequired || f.Cause == classify.EndpointProxyRefusedConnect
	switch {
	case proxys && e.Via != "" && f.Cause != classify.EndpointAddressDenied:
		return e.Via
	case f.Layer == classify.LayerDNS && f.Endpoint != "":
		return f.Endpoint
	case f.Layer == classify.LayerDNS, e.Scheme == SchemeDNS:
		return e.Host
	}
	return e.HostPort()
}
