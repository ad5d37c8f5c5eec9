package reach_test

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
)

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// This and the next test are not parallel: they count what the whole process
// holds.
//
// A thousand addresses that stay silent, on one Checker, with real sockets.
func TestThousandSilentAddressesAtOnce(t *testing.T) {
	p := newPath(t)
	p.r1.sink("10.99.0.0/16")
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Cur < 4000 {
		t.Skipf("needs 4000 descriptors, has %d", limit.Cur)
	}
	c := p.checker()
	c.Limit = 2 * time.Second
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	reports := make([]*reach.Report, 1000)
	traced := 0
	var wg sync.WaitGroup
	for i := range reports {
		wg.Go(func() {
			r, err := c.Check(t.Context(), netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 99, byte(i / 250), byte(1 + i%250)}), 443))
			if assert.NoError(t, err) {
				reports[i] = r
			}
		})
	}
	wg.Wait()
	for _, r := range reports {
		require.NotNil(t, r)
		if assert.NotNil(t, r.Connect, "%+v", r) {
			assert.True(t, r.Connect.TimedOut)
		}
		require.Len(t, r.Findings(), 1)
		if r.Trace != nil && len(r.Trace.Hops) > 0 {
			traced++
		}
	}
	assert.Positive(t, traced)
	assert.LessOrEqual(t, descriptors(t), files+4, "descriptors left")
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+4 }, 10*time.Second, 10*time.Millisecond, "goroutines left")
}

// Out of descriptors, nothing is said about the target. The limit is the whole
// process's, so a process of its own takes it.
func TestOutOfDescriptors(t *testing.T) {
	const child = "REACH_TEST_OUT_OF_DESCRIPTORS"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestOutOfDescriptors$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS")
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	to := l.Addr().(*net.TCPAddr).AddrPort()
	c := &reach.Checker{}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}))
	var held []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			require.ErrorIs(t, err, unix.EMFILE)
			break
		}
		held = append(held, f)
	}
	for free := range 4 {
		r, err := c.Check(t.Context(), to)
		require.NoError(t, err)
		switch {
		case free == 0:
			assert.Contains(t, r.Inconclusive, "file descriptors", "%+v", r)
			assert.Equal(t, classify.NodeLocalLimit, r.Findings()[0].Cause)
			trace, err := c.Trace(t.Context(), to)
			require.NoError(t, err)
			assert.Contains(t, trace.Inconclusive, "EMFILE")
		case r.Connect != nil && r.Connect.Connected:
			// Enough to connect, if not to watch the socket as well.
			assert.NotContains(t, causes(r), classify.RouteConnectTimeout)
		}
		require.NoError(t, held[free].Close())
	}
	for _, f := range held[4:] {
		_ = f.Close()
	}
	r, err := c.Check(t.Context(), to)
	require.NoError(t, err)
	assert.True(t, r.Held(), "%+v", r)
}

// No answer anywhere: connect, trace and candidates within the limit of the
// connect, all addresses at once.
func TestSilenceIsReportedWithinTheLimit(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	p.r1.sink("10.99.0.0/16")
	c := p.checker()
	c.Limit = 0 // the default, 5 s
	start := time.Now()
	var reports [3]*reach.Report
	var wg sync.WaitGroup
	for i, to := range []string{"10.99.0.4:443", "10.99.0.5:443", "10.99.0.6:5000"} {
		wg.Go(func() {
			r, err := c.Check(t.Context(), netip.MustParseAddrPort(to))
			if assert.NoError(t, err) {
				reports[i] = r
			}
		})
	}
	wg.Wait()
	t.Logf("three silent addresses, with traces: %v", time.Since(start))
	for _, r := range reports {
		require.NotNil(t, r)
		require.NotNil(t, r.Trace)
		assert.Equal(t, hop1, r.Trace.LastHop().Address)
		require.Equal(t, []classify.Cause{classify.RouteConnectTimeout}, causes(r))
		require.Contains(t, r.Findings()[0].Alternatives, classify.RouteReturnPathSuspected)
	}
}
