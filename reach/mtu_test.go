package reach_test

import (
	"context"
	"encoding/json"
	"errors"
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

// sized is a path on which the exchange works as works says, by the segment size
// of its connection (0 = as usual).
type sized struct{ works func(mss int) bool }

type sizedConn struct {
	net.Conn
	works bool
}

func (s sized) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return s.DialSegment(ctx, network, address, 0)
}

func (s sized) DialSegment(_ context.Context, _, _ string, mss int) (net.Conn, error) {
	near, _ := net.Pipe()
	return &sizedConn{near, s.works(mss)}, nil
}

// over works on connections for which ok holds, else it is silent to the end.
func over(name string, ok func(works bool) bool) reach.Exchange {
	return reach.Exchange{Name: name, Run: func(_ context.Context, conn net.Conn) error {
		if ok(conn.(*sizedConn).works) {
			return nil
		}
		_, err := conn.Read(make([]byte, 1)) // ends with the connection's deadline
		return err
	}}
}

func TestCheckMTUJudges(t *testing.T) {
	t.Parallel()
	as := func(works bool) bool { return works }
	always := func(bool) bool { return true }
	never := func(bool) bool { return false }
	below := func(limit int) func(int) bool { return func(mss int) bool { return mss > 0 && mss <= limit } }
	for name, tc := range map[string]struct {
		works        func(mss int) bool
		exchanges    []reach.Exchange
		verdict      reach.MTUVerdict
		passed, lost int
		direction    string
		cause        classify.Cause
		took         time.Duration
	}{
		"all works":             {func(int) bool { return true }, []reach.Exchange{over("large", as)}, reach.MTUHeld, 0, 0, "", "", 0},
		"only small segments":   {below(1220), []reach.Exchange{over("large", as)}, reach.MTUBlackHole, 1260, 1340, "", classify.RouteMTUBlackHole, 3 * time.Second},
		"only the smallest":     {below(536), []reach.Exchange{over("large", as)}, reach.MTUBlackHole, 576, 1040, "", classify.RouteMTUBlackHole, 3 * time.Second},
		"any clamp":             {below(1400), []reach.Exchange{over("large", as)}, reach.MTUBlackHole, 1440, 0, "", classify.RouteMTUBlackHole, 3 * time.Second},
		"small one fits":        {below(1220), []reach.Exchange{over("large", as), over("classical", always)}, reach.MTUBlackHole, 1260, 1340, reach.ToTarget, classify.RouteMTUBlackHole, 3 * time.Second},
		"small one fails alike": {below(1220), []reach.Exchange{over("large", as), over("classical", as)}, reach.MTUBlackHole, 1260, 1340, reach.FromTarget, classify.RouteMTUBlackHole, 3 * time.Second},
		"only the small hello":  {below(0), []reach.Exchange{over("large", never), over("classical", always)}, reach.LargeHelloDropped, 0, 0, "", classify.RouteLargeHelloDropped, 3 * time.Second},
		"nothing":               {below(0), []reach.Exchange{over("large", never), over("classical", never)}, reach.MTUNotSize, 0, 0, "", "", 3 * time.Second},
		"an answer that is no": {below(1220), []reach.Exchange{{Name: "large", Run: func(context.Context, net.Conn) error { return errors.New("alert") }}},
			reach.MTUNotSize, 0, 0, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				r, err := (&reach.Checker{Dialer: sized{tc.works}}).CheckMTU(t.Context(), target, tc.exchanges...)
				require.NoError(t, err)
				assert.Equal(t, tc.took, time.Since(start))
				assert.Equal(t, tc.verdict, r.Verdict)
				assert.Equal(t, tc.passed, r.Passed)
				assert.Equal(t, tc.lost, r.Lost)
				assert.Equal(t, tc.direction, r.Direction)
				if tc.cause == "" {
					assert.Empty(t, r.Findings())
				} else {
					require.Len(t, r.Findings(), 1)
					assert.Equal(t, tc.cause, r.Findings()[0].Cause)
				}
				text, err := json.Marshal(r)
				require.NoError(t, err)
				assert.Contains(t, string(text), `"verdict":"`+string(tc.verdict)+`"`)
			})
		})
	}
}

func TestCheckMTUOfIPv6CountsItsHeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := (&reach.Checker{Dialer: sized{func(mss int) bool { return mss == 1220 }}}).CheckMTU(t.Context(), target6, over("large", func(w bool) bool { return w }))
		require.NoError(t, err)
		assert.Equal(t, 1280, r.Passed)
	})
}

func TestCheckMTUWithoutAVerdict(t *testing.T) {
	t.Parallel()
	held := over("large", func(bool) bool { return false })
	synctest.Test(t, func(t *testing.T) { // the caller ends it
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		r, err := (&reach.Checker{Dialer: sized{func(int) bool { return false }}}).CheckMTU(ctx, target, held)
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(start))
		assert.Equal(t, reach.MTUUnknown, r.Verdict)
		assert.NotEmpty(t, r.Inconclusive)
		assert.Empty(t, r.Findings())
	})
	refused := reach.SegmentDialerFunc(func(context.Context, string, string, int) (net.Conn, error) { return nil, errors.New("refused") })
	r, err := (&reach.Checker{Dialer: both{answers(0), refused}}).CheckMTU(t.Context(), target, held)
	require.NoError(t, err)
	assert.Equal(t, reach.MTUUnknown, r.Verdict)
	assert.Contains(t, r.Inconclusive, "no connection")

	_, err = (&reach.Checker{Dialer: accepts()}).CheckMTU(t.Context(), target, held)
	require.ErrorIs(t, err, errors.ErrUnsupported, "a dialer that cannot clamp")
	_, err = (&reach.Checker{}).CheckMTU(t.Context(), netip.AddrPort{}, held)
	require.Error(t, err)
	_, err = (&reach.Checker{Dialer: sized{}}).CheckMTU(t.Context(), target, reach.Exchange{Name: "large"})
	require.ErrorContains(t, err, "no function")
	_, err = (&reach.Checker{Dialer: accepts()}).Trace(t.Context(), target)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = (&reach.Checker{}).Trace(t.Context(), netip.AddrPort{})
	require.Error(t, err)
	require.NotErrorIs(t, err, errors.ErrUnsupported)
}

type both struct {
	reach.Dialer
	reach.SegmentDialer
}
