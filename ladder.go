package pullwalk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/wire"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// stepName is how a step is named in texts and in BlockedBy.
func stepName(id StepID, hostPort string, addr netip.Addr) string {
	name := string(id) + "@" + hostPort
	if addr.IsValid() {
		name += "[" + addr.String() + "]"
	}
	return name
}

// target says which endpoint is meant, and how it is reached.
type target struct {
	scheme, host string
	port         uint16
	role         endpoints.Role
	foundBy      string
	hint         bool // only expected in this pull
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
	default:
		t.port = 443
	}
	return t, nil
}

func (t target) hostPort() string { return net.JoinHostPort(t.host, strconv.Itoa(int(t.port))) }

// endpoint is one scheme, host and port under diagnosis. Its ladder is climbed
// once, whoever asks; the steps that need it wait on ready.
type endpoint struct {
	d   *diagnosis
	src *source
	target
	roles []endpoints.Role
	proxy *url.URL  // set when a proxy stands in between
	via   *endpoint // the proxy's own endpoint

	ready chan struct{} // closed when a lane is through, or when none will be
	done  chan struct{} // closed when every lane has ended

	// The following are written before ready or done is closed, and read after.
	through   *lane  // the first lane that held all the way
	blockedBy string // the first failure, when no lane is through

	pool wire.Pool

	mu       sync.Mutex
	steps    []step
	onlyHint bool // the pull has not come here yet
}

// isHint says that the pull was not seen to touch the endpoint, so far: what is
// wrong there can only warn.
func (e *endpoint) isHint() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.onlyHint
}

// step is a Step with its place in the report: rung first, then order in it.
type step struct {
	Step
	rung, index int
}

// The rungs, in the order in which they are reported.
var rungs = []StepID{StepSettings, StepDNS, StepRoute, StepConnect, StepTunnel, StepTLS, StepChallenge, StepToken, StepResolve, StepManifest, StepConfig, StepLayer}

// layers says which layer a step belongs to. A request's own findings may belong
// to another one: a 401 is identity.
func layerOf(id StepID) classify.Layer {
	switch id {
	case StepSettings:
		return classify.LayerNode
	case StepDNS:
		return classify.LayerDNS
	case StepRoute:
		return classify.LayerRoute
	case StepTLS:
		return classify.LayerTLS
	case StepToken:
		return classify.LayerIdentity
	case StepResolve, StepManifest, StepConfig, StepLayer:
		return classify.LayerImage
	}
	return classify.LayerEndpoint
}

// lane is the ladder of one address.
type lane struct {
	e         *endpoint
	addr      netip.Addr // zero through a proxy
	index     int
	steps     map[StepID]Step
	blockedBy string // the step of this lane that stopped it
	conn      net.Conn
}

// record keeps a finished step and tells OnStep.
func (e *endpoint) record(s Step, index int) Step {
	s.Endpoint = e.hostPort()
	if s.Layer == "" {
		s.Layer = layerOf(s.ID)
	}
	for i := range s.Findings {
		s.Findings[i] = e.place(s.ID, s.Findings[i])
	}
	e.mu.Lock()
	e.steps = append(e.steps, step{s, slices.Index(rungs, s.ID), index})
	told := s
	if e.onlyHint {
		told.Findings = warned(s.Findings)
	}
	e.mu.Unlock()
	e.d.notify.step(told)
	return s
}

// place names the endpoint of a finding as host:port, so that every finding can
// be traced to the endpoint in whose ladder it stands; a nameserver's finding
// keeps the name that was looked up, and a tunnel is the proxy's to open.
func (e *endpoint) place(id StepID, f classify.Finding) classify.Finding {
	switch {
	case id == StepTunnel && e.via != nil && f.Cause != classify.EndpointAddressDenied:
		f.Endpoint = e.via.hostPort()
	case f.Layer == classify.LayerDNS:
		if f.Endpoint == "" {
			f.Endpoint = e.host
		}
	case e.scheme == schemeDNS:
		f.Endpoint = e.host
	default:
		f.Endpoint = e.hostPort()
	}
	if e.d.hurried && f.Certainty == classify.CertaintyProven && f.Fact(classify.FactLimit) != "" {
		f.Certainty = classify.CertaintyLikely // a runtime would have waited longer
	}
	return f
}

// settle derives the status of a step from what its report says. Nothing is ok
// that was not seen to hold.
func settle(s Step, held bool, inconclusive string, findings []classify.Finding) Step {
	s.Findings = findings
	switch {
	case hasSeverity(findings, classify.SeverityFail):
		s.Status = StatusFailed
	case inconclusive != "":
		s.Status, s.Reason = StatusInconclusive, inconclusive
	case !held:
		s.Status, s.Reason = StatusInconclusive, "nothing was seen that decides"
	case hasSeverity(findings, classify.SeverityWarn):
		s.Status = StatusDegraded
	default:
		s.Status = StatusOK
	}
	return s
}

func hasSeverity(findings []classify.Finding, s classify.Severity) bool {
	return slices.ContainsFunc(findings, func(f classify.Finding) bool { return f.Severity == s })
}

// passes says whether a step lets its dependants start.
func (s Status) passes() bool { return s == StatusOK || s == StatusDegraded || s == StatusSkipped }

// outcome is a finished step, with the connection that it opened, if any. The
// connection travels with the step, so that code left behind by await can never
// write to what others read.
type outcome struct {
	Step
	conn net.Conn
}

// timed runs one step: it is watched for silence, and left behind if it ignores
// the end of ctx.
func (e *endpoint) timed(ctx context.Context, s Step, run func(context.Context, *watch) outcome) outcome {
	if ctx.Err() != nil { // the end has come: each step begun now could cost another grace
		s.Status, s.Reason = StatusInconclusive, reasonOf(ctx)
		return outcome{Step: s}
	}
	w := e.d.notify.watch(Progress{Step: s.ID, Endpoint: e.hostPort(), Addr: s.Addr, Subject: s.Subject, Layer: silenceOf(s.ID)})
	defer w.stop()
	start := time.Now()
	out, ok := await(ctx, func() outcome { return run(ctx, w) })
	if !ok {
		out = outcome{Step: s}
		out.Status, out.Reason = StatusInconclusive, reasonOf(ctx)+"; code of the caller did not return"
	}
	out.ElapsedMS = time.Since(start).Milliseconds()
	return out
}

// silenceOf says which layer silence in a step points to: what was sent got
// lost, or something answers and then does not go on, whatever is asked for.
func silenceOf(id StepID) classify.Layer {
	switch id {
	case StepSettings, StepDNS, StepRoute:
		return layerOf(id)
	case StepConnect:
		return classify.LayerRoute
	}
	return classify.LayerEndpoint
}

var errBudget = errors.New("the budget ended")

// reasonOf says in words why ctx ended.
func reasonOf(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errBudget):
		return "the budget ended"
	case errors.Is(cause, context.DeadlineExceeded):
		return "the caller's deadline passed"
	}
	return "canceled by the caller"
}

// climb takes the rungs up to tls: dns once, then every address in a lane of its
// own, all at once.
func (e *endpoint) climb(ctx context.Context) {
	defer close(e.done)
	addrs, blocked := e.addresses(ctx)
	if blocked != "" {
		for _, id := range e.laneSteps() {
			e.record(Step{ID: id, Status: StatusBlocked, BlockedBy: blocked}, 0)
		}
		e.blockedBy = blocked
		close(e.ready)
		return
	}
	lanes := make([]*lane, len(addrs))
	var first sync.Once
	var wg sync.WaitGroup
	for i, addr := range addrs {
		l := &lane{e: e, addr: addr, index: i + 1, steps: map[StepID]Step{}}
		lanes[i] = l
		wg.Go(func() {
			l.climb(ctx)
			if l.blockedBy != "" {
				return
			}
			won := false
			first.Do(func() {
				won = true
				e.through = l
				e.pool.Put(l.conn)
				close(e.ready)
			})
			if !won {
				_ = l.conn.Close()
			}
		})
	}
	wg.Wait()
	for _, id := range e.laneSteps() {
		e.sum(id, lanes)
	}
	if e.through == nil {
		e.blockedBy = firstBlock(lanes)
		close(e.ready)
	}
}

// laneSteps are the rungs that each lane takes.
func (e *endpoint) laneSteps() []StepID {
	ids := []StepID{StepRoute, StepConnect}
	if e.proxy != nil {
		ids = []StepID{StepTunnel}
	}
	if e.scheme == "https" {
		ids = append(ids, StepTLS)
	}
	return ids
}

// addresses is the dns rung. Through a proxy the name is not ours to look up.
func (e *endpoint) addresses(ctx context.Context) (addrs []netip.Addr, blocked string) {
	if e.proxy != nil {
		for _, id := range []StepID{StepDNS, StepRoute, StepConnect} {
			e.record(Step{ID: id, Status: StatusSkipped, Reason: "through proxy " + e.proxy.Host}, 0)
		}
		select {
		case <-e.via.ready:
		case <-ctx.Done():
			return nil, stepName(StepConnect, e.via.hostPort(), netip.Addr{})
		}
		return []netip.Addr{{}}, e.via.blockedBy
	}
	if addr, err := netip.ParseAddr(e.host); err == nil {
		e.record(Step{ID: StepDNS, Status: StatusSkipped, Reason: "the host is an address"}, 0)
		return []netip.Addr{addr}, ""
	}
	out := e.timed(ctx, Step{ID: StepDNS}, func(ctx context.Context, _ *watch) outcome {
		rep, err := e.d.dns.Check(ctx, e.host)
		if err != nil {
			return outcome{Step: questionFailed(Step{ID: StepDNS}, err)}
		}
		return outcome{Step: settle(Step{ID: StepDNS, DNS: rep}, rep.Held(), rep.Inconclusive, rep.Findings())}
	})
	s := e.record(out.Step, 0)
	if !s.Status.passes() {
		return nil, stepName(StepDNS, e.hostPort(), netip.Addr{})
	}
	return s.DNS.Usable(), ""
}

// questionFailed turns the error of a probe, which means that the question could
// not be asked, into a step that says so.
func questionFailed(s Step, err error) Step {
	s.Status, s.Reason = StatusInconclusive, classify.Redact(err.Error(), 300)
	if errors.Is(err, errors.ErrUnsupported) {
		s.Status = StatusSkipped
	}
	return s
}

// climb takes the rungs of one address. A rung is tried only when the one before
// passed.
func (l *lane) climb(ctx context.Context) {
	for _, id := range l.e.laneSteps() {
		if l.blockedBy != "" {
			l.keep(Step{ID: id, Status: StatusBlocked, BlockedBy: l.blockedBy})
			continue
		}
		open := l.conn
		l.conn = nil
		s := l.e.timed(ctx, Step{ID: id, Addr: l.addr}, func(ctx context.Context, _ *watch) outcome {
			switch id {
			case StepRoute:
				return outcome{Step: l.route(ctx)}
			case StepConnect, StepTunnel:
				return l.connect(ctx, id)
			default:
				return l.tls(ctx, open)
			}
		})
		l.conn = s.conn
		l.keep(s.Step)
		if !s.Status.passes() {
			l.blockedBy = stepName(id, l.e.hostPort(), l.addr)
			l.drop()
		}
	}
}

func (l *lane) keep(s Step) {
	s.Addr = l.addr
	if l.addr.IsValid() {
		s = l.e.record(s, l.index)
	}
	l.steps[s.ID] = s
}

func (l *lane) drop() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

func (l *lane) addrPort() netip.AddrPort { return netip.AddrPortFrom(l.addr, l.e.port) }

func (l *lane) route(ctx context.Context) Step {
	s := Step{ID: StepRoute}
	if s, denied := l.denied(s, l.addr); denied {
		return s
	}
	return l.lookup(ctx)
}

// denied settles a step that would lead to an address which must not be
// connected to.
func (l *lane) denied(s Step, addr netip.Addr) (Step, bool) {
	err := l.e.d.allow(netip.AddrPortFrom(addr, l.e.port))
	if err == nil {
		return s, false
	}
	f := classify.New(classify.EndpointAddressDenied, fmt.Sprintf("%s leads to %v, which this tool does not connect to: %v", l.e.host, addr, err),
		classify.Fact{Key: classify.FactAddress, Value: addr.String()})
	f.Severity = classify.SeverityWarn
	return settle(s, false, "address not allowed: "+err.Error(), []classify.Finding{f}), true
}

// lookup asks the kernel for the way to the lane's address.
func (l *lane) lookup(ctx context.Context) Step {
	s := Step{ID: StepRoute}
	rep, err := l.e.d.reach.CheckRoute(ctx, l.addr)
	if err != nil {
		return questionFailed(s, err)
	}
	s.Reach = rep
	return settle(s, rep.Held(), rep.Inconclusive, rep.Findings())
}

func (l *lane) connect(ctx context.Context, id StepID) outcome {
	s := Step{ID: id}
	if addr, err := netip.ParseAddr(l.e.host); err == nil && id == StepTunnel {
		// A proxy would ask the address on our behalf.
		if s, denied := l.denied(s, addr); denied {
			return outcome{Step: s}
		}
	}
	conn, rep, err := l.dial(ctx)
	switch {
	case rep != nil:
		s.Reach = rep
		s = settle(s, rep.Held(), rep.Inconclusive, l.named(rep.Findings()))
	case err != nil && ctx.Err() != nil:
		s.Status, s.Reason = StatusInconclusive, reasonOf(ctx)
	case err != nil:
		s = settle(s, false, "", []classify.Finding{classify.Error(err)})
	default:
		s.Status = StatusOK
	}
	return outcome{s, conn}
}

// named says of which host a finding about an address is: reach knows only the
// address, and a reader looks for the host.
func (l *lane) named(findings []classify.Finding) []classify.Finding {
	for i, f := range findings {
		var stage *classify.StageError
		if !errors.As(f, &stage) {
			continue
		}
		own := *stage
		own.Endpoint = l.e.hostPort()
		g := classify.Error(&own)
		findings[i].Summary = g.Summary
	}
	return findings
}

// dial opens a connection to the lane's address and no other, or a tunnel
// through the proxy. The report is nil through a proxy.
func (l *lane) dial(ctx context.Context) (net.Conn, *reach.Report, error) {
	if p := l.e.via; p != nil {
		conn, err := p.open(ctx)
		if err != nil {
			return nil, nil, err
		}
		conn, err = wire.Connect(ctx, conn, l.e.proxy, l.e.hostPort(), l.e.d.userAgent, l.e.d.limits.Header)
		return conn, nil, err
	}
	rep, conn, err := l.e.d.reach.Connect(ctx, l.addrPort())
	if err != nil {
		return nil, nil, err
	}
	if conn == nil {
		if fs := rep.Findings(); len(fs) > 0 {
			return nil, rep, fs[0]
		}
		return nil, rep, errors.New(cmp.Or(rep.Inconclusive, "no connection"))
	}
	return conn, rep, nil
}

func (l *lane) tls(ctx context.Context, open net.Conn) outcome {
	s := Step{ID: StepTLS}
	set := l.e.src.tls
	if err := l.e.d.view.rootsErr; err != nil {
		_ = open.Close()
		return outcome{Step: questionFailed(s, err)}
	}
	c := l.e.tlsChecker(l, open)
	rep, conn, err := c.Dial(ctx, l.tlsTarget(), l.e.host)
	if err != nil {
		_ = open.Close()
		return outcome{Step: questionFailed(s, err)}
	}
	s.TLS = rep
	findings := rep.Findings()
	if set.skipVerify {
		f := classify.New(classify.TLSVerificationOff, fmt.Sprintf("Certificate verification is off for %s: %s.", l.e.host, set.by), classify.Fact{Key: classify.FactFile, Value: set.by})
		f.Severity = classify.SeverityWarn
		if hasSeverity(findings, classify.SeverityFail) && len(rep.Chain) > 0 {
			// The runtime goes on here. We send nothing over an unverified connection,
			// so what lies behind is not known.
			return outcome{Step: settle(s, false, "the runtime does not verify this certificate; nothing is sent over an unverified connection", append(warned(findings), f))}
		}
		findings = append(findings, f)
	}
	return outcome{settle(s, rep.Held(), rep.Inconclusive, findings), conn}
}

// tlsTarget is the address as the TLS report names it; a tunnel has none.
func (l *lane) tlsTarget() netip.AddrPort {
	if l.addr.IsValid() {
		return l.addrPort()
	}
	return netip.AddrPortFrom(l.e.via.through.addr, l.e.via.port)
}

// tlsChecker verifies as the source's settings say. Its first connection is
// open; more go along the same lane.
func (e *endpoint) tlsChecker(l *lane, open net.Conn) *tlsauth.Checker {
	first := make(chan net.Conn, 1)
	first <- open
	return &tlsauth.Checker{
		Roots: e.d.view.Node.Roots, Trust: e.d.view.roots, CA: e.src.tls.ca, Now: e.d.view.Now, Limit: e.d.limits.TLS, UserAgent: e.d.userAgent,
		Dialer: tlsauth.DialerFunc(func(ctx context.Context, _, _ string) (net.Conn, error) {
			select {
			case c := <-first:
				return c, nil
			default:
			}
			c, _, err := l.dial(ctx)
			return c, err
		}),
	}
}

// open returns one more connection along the lane that is through, verified like
// the first.
func (e *endpoint) open(ctx context.Context) (net.Conn, error) {
	l := e.through
	conn, _, err := l.dial(ctx)
	if err != nil || e.scheme != "https" {
		return conn, err
	}
	c := e.tlsChecker(l, conn)
	c.Hellos = []tlsauth.Hello{tlsauth.HelloLarge}
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

// sum is the endpoint-wide step over the lanes: addresses are alternatives, so
// one that passes turns the failures of the others into warnings.
func (e *endpoint) sum(id StepID, lanes []*lane) {
	var ok, tried, failed, waiting int
	s := Step{ID: id}
	var findings []classify.Finding
	for _, l := range lanes {
		ls := l.steps[id]
		if ls.Status == StatusBlocked {
			if s.BlockedBy == "" {
				s.BlockedBy = ls.BlockedBy
			}
			continue
		}
		tried++
		s.ElapsedMS = max(s.ElapsedMS, ls.ElapsedMS)
		switch {
		case ls.Status.passes():
			ok++
		case ls.Status == StatusFailed:
			failed++
		default:
			waiting++
			s.Reason = ls.Reason
		}
		findings = append(findings, ls.Findings...)
		if !l.addr.IsValid() { // a tunnel's only lane: the summary is the step
			s.TLS, s.Reach, s.Reason = ls.TLS, ls.Reach, ls.Reason
		}
	}
	switch {
	case ok > 0 && ok == tried:
		s.Status, s.BlockedBy = StatusOK, ""
	case ok > 0:
		s.Status, s.BlockedBy = StatusOK, ""
		findings = alternatives(findings)
	case failed > 0:
		s.Status, s.BlockedBy, s.Reason = StatusFailed, "", ""
	case waiting > 0:
		s.Status, s.BlockedBy = StatusInconclusive, ""
	default:
		s.Status = StatusBlocked
	}
	if s.Status == StatusOK {
		s.Reason = ""
		if allSkipped(id, lanes) {
			s.Status, s.Reason = StatusSkipped, lanes[0].steps[id].Reason
		}
		if hasSeverity(findings, classify.SeverityWarn) {
			s.Status = StatusDegraded
		}
	}
	s.Findings = distinct(findings)
	e.record(s, 0)
}

func allSkipped(id StepID, lanes []*lane) bool {
	return !slices.ContainsFunc(lanes, func(l *lane) bool { return l.steps[id].Status != StatusSkipped })
}

// alternatives turns the failures of addresses that another address makes up for
// into warnings. A node without IPv6 that reaches the registry over IPv4 lacks
// nothing: that is only mentioned.
func alternatives(findings []classify.Finding) []classify.Finding {
	out := warned(findings)
	for i := range out {
		if out[i].Cause == classify.RouteIPv6Unreachable {
			out[i].Severity = classify.SeverityInfo
		}
	}
	return out
}

func warned(findings []classify.Finding) []classify.Finding {
	out := slices.Clone(findings)
	for i := range out {
		if out[i].Severity == classify.SeverityFail {
			out[i].Severity = classify.SeverityWarn
		}
	}
	return out
}

// firstBlock names the first failure of the lanes: one that was seen to fail
// before one that is only unknown.
func firstBlock(lanes []*lane) string {
	for _, want := range []Status{StatusFailed, StatusInconclusive} {
		for _, l := range lanes {
			for _, id := range l.e.laneSteps() {
				if l.steps[id].Status == want {
					return stepName(id, l.e.hostPort(), l.addr)
				}
			}
		}
	}
	return lanes[0].blockedBy
}

const schemeDNS = "dns"

// request runs one request at e once its ladder holds. The step is not recorded
// yet: what it amounts to may depend on the next.
func (e *endpoint) request(ctx context.Context, s Step, run func(context.Context, http.RoundTripper, *watch) Step) Step {
	select {
	case <-e.ready:
	case <-ctx.Done():
		s.Status, s.Reason = StatusInconclusive, reasonOf(ctx)
		return s
	}
	if e.through == nil {
		s.Status, s.BlockedBy = StatusBlocked, e.blockedBy
		return s
	}
	return e.timed(ctx, s, func(ctx context.Context, w *watch) outcome { return outcome{Step: run(ctx, &e.pool, w)} }).Step
}

// tlsSettings are those of the registry's own host entry: token server and blob
// hosts get the same, as in the runtimes.
type tlsSettings struct {
	ca         []byte // PEM that is trusted beside the node's roots
	skipVerify bool
	by         string // what says so
}
