package pull_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// dialing opens hosts of a world by dialing them.
type dialing struct {
	transport *http.Transport
	mu        sync.Mutex
	met       []string
}

func (d *dialing) Open(context.Context, *pull.Host) pull.Way { return pull.Opened(d.transport) }

func (d *dialing) Met(_ context.Context, h *pull.Host, t pull.Target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.met = append(d.met, fmt.Sprintf("%s for %s", h.Target.Host, t.Role))
}

func transportOf(t *testing.T, w *lab.World) *http.Transport {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.TrustedPool()}, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		answer, err := w.Exchanger().Exchange(ctx, netip.MustParseAddrPort("127.0.0.1:53"), "udp", dnscheck.Question{Name: host, Type: "A"})
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(answer.Addresses[0].String(), port))
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// walk pulls the image of a world.
func walk(t *testing.T, w *lab.World, change func(*pull.Run)) (*pull.Run, *dialing) {
	t.Helper()
	ref, err := registry.ParseReference(w.Image())
	require.NoError(t, err)
	platform, err := registry.ParsePlatform("linux/amd64")
	require.NoError(t, err)
	open := &dialing{transport: transportOf(t, w)}
	base := &url.URL{Scheme: ref.Scheme, Host: ref.Host, Path: "/v2"}
	run := &pull.Run{
		Requests: registry.Walk{Reference: ref, Base: base}, Opener: open, Platform: platform, Depth: pull.Touch, Parallel: 3,
		Credentials: func(context.Context, *pull.Host) ([]pull.Credential, *pull.Step) {
			secret := registry.Credential{Username: lab.Username, Password: lab.Password}
			info := registry.CredentialInfo{Source: "a test"}
			return []pull.Credential{{Secret: secret, Info: info, Accepted: info}}, nil
		},
	}
	change(run)
	target, err := pull.TargetOf(base, registry.RoleManifest, "the image reference")
	require.NoError(t, err)
	run.Walk(t.Context(), run.Base(t.Context(), target))
	run.Wait()
	return run, open
}

func world(t *testing.T, faults ...lab.Fault) *lab.World {
	t.Helper()
	w, err := lab.New(lab.Options{})
	require.NoError(t, err)
	require.NoError(t, w.Start())
	t.Cleanup(w.Close)
	w.Break(faults...)
	return w
}

func stepsOf(s pull.Source) (out []string) {
	for _, e := range s.Endpoints {
		for _, st := range e.Steps {
			out = append(out, fmt.Sprintf("%s %s at %s", st.ID, st.Status, e.Host))
		}
	}
	return out
}

// The order of a pull, with a way to each host that only dials.
func TestTheOrderOfAPull(t *testing.T) {
	t.Parallel()
	for _, depth := range []pull.Depth{pull.Touch, pull.Complete} {
		w := world(t)
		run, open := walk(t, w, func(r *pull.Run) { r.Depth = depth })
		require.True(t, run.Finished)
		require.Equal(t, 1, run.Accepted)
		require.Equal(t, w.Digest().String(), run.Digest)
		require.Equal(t, "a test", run.Info.Source)
		require.Equal(t, 4, run.ManifestRequests())
		require.True(t, depth != pull.Complete || run.Blobs[1].Complete)
		require.Contains(t, open.met, lab.TokenName+" for token")
		require.Contains(t, open.met, lab.BlobsName+" for blob")
		for _, e := range run.Log().Endpoints {
			for _, st := range e.Steps {
				require.Equal(t, pull.StatusOK, st.Status, "%s at %s: %v", st.ID, e.Host, st.Findings)
			}
		}
		steps := stepsOf(run.Log())
		require.Subset(t, steps, []string{
			"challenge ok at " + lab.RegistryName, "resolve ok at " + lab.RegistryName, "manifest ok at " + lab.RegistryName,
			"token ok at " + lab.TokenName, "config ok at " + lab.BlobsName, "layer ok at " + lab.BlobsName,
		})
	}
}

// Connect stops before any identity is used.
func TestConnectUsesNoIdentity(t *testing.T) {
	t.Parallel()
	w := world(t)
	run, open := walk(t, w, func(r *pull.Run) {
		r.Depth = pull.Connect
		r.Credentials = func(context.Context, *pull.Host) ([]pull.Credential, *pull.Step) { panic("nobody asks") }
	})
	require.True(t, run.Finished)
	require.Zero(t, run.Info)
	require.Contains(t, open.met, lab.TokenName+" for token")
	require.Zero(t, w.Token.Count("", "/", 0))
}

// A refused credential ends the pull, and says why.
func TestARefusedCredential(t *testing.T) {
	t.Parallel()
	run, _ := walk(t, world(t), func(r *pull.Run) {
		r.Credentials = func(context.Context, *pull.Host) ([]pull.Credential, *pull.Step) {
			return []pull.Credential{{Secret: registry.Credential{Username: "reader", Password: "wrong"}}}, nil
		}
		r.FirstFailure = func(s pull.Source) string { return "token@" + s.Endpoints[1].HostPort() }
	})
	require.False(t, run.Finished)
	require.Zero(t, run.Accepted)
	log := run.Log()
	token := log.Endpoints[1].Steps[0]
	require.Equal(t, pull.StatusFailed, token.Status)
	require.Equal(t, classify.IdentityBadCredentials, token.Findings[0].Cause)
	require.Equal(t, log.Endpoints[1].HostPort(), token.Findings[0].Endpoint)
	steps := log.Endpoints[0].Steps
	last := slices.IndexFunc(steps, func(s pull.Step) bool { return s.ID == pull.StepLayer })
	require.Equal(t, "token@"+log.Endpoints[1].HostPort(), steps[last].BlockedBy)
}

// More hosts than are followed are counted, and not asked.
func TestMoreHostsThanAreFollowed(t *testing.T) {
	t.Parallel()
	run, _ := walk(t, world(t), func(r *pull.Run) { r.MaxHosts = 1 })
	require.Equal(t, 1, run.Log().Overflow)
	require.Len(t, run.Hosts(), 1)

	full := &pull.Run{Opener: &dialing{}, MaxHosts: 32}
	target := func(i int) pull.Target {
		return pull.Target{Scheme: "https", Host: fmt.Sprintf("blobs%d.corp.test", i), Port: 443, Role: registry.RoleBlob}
	}
	for i := range full.MaxHosts {
		require.NotNil(t, full.Host(t.Context(), target(i)))
	}
	require.Zero(t, full.Log().Overflow)
	require.NotNil(t, full.Host(t.Context(), target(7)), "one that is known costs nothing")
	require.Nil(t, full.Host(t.Context(), target(32)))
	require.Len(t, full.Hosts(), 32)
	require.Equal(t, 32, full.Log().Overflow)
}
