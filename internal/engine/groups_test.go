package engine

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/node"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// testCall is a call of which nothing is known.
func testCall() *call {
	c := newCall([]registry.Reference{{}}, Options{})
	c.view, c.profile, c.notify = &node.View{}, noderuntime.Of("", ""), newNotifier(&Options{})
	c.images[0].group = &group{}
	return c
}

// A probe that one image has left goes on for the others; one that all have left does
// not, and nothing that a later image may stand on.
func TestLeavingAProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testCall()
		ended := 0
		run := func(p *probe, ctx context.Context) {
			defer close(p.done)
			<-ctx.Done()
			ended++
			p.record(pull.Step{ID: pull.StepDNS, Status: pull.StatusInconclusive, Reason: pull.EndOf(ctx)}, 0)
		}
		stand := func() *way {
			img := c.newImage(registry.Reference{})
			img.group = &group{}
			s := img.newSource(noderuntime.Source{})
			w := &way{source: s, host: s.run.AddBarred(pull.Target{Scheme: "https", Host: "blobs.corp.test", Port: 443, Role: registry.RoleBlob, Expected: true, Known: true}, "")}
			s.join(t.Context(), w, route{}, run)
			return w
		}
		taken := func(w *way) (ids []pull.StepID, statuses []pull.Status) {
			for _, st := range judge.EndpointSoFar(w.host.Log()) {
				ids, statuses = append(ids, st.ID), append(statuses, st.Status)
			}
			return ids, statuses
		}
		begin := time.Now()
		first, second := stand(), stand()
		require.Same(t, first.probe, second.probe)
		first.host.Record(pull.Step{ID: pull.StepRoute, Status: pull.StatusOK}, 0)
		first.leave()
		require.Equal(t, expectedGrace, time.Since(begin))
		require.True(t, first.left)
		synctest.Wait()
		require.Zero(t, ended, "the second is still on it")
		ids, statuses := taken(first)
		require.Equal(t, []pull.StepID{pull.StepDNS, pull.StepRoute, pull.StepConnect, pull.StepTLS}, ids, "each step is accounted for")
		require.Equal(t, []pull.Status{pull.StatusInconclusive, pull.StatusOK, pull.StatusBlocked, pull.StatusBlocked}, statuses)
		require.Equal(t, "dns@blobs.corp.test:443", judge.EndpointSoFar(first.host.Log())[3].BlockedBy)

		third := stand()
		require.Same(t, second.probe, third.probe)
		second.leave()
		third.leave()
		synctest.Wait()
		require.Equal(t, 1, ended, "nobody is left")
		require.Len(t, second.host.Log().Steps, 4, "nothing comes after")
		later := stand()
		require.NotSame(t, second.probe, later.probe)
		later.probe.giveUp()
		later.leave()
		require.False(t, later.left, "it has come to its end")
		ids, _ = taken(later)
		require.Equal(t, []pull.StepID{pull.StepDNS}, ids)
	})
}

// A registry may name the very address at which the node gets its credentials: its realm
// must not ride on the probe that the node's own settings were given.
func TestARegistryDoesNotLeadToWhereCredentialsComeFrom(t *testing.T) {
	t.Parallel()
	c := testCall()
	c.opts.AllowAddr = registry.DenyPlatform
	s := c.images[0].newSource(noderuntime.Source{})
	metadata := pull.Target{Scheme: "http", Host: "169.254.169.254", Port: 80, Role: registry.RoleCredential}
	s.run.AddBarred(metadata, "")
	require.NotNil(t, s.run.Find(metadata))
	realm := metadata
	realm.Role = registry.RoleToken
	require.Nil(t, s.run.Find(realm))

	for role, denied := range map[registry.Role]bool{registry.RoleCredential: false, registry.RoleToken: true} {
		own := metadata
		own.Role = role
		a := &attempt{probe: s.newProbe(own, route{})}
		_, got := a.denied(pull.Step{ID: pull.StepRoute}, netip.MustParseAddr("169.254.169.254"))
		require.Equal(t, denied, got, role)
	}
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
				l := &probe{}
				done := make(chan struct{})
				for i, after := range tt.leave {
					go func() {
						defer func() { done <- struct{}{} }()
						own, cancel := context.WithTimeout(t.Context(), after)
						defer cancel()
						got, ok := l.once(t.Context(), own, common{what: "ping"}, ask)
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
				if late, ok := l.once(t.Context(), t.Context(), common{what: "ping"}, ask); tt.answered[0] || tt.answered[1] {
					assert.True(t, ok)
					assert.Equal(t, "answer", late.Subject)
					assert.Equal(t, 1, asked)
				}
			})
		})
	}
}
