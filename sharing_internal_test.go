package pullwalk

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// A ladder that one image has left is climbed on for the others; one that all have
// left is not, and nothing that a later image may stand on.
func TestLeavingALadder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diagnosis{view: &view{}, pulse: &pulse{}, notify: newNotifier(&Options{}), ladders: map[ladderKey]*ladder{}}
		ended := 0
		climb := func(l *ladder, ctx context.Context) {
			defer close(l.done)
			<-ctx.Done()
			ended++
			l.record(pull.Step{ID: StepDNS, Status: StatusInconclusive, Reason: reasonOf(ctx)}, 0)
		}
		stand := func() *endpoint {
			p := d.newPull(registry.Reference{})
			p.company = &company{}
			s := p.newSource(noderuntime.Source{})
			e := s.newEndpoint(target{scheme: "https", host: "blobs.corp.test", port: 443, role: endpoints.RoleBlob, hint: true, known: true})
			s.climb(t.Context(), e, approach{}, climb)
			return e
		}
		taken := func(e *endpoint) (ids []StepID, statuses []Status) {
			for _, st := range judge.EndpointSoFar(e.soFar()) {
				ids, statuses = append(ids, st.ID), append(statuses, st.Status)
			}
			return ids, statuses
		}
		begin := time.Now()
		first, second := stand(), stand()
		require.Same(t, first.ladder, second.ladder)
		first.record(pull.Step{ID: StepRoute, Status: StatusOK}, 0)
		first.leave()
		require.Equal(t, hintGrace, time.Since(begin))
		require.True(t, first.left)
		synctest.Wait()
		require.Zero(t, ended, "the second is still on it")
		ids, statuses := taken(first)
		require.Equal(t, []StepID{StepDNS, StepRoute, StepConnect, StepTLS}, ids, "each rung is accounted for")
		require.Equal(t, []Status{StatusInconclusive, StatusOK, StatusBlocked, StatusBlocked}, statuses)
		require.Equal(t, "dns@blobs.corp.test:443", judge.EndpointSoFar(first.soFar())[3].BlockedBy)

		third := stand()
		require.Same(t, second.ladder, third.ladder)
		second.leave()
		third.leave()
		synctest.Wait()
		require.Equal(t, 1, ended, "nobody is left")
		require.Len(t, second.soFar().Steps, 4, "nothing comes after")
		later := stand()
		require.NotSame(t, second.ladder, later.ladder)
		later.giveUp()
		later.leave()
		require.False(t, later.left, "it has come to its end")
		ids, _ = taken(later)
		require.Equal(t, []StepID{StepDNS}, ids)
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
				l := &ladder{}
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
