package pullwalk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// ordinary is an HTTP client as the runtimes build theirs: [http.Transport] with
// its own pool, retries and proxy handling, HTTP/1.1, names looked up as the node
// does, and the source's TLS settings. Nothing of it is shared with the steps
// but what the node is: that is its use.
//
// It waits for ever, apart from a connect to one address of several: whoever
// asks decides how long an answer is waited for.
//
// It is one for all images of a call whose sources have the same TLS settings, as a
// runtime's is.
type ordinary struct {
	d         *diagnosis
	ctx       context.Context // ends every dial: a transport lets one go on when its request has ended
	cancel    context.CancelFunc
	transport *http.Transport

	mu     sync.Mutex
	names  map[string]*resolved
	conns  map[*ordinaryConn]struct{} // those that are open
	closed bool
}

func (s *source) ordinary(ctx context.Context) *ordinary {
	d := s.d.diagnosis
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.clients[s.tls.key]; o != nil {
		return o
	}
	o := &ordinary{d: d, names: map[string]*resolved{}, conns: map[*ordinaryConn]struct{}{}}
	o.ctx, o.cancel = context.WithCancel(ctx)
	if d.clients == nil {
		d.clients = map[string]*ordinary{}
	}
	d.clients[s.tls.key] = o
	o.transport = &http.Transport{
		MaxIdleConnsPerHost: atOnce,
		DialContext:         o.dial,
		Proxy:               o.proxy,
		TLSClientConfig: &tls.Config{
			RootCAs: s.d.view.trusted(s.tls.ca), Certificates: s.cfg.Certificates, Time: s.d.view.Now,
			MinVersion: tls.VersionTLS12, CurvePreferences: s.d.hellos()[0].Curves(),
		},
		MaxResponseHeaderBytes: registry.MaxHeader,
		DisableCompression:     true, // digests are over what is stored
	}
	return o
}

// close ends every connection. Requests still running fail.
func (o *ordinary) close() {
	o.cancel()
	o.mu.Lock()
	conns := slices.Collect(maps.Keys(o.conns))
	o.closed = true
	o.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	o.transport.CloseIdleConnections()
}

// ordinaryConn is a connection that the client has open: a transport closes only
// those that are idle.
type ordinaryConn struct {
	net.Conn
	o *ordinary
}

func (o *ordinary) keep(conn net.Conn) (net.Conn, error) {
	c := &ordinaryConn{conn, o}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	o.conns[c] = struct{}{}
	return c, nil
}

// Close makes room for others.
func (c *ordinaryConn) Close() error {
	c.o.mu.Lock()
	delete(c.o.conns, c)
	c.o.mu.Unlock()
	return c.Conn.Close()
}

// follower is a round trip that follows redirects as [http.Client] does. It tells
// met of every host that is to be asked, and sent of every request that was.
func (o *ordinary) follower(met func(hostPort string), sent func()) http.RoundTripper {
	// On a connection and not when written: TLS 1.3 lets a server refuse a client's
	// certificate before or after that.
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent() }}
	client := &http.Client{Transport: o.transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) >= endpoints.MaxRequests {
			return classify.New(classify.EndpointHTTPRedirectLoop, fmt.Sprintf("%d requests were all answered by a redirect", len(via)))
		}
		// A client takes a credential along to the same name, whatever the scheme, and
		// below it, and any other field of the node's settings everywhere. We do not.
		if !registry.SameOrigin(via[0].URL, req.URL) {
			for name := range req.Header {
				if !slices.Contains(anywhere, name) {
					delete(req.Header, name) // as it is spelled
				}
			}
		}
		met(hostPortOf(req.URL))
		return nil
	}}
	return roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		if req.URL.Scheme != "https" {
			req.Header.Del("Authorization")
		}
		met(hostPortOf(req.URL))
		resp, err := client.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
		if err == nil {
			return resp, nil
		}
		var failed *url.Error // its text holds the query
		var staged *classify.StageError
		if !errors.As(err, &failed) || errors.As(err, &staged) {
			return nil, err
		}
		host := req.URL.Host
		if u, err := url.Parse(failed.URL); err == nil {
			host = u.Host
		}
		return nil, &classify.StageError{Stage: classify.StageHeaders, Endpoint: host, Err: failed.Err}
	})
}

// anywhere are the fields that a redirect to another host may take along.
var anywhere = []string{"User-Agent", "Accept", "Accept-Encoding", "Range", "Referer"}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func hostPortOf(u *url.URL) string {
	t, err := targetOf(u, "", "")
	if err != nil {
		return u.Host
	}
	return t.hostPort()
}

// proxy is the node's, and asks none for an address that must not be connected
// to: it would do so on our behalf.
func (o *ordinary) proxy(req *http.Request) (*url.URL, error) {
	u, err := o.d.view.Proxy(req.URL)
	if u == nil || err != nil {
		return u, err
	}
	t, err := targetOf(req.URL, "", "")
	if err != nil {
		return nil, err
	}
	if addr, err := netip.ParseAddr(t.host); err == nil {
		return u, o.allowed(netip.AddrPortFrom(addr, t.port))
	}
	return u, nil
}

func (o *ordinary) allowed(ap netip.AddrPort) error {
	if err := o.d.allow(ap); err != nil {
		return &registry.DeniedError{Addr: ap, Err: err}
	}
	return nil
}

// dial looks the name up and tries its addresses one after the other.
func (o *ordinary) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.ctx, cancel)()
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	addrs, err := o.lookup(ctx, host)
	if err != nil {
		return nil, &classify.StageError{Stage: classify.StageLookup, Endpoint: host, Err: err}
	}
	deadline := time.Now().Add(o.d.limits.Connect)
	for i, addr := range addrs {
		ap := netip.AddrPortFrom(addr, uint16(port))
		if err = o.allowed(ap); err != nil {
			continue
		}
		var conn net.Conn
		if conn, err = o.connect(ctx, network, ap, deadline, len(addrs)-i); err == nil {
			return o.keep(conn)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, &classify.StageError{Stage: classify.StageConnect, Endpoint: address, Err: err}
}

// connect gives an address that is not the last its share of the time, as
// [net.Dialer] does, at least two seconds.
func (o *ordinary) connect(ctx context.Context, network string, ap netip.AddrPort, deadline time.Time, left int) (net.Conn, error) {
	if left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Until(deadline)/time.Duration(left), 2*time.Second))
		defer cancel()
	}
	return o.d.view.dialer().DialContext(ctx, network, ap.String())
}

// whyWait is how long the reason is waited for when it is known that a name leads
// nowhere.
const whyWait = 100 * time.Millisecond

var errNoAddress = errors.New("the name leads to no usable address")

// resolved is what came of the lookup of a name. One that holds is made once: many
// images need the same.
type resolved struct {
	done  chan struct{}
	addrs []netip.Addr
	err   error
}

func (o *ordinary) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	o.mu.Lock()
	r := o.names[host]
	if r == nil {
		r = &resolved{done: make(chan struct{})}
		o.names[host] = r
		go func() {
			defer close(r.done)
			r.addrs, r.err = o.resolve(host)
			if r.err != nil { // the next that asks may be told better
				o.mu.Lock()
				delete(o.names, host)
				o.mu.Unlock()
			}
		}()
	}
	o.mu.Unlock()
	select {
	case <-r.done:
		return r.addrs, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// resolve returns what the runtime gets for a name, as soon as that is decided.
func (o *ordinary) resolve(host string) ([]netip.Addr, error) {
	type answer struct {
		report *dnscheck.Report
		err    error
		last   bool
	}
	ctx, cancel := context.WithCancel(o.ctx)
	defer cancel()
	answers := make(chan answer, 2)
	check := *o.d.dns
	check.Limit = 2 * o.d.limits.DNS // the step that asks the same has decided by then
	check.OnDecided = func(r *dnscheck.Report) { answers <- answer{report: r} }
	go func() {
		r, err := check.Check(ctx, host)
		answers <- answer{r, err, true}
	}()
	var why <-chan time.Time // nil = for ever
	for {
		select {
		case a := <-answers:
			switch {
			case a.err != nil:
				return nil, a.err
			case len(a.report.Usable()) > 0:
				return a.report.Usable(), nil
			case a.last:
				for _, f := range a.report.Findings() {
					return nil, f
				}
				return nil, errNoAddress
			}
			why = time.After(whyWait)
		case <-why:
			return nil, errNoAddress
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// agent is what the client calls itself: the node's runtime as that does, since
// something on the path may let one name through and not another; where the
// caller chose a name, or no runtime is known, the name that the steps use.
func (d *diagnosis) agent() string {
	if d.userAgent != defaultAgent || !d.view.hasRuntime {
		return d.userAgent
	}
	product := "containerd"
	switch {
	case d.way == endpoints.WayCRIO:
		product = "cri-o"
	case d.way == endpoints.WayDocker:
		product = "docker"
	case d.way == "":
		return d.userAgent
	case d.view.runtime.Name != "containerd": // k3s and rke2 have a version of their own
		return product
	}
	version := d.view.runtime.Version
	if d.way != endpoints.WayContainerd {
		version = strings.TrimPrefix(version, "v")
	}
	if version == "" || strings.ContainsFunc(version, func(r rune) bool { return r <= ' ' || r > '~' || r == '(' }) {
		return product
	}
	return product + "/" + version
}
