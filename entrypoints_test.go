package pullwalk_test

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// dial connects to a host of the world by name, as a program on the node would that
// knows nothing but the first nameserver.
func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err != nil {
		answer, err := w.opts.Node.DNS.Exchange(ctx, nameserverAddr, "udp", dnscheck.Question{Name: host, Type: "A"})
		if err != nil || len(answer.Addresses) == 0 {
			return nil, &net.DNSError{Err: "no such host", Name: host, Server: nameserverAddr.String(), IsNotFound: answer.RCode == "NXDOMAIN"}
		}
		address = net.JoinHostPort(answer.Addresses[0].String(), port)
	}
	return w.opts.Node.Dialer.DialContext(ctx, network, address)
}

// blame is what an entry point says is wrong, and with whom.
type blame struct {
	cause classify.Cause
	owner classify.Owner
	host  string // without the port of its scheme
}

func blameOf(f classify.Finding) blame {
	return blame{f.Cause, f.Owner, strings.TrimSuffix(strings.TrimSuffix(f.Endpoint, ":443"), ":80")}
}

// decided is the step of a result that failed with its primary finding.
func decided(res *pullwalk.Result) (pullwalk.Step, bool) {
	for _, s := range res.Sources {
		for _, e := range s.Endpoints {
			for _, st := range e.Steps {
				if st.Status == pullwalk.StatusFailed && slices.ContainsFunc(st.Findings, func(f classify.Finding) bool {
					return f.Cause == res.Primary.Cause && f.Endpoint == res.Primary.Endpoint && f.Severity == classify.SeverityFail
				}) {
					return st, true
				}
			}
		}
	}
	return pullwalk.Step{}, false
}

// requests are the steps at which every entry point asks, and those of them that come
// before the manifest.
var (
	requests = []pullwalk.StepID{pullwalk.StepPing, pullwalk.StepChallenge, pullwalk.StepToken, pullwalk.StepResolve, pullwalk.StepManifest, pullwalk.StepConfig, pullwalk.StepLayer}
	access   = requests[1:4]
)

// furtherThan says which scenarios end where an entry point does not go.
var furtherThan = map[string]string{
	"own-login-wrong": "the runtime's own files have a login, which only Diagnose reads",
}

// The same fault has the same cause, owner and host, whoever looks: wherever an entry
// point goes so far. CheckAccess asks as containerd does, and the image's own host alone.
func TestEntryPointsAgree(t *testing.T) {
	t.Parallel()
	var compared atomic.Int64
	t.Cleanup(func() { assert.Greater(t, compared.Load(), int64(100), "comparisons") })
	for _, s := range scenarios(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.inBubble(t, func(t *testing.T, w *world) {
				w.opts.UserAgent = "containerd/2.1.4"
				res, err := pullwalk.Diagnose(t.Context(), w.image, &w.opts)
				require.NoError(t, err)
				if res.Primary == nil || len(w.proxies) > 0 || furtherThan[s.name] != "" {
					return
				}
				st, ok := decided(res)
				if !ok || !slices.Contains(requests, st.ID) {
					return
				}
				want := blameOf(*res.Primary)
				compared.Add(1)
				assert.Equal(t, want, w.byEndpoints(t), "endpoints.Checker, step %s", st.ID)
				if slices.Contains(access, st.ID) && len(res.Sources) == 1 && w.runtimeName == "" && (st.Request == nil || strings.HasPrefix(st.Request.URL, "https:")) {
					compared.Add(1)
					assert.Equal(t, want, w.byAccess(t), "tlsauth.CheckAccess, step %s", st.ID)
				}
			})
		})
	}
}

func firstFailing(findings []classify.Finding) (out blame) {
	if i := slices.IndexFunc(findings, func(f classify.Finding) bool { return f.Severity == classify.SeverityFail }); i >= 0 {
		out = blameOf(findings[i])
	}
	return out
}

func (w *world) byEndpoints(t *testing.T) blame {
	c := &endpoints.Checker{
		DialContext: w.dial, Roots: w.lab.TrustedPool(), Keychain: w.opts.Keychain, Platform: w.opts.Platform, Complete: w.opts.Pull == pullwalk.Complete,
		Now: w.clock, FS: w.files, Runtime: w.runtimeName, UserAgent: w.opts.UserAgent,
	}
	m, err := c.Check(t.Context(), w.image)
	require.NoError(t, err)
	return firstFailing(m.Findings())
}

func (w *world) byAccess(t *testing.T) blame {
	c := &tlsauth.Checker{DialContext: w.dial, Roots: w.lab.TrustedPool(), Keychain: w.opts.Keychain, Now: w.clock, UserAgent: w.opts.UserAgent}
	r, err := c.CheckAccess(t.Context(), w.image)
	require.NoError(t, err)
	return firstFailing(r.Findings())
}
