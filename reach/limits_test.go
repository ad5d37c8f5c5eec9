package reach_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
)

func TestSilenceIsDecidedAtTheLimit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ set, want time.Duration }{{0, 5 * time.Second}, {-1, 5 * time.Second}, {750 * time.Millisecond, 750 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			c := &reach.Checker{Router: routeOf(reach.RouteUnicast), Dialer: silent(), Limit: tc.set}
			r, err := c.Check(t.Context(), target)
			require.NoError(t, err)
			assert.Equal(t, tc.want, time.Since(start))
			assert.True(t, r.Connect.TimedOut)
			assert.Equal(t, tc.want.Milliseconds(), r.Connect.ElapsedMS)
			assert.Empty(t, r.Inconclusive)
			require.Equal(t, []classify.Cause{classify.RouteConnectTimeout}, causes(r))
			f := r.Findings()[0]
			assert.Equal(t, "10.1.0.7", f.Fact(classify.FactSource))
			assert.Equal(t, "10.1.0.1", f.Fact(classify.FactGateway))
			assert.Equal(t, "eth0", f.Fact(classify.FactInterface))
			var stage *classify.StageError
			require.ErrorAs(t, f, &stage)
			assert.Equal(t, classify.StageConnect, stage.Stage)
			assert.Equal(t, tc.want, stage.Limit)
		})
	}
}

// The Go dialer arms a timer of its own from the context's deadline and may
// return before the context has ended.
func TestDialerAheadOfItsContextIsStillTheLimit(t *testing.T) {
	t.Parallel()
	ahead := reach.DialerFunc(func(ctx context.Context, network, _ string) (net.Conn, error) {
		deadline, _ := ctx.Deadline()
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		require.NoError(t, a.SetReadDeadline(deadline))
		_, err := a.Read(make([]byte, 1))
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	})
	synctest.Test(t, func(t *testing.T) {
		r, _, err := (&reach.Checker{Dialer: ahead}).Connect(t.Context(), target)
		require.NoError(t, err)
		assert.True(t, r.Connect.TimedOut)
		require.Equal(t, []classify.Cause{classify.RouteConnectTimeout}, causes(r))
	})
	synctest.Test(t, func(t *testing.T) { // the same end, but of the caller
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, _, err := (&reach.Checker{Dialer: ahead}).Connect(ctx, target)
		require.NoError(t, err)
		assert.False(t, r.Connect.TimedOut)
		assert.Empty(t, causes(r))
		assert.Contains(t, r.Inconclusive, "caller's context ended")
	})
}

func TestCallersEndDecidesNothingAndReturnsAtOnce(t *testing.T) {
	t.Parallel()
	hangs := reach.RouterFunc(func(ctx context.Context, _ netip.Addr) (reach.Route, error) {
		<-ctx.Done()
		return reach.Route{}, ctx.Err()
	})
	for name, c := range map[string]*reach.Checker{
		"while connecting": {Router: routeOf(reach.RouteUnicast), Dialer: silent()},
		"while looking up": {Router: hangs, Dialer: accepts()},
	} {
		for _, after := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprint(name, " after ", after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancelCause(t.Context())
					reason := errors.New("the pod was deleted, token=abc123")
					if after == 0 {
						cancel(reason)
					} else {
						time.AfterFunc(after, func() { cancel(reason) })
					}
					start := time.Now()
					r, err := c.Check(ctx, target)
					require.NoError(t, err)
					assert.Equal(t, after, time.Since(start))
					assert.Contains(t, r.Inconclusive, "caller's context ended")
					assert.NotContains(t, r.Inconclusive, "abc123")
					assert.Empty(t, r.Findings())
					assert.False(t, r.Held())
				})
			})
		}
	}
}

// A caller's deadline that comes before our limit is the caller's end.
func TestCallersDeadlineIsNoTimeoutOfTheTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, conn, err := (&reach.Checker{Dialer: silent()}).Connect(ctx, target)
		require.NoError(t, err)
		assert.Nil(t, conn)
		assert.False(t, r.Connect.TimedOut)
		assert.Empty(t, r.Findings())
		assert.NotEmpty(t, r.Inconclusive)
	})
}

func TestRouteLookupThatHangsDoesNotKeepTheConnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := reach.RouterFunc(func(ctx context.Context, _ netip.Addr) (reach.Route, error) {
			<-ctx.Done()
			return reach.Route{}, ctx.Err()
		})
		r, err := (&reach.Checker{Router: hangs, Dialer: accepts()}).Check(t.Context(), target)
		require.NoError(t, err)
		assert.Contains(t, r.Inconclusive, "no answer within 2s")
		assert.Nil(t, r.Route)
		assert.True(t, r.Connect.Connected)
		assert.False(t, r.Held())
	})
}
