package pullwalk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/reach"
)

// promised is how soon Diagnose returns after its context ended.
const promised = 250 * time.Millisecond

// Canceled after the n-th step, for every n: the result is valid, nothing hangs
// and nothing is left.
func TestCancelAfterEveryStep(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"healthy-complete", "healthy-connect", "mirror-refused", "proxy-works", "identity-second-credential", "identity-basic",
		"connect-silent-everywhere", "header-stall-blobs", "body-stall-blobs", "tls-stall-token", "dns-first-nameserver-dead", "loopback-plain", "settings-ca-missing", "redirect-loop-blobs",
	} {
		s := scenarioNamed(t, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			total := 0
			s.inBubble(t, func(t *testing.T, w *world) { total = len(w.diagnose(t, t.Context(), s).steps) })
			require.NotZero(t, total)
			for n := 1; n <= total; n++ {
				s.inBubble(t, func(t *testing.T, w *world) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					steps, canceled := 0, time.Time{}
					opts := w.opts
					opts.OnStep = func(pullwalk.Step) {
						if steps++; steps == n {
							canceled = time.Now()
							cancel()
						}
					}
					res, err := pullwalk.Diagnose(ctx, w.image, &opts)
					require.NoError(t, err)
					assert.LessOrEqual(t, time.Since(canceled), promised, "after step %d of %d", n, total)
					requireSafe(t, w, res)
				})
			}
		})
	}
}

// Ended at several instants of every scenario, by the caller and by the
// caller's deadline.
func TestCancelAtInstants(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, after := range []time.Duration{0, time.Millisecond, 700 * time.Millisecond, 4 * time.Second, 5 * time.Second, 12 * time.Second} {
				for _, how := range []string{"cancel", "deadline"} {
					s.inBubble(t, func(t *testing.T, w *world) {
						ctx, cancel := context.WithCancel(t.Context())
						if how == "deadline" {
							ctx, cancel = context.WithTimeout(t.Context(), after)
						} else if after == 0 {
							cancel()
						} else {
							defer time.AfterFunc(after, cancel).Stop()
						}
						defer cancel()
						start := time.Now()
						res, err := pullwalk.Diagnose(ctx, w.image, &w.opts)
						require.NoError(t, err)
						assert.LessOrEqual(t, time.Since(start), after+promised, "%s after %v", how, after)
						if res.Verdict == pullwalk.StatusInconclusive && ctx.Err() != nil {
							want := map[string]string{"cancel": "canceled by the caller", "deadline": "the caller's deadline passed"}[how]
							assert.Equal(t, want, res.Inconclusive)
						}
						requireSafe(t, w, res)
					})
				}
			}
		})
	}
}

// requireSafe wants a valid result that blames nobody for the caller's end and
// holds no secret.
func requireSafe(t *testing.T, w *world, res *pullwalk.Result) {
	t.Helper()
	checkResult(t, res)
	text, err := json.Marshal(res)
	require.NoError(t, err)
	for _, secret := range w.secrets() {
		assert.NotContains(t, string(text)+res.String(), secret)
	}
	for _, f := range res.Findings {
		assert.NotContains(t, []classify.Cause{classify.UnknownCanceledNoCause, classify.UnknownDeadlineNoCause}, f.Cause, f.Summary)
	}
	assert.Empty(t, w.lab.Violations())
}

// deaf code of the caller does not look at its context. It is let go at the end,
// so that the bubble can end.
type deaf struct{ release chan struct{} }

func (d deaf) wait() { <-d.release }

func (d deaf) DialContext(context.Context, string, string) (net.Conn, error) {
	d.wait()
	return nil, net.ErrClosed
}

func (d deaf) Exchange(context.Context, netip.AddrPort, string, dnscheck.Question) (dnscheck.Answer, error) {
	d.wait()
	return dnscheck.Answer{}, net.ErrClosed
}

func (d deaf) RouteTo(context.Context, netip.Addr) (reach.Route, error) {
	d.wait()
	return reach.Route{}, net.ErrClosed
}

func (d deaf) Resolve(authn.Resource) (authn.Authenticator, error) {
	d.wait()
	return authn.Anonymous, nil
}

// Code of the caller that ignores its context holds nobody up: Diagnose
// returns, and the step says what happened.
func TestCallerCodeThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		put  func(*pullwalk.Options, deaf)
		step pullwalk.StepID
		says string
	}{
		"dialer":    {func(o *pullwalk.Options, d deaf) { o.Node.Dialer = d }, pullwalk.StepConnect, "did not return"},
		"router":    {func(o *pullwalk.Options, d deaf) { o.Node.Router = d }, pullwalk.StepRoute, "did not return"},
		"exchanger": {func(o *pullwalk.Options, d deaf) { o.Node.DNS = d }, pullwalk.StepDNS, ""},
		"keychain":  {func(o *pullwalk.Options, d deaf) { o.Keychain = d }, pullwalk.StepToken, "keychain"},
		"address check": {func(o *pullwalk.Options, d deaf) {
			o.AllowAddr = func(netip.AddrPort) error { d.wait(); return nil }
		}, pullwalk.StepRoute, "did not return"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, after := range []time.Duration{700 * time.Millisecond, time.Minute} {
				inWorld(t, "", func(t *testing.T, w *world) {
					d := deaf{make(chan struct{})}
					defer close(d.release)
					tt.put(&w.opts, d)
					w.opts.Budget = time.Hour
					ctx, cancel := context.WithTimeout(t.Context(), after)
					defer cancel()
					start := time.Now()
					res, err := pullwalk.Diagnose(ctx, w.image, &w.opts)
					require.NoError(t, err)
					require.LessOrEqual(t, time.Since(start), after+promised)
					requireSafe(t, w, res)
					require.Contains(t, []pullwalk.Status{pullwalk.StatusInconclusive, pullwalk.StatusFailed}, res.Verdict)
					st := find(res, tt.step)
					require.NotNil(t, st)
					require.Contains(t, []pullwalk.Status{pullwalk.StatusInconclusive, pullwalk.StatusFailed}, st.Status)
					if st.Status == pullwalk.StatusInconclusive {
						require.Contains(t, st.Reason, tt.says)
					}
				})
			}
		})
	}
}

// find returns the first step with that ID which is not passed.
func find(r *pullwalk.Result, id pullwalk.StepID) *pullwalk.Step {
	for _, s := range r.Sources {
		for _, e := range s.Endpoints {
			for i, st := range e.Steps {
				if st.ID == id && st.Status != pullwalk.StatusOK && st.Status != pullwalk.StatusBlocked {
					return &e.Steps[i]
				}
			}
		}
	}
	return nil
}

// A callback that does not return delays no step. Diagnose waits for it until
// its own end, and calls none of the others afterwards.
func TestCallbackThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	inWorld(t, "option budget 20s", func(t *testing.T, w *world) {
		release := make(chan struct{})
		var calls atomic.Int32
		w.opts.OnStep = func(pullwalk.Step) { calls.Add(1); <-release }
		start := time.Now()
		res, err := pullwalk.Diagnose(t.Context(), w.image, &w.opts)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), 20*time.Second+promised)
		require.Equal(t, pullwalk.StatusOK, res.Verdict)
		require.Zero(t, res.ElapsedMS, "the diagnosis itself was not held up")
		require.EqualValues(t, 1, calls.Load())
		close(release)
		time.Sleep(time.Second)
		require.EqualValues(t, 1, calls.Load(), "nothing is told after Diagnose returned")
	})
}

// A panic of a callback reaches who called Diagnose, and not the process alone.
func TestCallbackThatPanics(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		calls := 0
		w.opts.OnStep = func(pullwalk.Step) { calls++; panic("a bug of the caller") }
		require.PanicsWithValue(t, "a bug of the caller", func() { _, _ = pullwalk.Diagnose(t.Context(), w.image, &w.opts) })
		require.Equal(t, 1, calls)
	})
}

// Steps and progress come one at a time, also when many lanes end at once.
func TestCallbacksAreNotConcurrent(t *testing.T) {
	t.Parallel()
	statements := []string{"option complete"}
	for i := range 12 {
		statements = append(statements, fmt.Sprintf("option also also%d.corp.test:443\nzone 10.20.0.2 also%d.corp.test 10.20.1.%d\nnet silent 10.20.1.%d:443", i, i, i+1, i+1))
	}
	inWorld(t, strings.Join(statements, "\n"), func(t *testing.T, w *world) {
		inside := false
		enter := func() {
			require.False(t, inside)
			inside = true
			time.Sleep(time.Millisecond)
			inside = false
		}
		w.opts.OnStep = func(pullwalk.Step) { enter() }
		w.opts.OnProgress = func(pullwalk.Progress) { enter() }
		res, err := pullwalk.Diagnose(t.Context(), w.image, &w.opts)
		require.NoError(t, err)
		require.Equal(t, pullwalk.StatusDegraded, res.Verdict)
	})
}
