package reach_test

import (
	"context"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
)

// looks is a tree whose counters change between two looks, and which counts them.
type looks struct {
	before, after fs.FS
	opened        *atomic.Int32
	changed       time.Time
}

func (l looks) Open(name string) (fs.File, error) {
	l.opened.Add(1)
	if time.Now().Before(l.changed) {
		return l.before.Open(name)
	}
	return l.after.Open(name)
}

const fullTable = "262144\n"

// drops is /proc/net/stat/nf_conntrack with so many packets dropped.
func drops(n string) string {
	return "entries drop\n0 " + n + "\n"
}

// A machine without room explains silence; one with room does not, and an answer
// costs no look.
func TestPressureBehindSilence(t *testing.T) {
	t.Parallel()
	const count, stat = "proc/sys/net/netfilter/nf_conntrack_count", "proc/1/net/stat/nf_conntrack"
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	after := func(d time.Duration, err error) func(context.Context) error {
		return func(context.Context) error { time.Sleep(d); return err }
	}
	noPort := &net.OpError{Op: "dial", Err: syscall.EADDRNOTAVAIL}
	ports := map[string]string{"proc/1/net/sockstat": "TCP: inuse 28000 orphan 0 tw 9000 alloc 1 mem 1\n"}
	for name, tt := range map[string]struct {
		dial          func(context.Context) error
		before, after map[string]string
		cause         classify.Cause // of the last finding that fails; "" = none does
		other         bool           // pressure is another reading of it
		warns         bool           // and a warning of its own
		looked        bool
	}{
		"room enough":                      {silent, nil, nil, classify.RouteConnectTimeout, false, false, true},
		"full, and dropping":               {silent, map[string]string{count: fullTable, stat: drops("00000001")}, map[string]string{count: fullTable, stat: drops("00000009")}, classify.RoutePressure, false, false, true},
		"nearly full, and dropping":        {silent, map[string]string{count: "260000", stat: drops("1")}, map[string]string{count: "260000", stat: drops("9")}, classify.RoutePressure, false, false, true},
		"full, and nothing dropped":        {silent, map[string]string{count: fullTable}, map[string]string{count: fullTable}, classify.RouteConnectTimeout, true, true, true},
		"dropping, with room":              {silent, map[string]string{stat: drops("1")}, map[string]string{stat: drops("9")}, classify.RouteConnectTimeout, false, false, true},
		"no port left":                     {after(0, noPort), ports, ports, "", false, true, true},
		"refused at once":                  {after(0, syscall.ECONNREFUSED), map[string]string{count: fullTable}, map[string]string{count: fullTable}, classify.EndpointConnectionRefused, false, false, false},
		"refused late":                     {after(1500*time.Millisecond, syscall.ECONNREFUSED), map[string]string{count: fullTable}, map[string]string{count: fullTable}, classify.EndpointConnectionRefused, false, false, true},
		"ports are short, nothing answers": {silent, ports, ports, classify.RouteConnectTimeout, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tree := looks{proc(tt.before), proc(tt.after), new(atomic.Int32), time.Now().Add(2 * time.Second)}
				c := &reach.Checker{
					Pressure: tree,
					Dialer:   reach.DialerFunc(func(ctx context.Context, _, _ string) (net.Conn, error) { return nil, tt.dial(ctx) }),
				}
				r, conn, err := c.Connect(t.Context(), netip.MustParseAddrPort("10.20.0.4:443"))
				require.NoError(t, err)
				require.Nil(t, conn)
				var failed *classify.Finding
				warned := false
				for _, f := range r.Findings() {
					if f.Severity == classify.SeverityFail {
						failed = &f
					}
					warned = warned || f.Cause == classify.RoutePressure && f.Severity == classify.SeverityWarn
				}
				assert.Equal(t, tt.looked, tree.opened.Load() > 0)
				assert.Equal(t, tt.warns, warned)
				if tt.cause == "" {
					require.Nil(t, failed)
					return
				}
				require.NotNil(t, failed)
				assert.Equal(t, tt.cause, failed.Cause)
				if tt.cause == classify.RoutePressure {
					assert.Contains(t, failed.Alternatives, classify.RouteConnectTimeout)
					assert.Equal(t, classify.CertaintyLikely, failed.Certainty)
					assert.Contains(t, failed.Summary, "dropped 8 packets")
					require.NotNil(t, r.Pressure)
				} else {
					assert.Equal(t, tt.other, strings.Contains(joinCauses(failed.Alternatives), string(classify.RoutePressure)))
				}
			})
		})
	}
}

func joinCauses(causes []classify.Cause) string {
	var b strings.Builder
	for _, c := range causes {
		b.WriteString(string(c) + " ")
	}
	return b.String()
}

// stuck is a tree that does not answer.
type stuck chan struct{}

func (s stuck) Open(string) (fs.File, error) { <-s; return nil, fs.ErrNotExist }

// Counters that cannot be read hold the answer up by a moment at most.
func TestPressureThatCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tree := make(stuck)
		defer close(tree)
		c := &reach.Checker{
			Pressure: tree,
			Dialer:   reach.DialerFunc(func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }),
		}
		start := time.Now()
		r, _, err := c.Connect(t.Context(), netip.MustParseAddrPort("10.20.0.4:443"))
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), 6*time.Second)
		require.Nil(t, r.Pressure)
		require.Equal(t, classify.RouteConnectTimeout, r.Findings()[0].Cause)
	})
}
