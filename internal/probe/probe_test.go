package probe

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/node"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// A probe that one image has left goes on for the others; one that all have left does
// not, and nothing that a later image may stand on.
func TestLeavingAProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		by := New(Config{View: &node.View{}, Stalls: &Stalls{}})
		ended := 0
		run := func(p *Probe, ctx context.Context) {
			defer close(p.done)
			<-ctx.Done()
			ended++
			p.record(pull.Step{ID: pull.StepDNS, Status: pull.StatusInconclusive, Reason: pull.EndOf(ctx)}, 0)
		}
		type stand struct {
			*Probe
			host *pull.Host
		}
		begin := func() stand {
			r := &pull.Run{Observe: by.Observe}
			h := r.AddBarred(pull.Target{Scheme: "https", Host: "blobs.corp.test", Port: 443, Role: registry.RoleBlob, Expected: true, Known: true}, "")
			return stand{by.join(t.Context(), h, Route{}, &TLS{}, nil, run), h}
		}
		first, second := begin(), begin()
		require.Same(t, first.Probe, second.Probe)
		require.True(t, first.Part(first.host))
		synctest.Wait()
		require.Zero(t, ended, "the second is still on it")

		third := begin()
		require.Same(t, second.Probe, third.Probe)
		require.True(t, second.Part(second.host))
		require.True(t, third.Part(third.host))
		synctest.Wait()
		require.Equal(t, 1, ended, "nobody is left")
		require.Empty(t, second.host.Log().Steps, "nothing comes after")
		later := begin()
		require.NotSame(t, second.Probe, later.Probe)
		later.giveUp()
		<-later.Done()
		require.False(t, later.Part(later.host), "it has come to its end")
		require.Equal(t, pull.StepDNS, later.host.Log().Steps[0].ID)
	})
}

// A question that several images have in common goes on while one of them waits,
// and holds nobody up who has left.
func TestACommonQuestion(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		leave    [2]time.Duration // when each stops waiting
		answered [2]bool
		ends     time.Duration
	}{
		"both stay":      {[2]time.Duration{time.Hour, time.Hour}, [2]bool{true, true}, 10 * time.Second},
		"one leaves":     {[2]time.Duration{2 * time.Second, time.Hour}, [2]bool{false, true}, 10 * time.Second},
		"the other does": {[2]time.Duration{time.Hour, 2 * time.Second}, [2]bool{true, false}, 10 * time.Second},
		"both leave":     {[2]time.Duration{2 * time.Second, 5 * time.Second}, [2]bool{false, false}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start, asked, ended := time.Now(), 0, time.Duration(0)
				ask := func(ctx context.Context) pull.Step {
					asked++
					select {
					case <-ctx.Done():
					case <-time.After(10 * time.Second):
					}
					ended = time.Since(start)
					return pull.Step{Subject: "answer"}
				}
				l := &Probe{}
				done := make(chan struct{})
				for i, after := range tt.leave {
					go func() {
						defer func() { done <- struct{}{} }()
						own, cancel := context.WithTimeout(t.Context(), after)
						defer cancel()
						got, ok := l.Once(t.Context(), own, "ping", ask)
						assert.Equal(t, tt.answered[i], ok)
						if ok {
							assert.Equal(t, "answer", got.Subject)
						} else {
							assert.Equal(t, after, time.Since(start), "nobody is held up")
						}
					}()
				}
				<-done
				<-done
				assert.Equal(t, 1, asked)
				assert.Equal(t, tt.ends, ended)
				if late, ok := l.Once(t.Context(), t.Context(), "ping", ask); tt.answered[0] || tt.answered[1] {
					assert.True(t, ok)
					assert.Equal(t, "answer", late.Subject)
					assert.Equal(t, 1, asked)
				}
			})
		})
	}
}

// A registry must not lead to an address that the node's own settings may name.
func TestDeniedAddresses(t *testing.T) {
	t.Parallel()
	by := New(Config{View: &node.View{}, AllowAddr: registry.DenyPlatform})
	for role, denied := range map[registry.Role]bool{registry.RoleCredential: false, registry.RoleToken: true} {
		own := pull.Target{Scheme: "http", Host: "169.254.169.254", Port: 80, Role: role}
		a := &attempt{probe: by.newProbe(own, Route{}, &TLS{}, nil)}
		_, got := a.denied(pull.Step{ID: pull.StepRoute}, netip.MustParseAddr("169.254.169.254"))
		require.Equal(t, denied, got, role)
	}
}
