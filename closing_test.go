package pullwalk_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/lab"
)

// fromRuntime tells the requests of the closing pull: it calls itself what the
// node's runtime does.
func fromRuntime(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("User-Agent"), "containerd")
}

func fromSteps(r *http.Request) bool { return r.Header.Get("User-Agent") == "pullwalk" }

// forbids lets a registry refuse some clients some paths.
func forbids(who func(*http.Request) bool, path string, status int) func(*http.Request) int {
	return func(r *http.Request) int {
		if who(r) && strings.Contains(r.URL.Path, path) {
			return status
		}
		return 0
	}
}

func nothing(*world) {}

// dialing lets connections of the steps, or of the closing pull, end otherwise
// than those of the other. Only the stack tells who dials.
func dialing(who string, otherwise func(context.Context) error) func(*world) {
	return func(w *world) {
		inner := w.opts.Node.Dialer
		w.opts.Node.Dialer = dialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			by := "steps"
			if strings.Contains(string(debug.Stack()), "pullwalk.(*ordinary)") {
				by = "client"
			}
			if by == who {
				return nil, otherwise(ctx)
			}
			return inner.DialContext(ctx, network, address)
		})
	}
}

type dialerFunc func(ctx context.Context, network, address string) (net.Conn, error)

func (f dialerFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

func connectionRefused(context.Context) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func connectionLost(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// wavering lets the registry fail the first request of the steps for a manifest by
// digest, and answer those of the closing pull with status.
func wavering(status int) func(*world) {
	return func(w *world) {
		var failed atomic.Bool
		w.lab.Break(lab.Answers(w.lab.Registry, func(rw http.ResponseWriter, r *http.Request) bool {
			switch {
			case !strings.Contains(r.URL.Path, "/manifests/sha256:"):
				return false
			case fromRuntime(r):
				rw.WriteHeader(status)
			case failed.Swap(true):
				return false
			default:
				rw.WriteHeader(http.StatusServiceUnavailable)
			}
			return true
		}))
	}
}

// What an ordinary client is refused, or is given against the word of the steps,
// makes the verdict inconclusive, with both sides as facts: neither ok nor failed
// would be known.
func TestStepsAndAnOrdinaryClientDisagree(t *testing.T) {
	t.Parallel()
	const basic, token = "basic 10.20.0.4:443\nruntime containerd", "runtime containerd"
	for name, tt := range map[string]struct {
		world    string
		arrange  func(*world)
		steps    string // part of what the steps said
		ordinary string // part of what the client said
		limit    int64  // ms
	}{
		"the runtime's name is filtered":                           {basic + "\nfilter client 403 /", nothing, "were served", "identity.", 0},
		"the runtime's name is filtered at blobs":                  {basic + "\nfilter client 403 /blobs/", nothing, "were served", "403", 0},
		"the runtime's name is filtered at manifests":              {basic + "\nfilter client 500 /manifests/sha256:", nothing, "were served", "registry.server-error", 0},
		"only the runtime's name is let through":                   {basic + "\nfilter steps 500 /", nothing, "registry.server-error", "was answered with 401", 0},
		"the runtime's name is filtered, and a failure was mended": {token, wavering(403), "were served", "403", 0},
		"its manifests only":                                       {basic + "\nfilter steps 403 /manifests/sha256:", nothing, "failed: ", "manifest of sha256:", 0},
		"its blobs only":                                           {basic + "\nfilter steps 404 /blobs/", nothing, "failed: image.", "config of sha256:", 0},
		"the client is not answered": {basic, func(w *world) {
			w.basic.holds = func(r *http.Request) bool { return fromRuntime(r) && strings.Contains(r.URL.Path, "/blobs/") }
		}, "were served", "no answer to config of sha256:", 5000},
		"the client wants a token": {basic, func(w *world) {
			w.basic.open = func(r *http.Request) bool { return !fromRuntime(r) }
		}, "were served without a token", "wants one", 0},
		"the client is connected no more":                        {token, dialing("client", connectionRefused), "were served", "endpoint.connection-refused", 0},
		"the client's connection is lost":                        {token, dialing("client", connectionLost), "were served", "no answer to resolve of v1", 5000},
		"the steps are connected no more":                        {token, dialing("steps", connectionRefused), "endpoint.connection-refused", "was answered with 401", 0},
		"the steps are connected no more, the client is refused": {basic + "\nfilter client 403 /", dialing("steps", connectionRefused), "endpoint.connection-refused", "was answered with 403", 0},
		"the connections of the steps are lost":                  {token, dialing("steps", connectionLost), "route.connect-timeout", "was answered with 401", 5000},
		"the client is connected no more, connect":               {token + "\noption connect", dialing("client", connectionRefused), "were served", "endpoint.connection-refused", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, tt.world, func(t *testing.T, w *world) {
				tt.arrange(w)
				got := w.diagnose(t, t.Context(), scenario{})
				got.checkShape(t)
				got.checkLeaks(t)
				got.checkEncoding(t)
				require.Equal(t, pullwalk.StatusInconclusive, got.result.Verdict, got.result.String())
				require.Contains(t, got.result.Inconclusive, "disagree")
				i := slices.IndexFunc(got.result.Findings, func(f classify.Finding) bool { return f.Cause == classify.UnknownStepsDisagree })
				require.GreaterOrEqual(t, i, 0, got.result.String())
				f := got.result.Findings[i]
				require.Equal(t, "registry.corp.test:443", f.Endpoint)
				require.Contains(t, f.Fact(classify.FactSteps), tt.steps)
				require.Contains(t, f.Fact(classify.FactOrdinary), tt.ordinary)
				require.Equal(t, tt.limit, got.result.ElapsedMS)
			})
		})
	}
}

// What is known to tell the two apart is no contradiction.
func TestAnOrdinaryClientThatFailsForAKnownReason(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		world   string
		arrange func(*world)
		verdict pullwalk.Status
		reason  string
	}{
		"our own requests exhaust the rate":    {"basic 10.20.0.4:443\nruntime containerd\nfilter client 429 /manifests/sha256:", nothing, pullwalk.StatusOK, "limits the rate"},
		"the steps come too late for the rate": {"basic 10.20.0.4:443\nruntime containerd\nfilter steps 429 /manifests/sha256:", nothing, pullwalk.StatusFailed, "limits the rate"},
		"what comes and goes comes again":      {"runtime containerd", wavering(503), pullwalk.StatusDegraded, "comes and goes"},
		"connects waver":                       {"option rounds 4\nmoods 10.20.0.4:443 ok ok refused ok", dialing("client", connectionRefused), pullwalk.StatusDegraded, "what the steps warn of"},
		"one of two addresses is dead":         {"zone 10.20.0.2 registry.corp.test 10.20.0.4 10.20.0.19\nnet refuse 10.20.0.19:443", dialing("client", connectionRefused), pullwalk.StatusDegraded, "what the steps warn of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, tt.world, func(t *testing.T, w *world) {
				tt.arrange(w)
				got := w.diagnose(t, t.Context(), scenario{})
				got.checkShape(t)
				require.Equal(t, tt.verdict, got.result.Verdict, got.result.String())
				pull := steps(got.result, pullwalk.StepPull)
				require.Len(t, pull, 1)
				require.Equal(t, pullwalk.StatusSkipped, pull[0].Status)
				require.Contains(t, pull[0].Reason, tt.reason)
			})
		})
	}
}

// Where the first of several addresses takes its time, the client goes on to the
// next, as a runtime does, and costs no more time than the steps.
func TestTheClosingPullTakesTheNextAddress(t *testing.T) {
	t.Parallel()
	inWorld(t, "zone 10.20.0.2 registry.corp.test 10.20.0.19 10.20.0.4\nnet silent 10.20.0.19:443", func(t *testing.T, w *world) {
		got := w.diagnose(t, t.Context(), scenario{})
		require.Equal(t, pullwalk.StatusDegraded, got.result.Verdict, got.result.String())
		require.Equal(t, pullwalk.StatusOK, steps(got.result, pullwalk.StepPull)[0].Status)
		require.EqualValues(t, 5000, got.result.ElapsedMS)
	})
}

// Over a path of 50 ms the closing pull is through when the steps are, or nearly.
func TestTheClosingPullCostsLittleTime(t *testing.T) {
	t.Parallel()
	for _, layers := range []int{1, 3, 12} {
		inWorld(t, fmt.Sprintf("option layers %d", layers), func(t *testing.T, w *world) {
			for _, at := range []netip.AddrPort{registryAddr, tokenAddr, blobsAddr} {
				w.net.Delay(at, 25*time.Millisecond)
			}
			got := w.diagnose(t, t.Context(), scenario{})
			require.Equal(t, pullwalk.StatusOK, got.result.Verdict, got.result.String())
			pull := steps(got.result, pullwalk.StepPull)[0]
			require.LessOrEqual(t, pull.ElapsedMS, int64(50), "one round trip")
		})
	}
}
