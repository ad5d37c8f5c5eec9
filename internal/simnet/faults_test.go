package simnet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/reach"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// A connect that is refused: by whom, with which number, after how long.
func TestDialRefused(t *testing.T) {
	t.Parallel()
	const delay = 40 * time.Millisecond
	anyPort := netip.AddrPortFrom(registry.Addr(), 0)
	only := func(kind reach.RouteKind) func(n *Net) {
		return func(n *Net) { n.Route(prefix("10.20.0.0/24"), reach.Route{Kind: kind}) }
	}
	for name, tt := range map[string]struct {
		fault func(n *Net)
		errno syscall.Errno
		after time.Duration
	}{
		"nobody listens":    {func(n *Net) { n.listeners[registry].Close() }, eCONNREFUSED, 2 * delay},
		"refused":           {func(n *Net) { n.Refuse(registry) }, eCONNREFUSED, 2 * delay},
		"unreachable":       {func(n *Net) { n.Unreachable(registry) }, eHOSTUNREACH, 2 * delay},
		"every port":        {func(n *Net) { n.Unreachable(anyPort) }, eHOSTUNREACH, 2 * delay},
		"port before host":  {func(n *Net) { n.Refuse(registry); n.Silent(anyPort) }, eCONNREFUSED, 2 * delay},
		"no route":          {func(n *Net) { n.routes = nil }, eNETUNREACH, 0},
		"route none":        {only(reach.RouteNone), eNETUNREACH, 0},
		"route unreachable": {only(reach.RouteUnreachable), eHOSTUNREACH, 0},
		"route prohibit":    {only(reach.RouteProhibit), eACCES, 0},
		"route blackhole":   {only(reach.RouteBlackhole), eINVAL, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := world()
				defer n.Close()
				n.Listen(registry)
				n.Delay(registry, delay)
				tt.fault(n)
				start := time.Now()
				c, err := n.Dialer().DialContext(t.Context(), "tcp", registry.String())
				require.Nil(t, c)
				requireErrno(t, err, "dial", tt.errno)
				require.Equal(t, tt.after, time.Since(start))
				require.Equal(t, []Dial{{Start: start, Host: "10.20.0.4", Address: registry, Err: err}}, n.Dials())
			})
		})
	}
}

// A connect that nobody answers ends with the context, and with the errors that
// net.Dialer makes of it.
func TestDialSilent(t *testing.T) {
	t.Parallel()
	nowhere := netip.MustParseAddrPort("10.99.0.1:443")
	for name, tt := range map[string]struct {
		to     netip.AddrPort
		silent bool
	}{
		"packets dropped":  {registry, true},
		"no such host":     {nowhere, false},
		"silent at a port": {netip.MustParseAddrPort("10.20.0.4:8443"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := world()
				n.Listen(registry)
				if tt.silent {
					n.Silent(tt.to)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				start := time.Now()
				_, err := n.Dialer().DialContext(ctx, "tcp", tt.to.String())
				require.Equal(t, 30*time.Second, time.Since(start))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				var op *net.OpError
				require.ErrorAs(t, err, &op)
				require.Equal(t, "dial", op.Op)
				require.Equal(t, tt.to.String(), op.Addr.String())
				require.True(t, op.Timeout())

				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				_, err = n.Dialer().DialContext(ctx, "tcp", tt.to.String())
				require.Equal(t, 31*time.Second, time.Since(start))
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorAs(t, err, &op)
				require.False(t, op.Timeout())

				time.AfterFunc(time.Second, n.Close)
				_, err = n.Dialer().DialContext(t.Context(), "tcp", tt.to.String())
				require.Equal(t, 32*time.Second, time.Since(start))
				require.ErrorIs(t, err, net.ErrClosed)
			})
		})
	}
}

// The errors of a context's end must be those of the real dialer.
func TestContextErrorsAreThoseOfNet(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	n := world()
	defer n.Close()
	for _, ctx := range []context.Context{canceled, expired} {
		_, want := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:1")
		_, got := n.Dialer().DialContext(ctx, "tcp", "127.0.0.1:1")
		require.Equal(t, want.Error(), got.Error())
		for _, target := range []error{context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded} {
			require.Equal(t, errors.Is(want, target), errors.Is(got, target), "%v", target)
		}
		var wantOp, gotOp *net.OpError
		require.ErrorAs(t, want, &wantOp)
		require.ErrorAs(t, got, &gotOp)
		require.Equal(t, wantOp.Timeout(), gotOp.Timeout())
		require.Equal(t, wantOp.Addr.String(), gotOp.Addr.String())
	}
}

// The other errors, beside those of the loopback interface.
func TestErrorsAreThoseOfNet(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Winsock's calls have names of their own")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip("no loopback: ", err)
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	n := world()
	defer n.Close()
	sim := n.Listen(at)

	failures := func(l net.Listener, dial func(context.Context, string, string) (net.Conn, error)) []error {
		c, err := dial(t.Context(), "tcp", at.String())
		require.NoError(t, err)
		s, err := l.Accept()
		require.NoError(t, err)
		var errs []error
		note := func(_ int, err error) { errs = append(errs, err) }
		c.SetDeadline(time.Unix(1, 0))
		note(c.Read(make([]byte, 1)))
		note(c.Write(make([]byte, 1)))
		c.SetDeadline(time.Time{})
		s.Close()
		note(c.Read(make([]byte, 1)))
		c.(interface{ CloseWrite() error }).CloseWrite()
		note(c.Write(make([]byte, 1)))
		c.Close()
		note(c.Read(make([]byte, 1)))
		note(c.Write(make([]byte, 1)))
		note(0, c.Close())
		note(0, c.SetDeadline(time.Time{}))
		l.Close()
		_, err = l.Accept()
		note(0, err)
		note(0, l.Close())
		_, err = dial(t.Context(), "tcp", at.String())
		note(0, err)
		return errs
	}
	want := failures(l, new(net.Dialer).DialContext)
	got := failures(sim, n.Dialer().DialContext)
	addr := regexp.MustCompile(`[0-9.]{7,}:[0-9]+`) // the client's differ
	for i := range want {
		require.Error(t, want[i])
		require.Equal(t, addr.ReplaceAllString(want[i].Error(), "ADDR"), addr.ReplaceAllString(got[i].Error(), "ADDR"))
		require.IsType(t, want[i], got[i])
		for _, target := range []error{os.ErrDeadlineExceeded, net.ErrClosed, io.EOF, syscall.EPIPE, syscall.ECONNREFUSED} {
			require.Equal(t, errors.Is(want[i], target), errors.Is(got[i], target), "%v: %v", want[i], target)
		}
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]int{"read at once": 0, "after one write": 1, "after several": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := world()
				defer n.Close()
				n.Delay(registry, time.Second)
				n.Reset(registry)
				c, err := n.Dialer().DialContext(t.Context(), "tcp", registry.String())
				require.NoError(t, err)
				start, wait := time.Now(), time.Duration(0)
				for range write {
					_, err := c.Write([]byte("hello"))
					require.NoError(t, err)
					wait = 2 * time.Second
				}
				_, err = c.Read(make([]byte, 1))
				requireErrno(t, err, "read", eCONNRESET)
				require.Equal(t, wait, time.Since(start))
				_, err = c.Write([]byte("x"))
				requireErrno(t, err, "write", ePIPE)
			})
		})
	}
}

// A host that accepts, takes everything and never answers.
func TestMute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		n.Mute(registry)
		c, err := n.Dialer().DialContext(t.Context(), "tcp", registry.String())
		require.NoError(t, err)
		_, err = c.Write(make([]byte, 10*window))
		require.NoError(t, err)
		start := time.Now()
		require.NoError(t, c.SetReadDeadline(start.Add(30*time.Second)))
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var ne net.Error
		require.ErrorAs(t, err, &ne)
		require.True(t, ne.Timeout())
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

// The server sends ten bytes and closes; the fault lets so many through.
func TestHangAndCut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault func(n *Net)
		got   string
		err   error
	}{
		"none":          {func(*Net) {}, "0123456789", io.EOF},
		"hang at 4":     {func(n *Net) { n.HangAfter(registry, 4) }, "0123", os.ErrDeadlineExceeded},
		"hang at 0":     {func(n *Net) { n.HangAfter(registry, 0) }, "", os.ErrDeadlineExceeded},
		"hang at 10":    {func(n *Net) { n.HangAfter(registry, 10) }, "0123456789", os.ErrDeadlineExceeded},
		"hang at 11":    {func(n *Net) { n.HangAfter(registry, 11) }, "0123456789", io.EOF},
		"cut at 4":      {func(n *Net) { n.CutAfter(registry, 4) }, "0123", io.EOF},
		"cut at 0":      {func(n *Net) { n.CutAfter(registry, 0) }, "", io.EOF},
		"cut at 11":     {func(n *Net) { n.CutAfter(registry, 11) }, "0123456789", io.EOF},
		"the last wins": {func(n *Net) { n.Silent(registry); n.CutAfter(registry, 2) }, "01", io.EOF},
		"healed":        {func(n *Net) { n.Silent(registry); n.Heal(registry) }, "0123456789", io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := world()
				defer n.Close()
				tt.fault(n)
				n.Delay(registry, time.Second)
				start := time.Now()
				c, s := pair(t, n, registry)
				require.Equal(t, 2*time.Second, time.Since(start))
				go func() {
					for i := range 5 {
						s.Write([]byte("0123456789")[2*i : 2*i+2])
					}
					s.Close()
				}()
				require.NoError(t, c.SetReadDeadline(start.Add(30*time.Second)))
				var got []byte
				var err error
				for err == nil {
					var k int
					buf := make([]byte, 3)
					k, err = c.Read(buf)
					got = append(got, buf[:k]...)
				}
				require.Equal(t, tt.got, string(got))
				require.ErrorIs(t, err, tt.err)
				if tt.err == io.EOF && tt.got != "" {
					require.Equal(t, 3*time.Second, time.Since(start))
				}
				if tt.err != io.EOF {
					require.Equal(t, 30*time.Second, time.Since(start))
				}
			})
		})
	}
}

// A hanging server is held by a full window until the client goes away.
func TestHangHoldsTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		n.HangAfter(registry, 1000)
		c, s := pair(t, n, registry)
		time.AfterFunc(time.Minute, func() { c.Close() })
		start := time.Now()
		k, err := s.Write(make([]byte, 1<<20))
		require.Equal(t, window, k)
		requireErrno(t, err, "write", ePIPE)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

// A cut ends both directions, so the server learns of it too.
func TestCutEndsTheServersSide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		n.CutAfter(registry, 4)
		_, s := pair(t, n, registry)
		_, err := s.Write([]byte("0123"))
		require.NoError(t, err)
		_, err = s.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		_, err = s.Write([]byte("lost"))
		require.NoError(t, err)
		_, err = s.Write([]byte("x"))
		requireErrno(t, err, "write", ePIPE)
	})
}

func TestDelayIsOneWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		n.Delay(netip.AddrPortFrom(registry.Addr(), 0), 100*time.Millisecond)
		l := n.Listen(registry)
		start := time.Now()
		go func() {
			s, err := l.Accept()
			if err != nil {
				return
			}
			io.Copy(s, s)
		}()
		c, err := n.Dialer().DialContext(t.Context(), "tcp", registry.String())
		require.NoError(t, err)
		require.Equal(t, 200*time.Millisecond, time.Since(start))
		c.Write([]byte("ping"))
		require.Equal(t, 200*time.Millisecond, time.Since(start), "a write does not wait")
		_, err = io.ReadFull(c, make([]byte, 4))
		require.NoError(t, err)
		require.Equal(t, 400*time.Millisecond, time.Since(start))

		// Given up while the acceptance was on its way: the server sees an end.
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		_, err = n.Dialer().DialContext(ctx, "tcp", registry.String())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s, err := l.Accept()
		require.NoError(t, err)
		_, err = s.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
	})
}

// What changes while the first packet is on its way.
func TestGoneWhileConnecting(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end   func(n *Net, l net.Listener)
		want  error
		after time.Duration
	}{
		"listener closed": {func(_ *Net, l net.Listener) { l.Close() }, eCONNREFUSED, 2 * time.Second},
		"network closed":  {func(n *Net, _ net.Listener) { n.Close() }, net.ErrClosed, time.Second / 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := world()
				defer n.Close()
				n.Delay(registry, time.Second)
				l := n.Listen(registry)
				start := time.Now()
				time.AfterFunc(time.Second/2, func() { tt.end(n, l) })
				_, err := n.Dialer().DialContext(t.Context(), "tcp", registry.String())
				require.ErrorIs(t, err, tt.want)
				require.Equal(t, tt.after, time.Since(start))
				require.Empty(t, n.conns)
			})
		})
	}
}

func TestHolesLoseLargeSegments(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*Net, netip.AddrPort, int)
		mss  int
		up   bool // what the client sends arrives
		down bool // what the server sends arrives
	}{
		{"on the way up", (*Net).HoleUp, 0, false, false},
		{"on the way down", (*Net).HoleDown, 0, true, false},
		{"clamped", (*Net).HoleDown, 1000, true, true},
		{"large writes, clamped", (*Net).DropLarge, 1000, false, false},
		{"clamped, up", (*Net).HoleUp, 1000, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, at := New(), netip.MustParseAddrPort("10.20.0.4:443")
				n.Route(netip.MustParsePrefix("0.0.0.0/0"), reach.Route{})
				l := n.Listen(at)
				tt.set(n, at, 1200)
				heard := make(chan bool, 1)
				go func() {
					c, err := l.Accept()
					require.NoError(t, err)
					defer c.Close()
					c.SetReadDeadline(time.Now().Add(time.Second))
					_, err = io.ReadFull(c, make([]byte, 3000))
					heard <- err == nil
					c.Write(make([]byte, 3000))
				}()
				var c net.Conn
				var err error
				if tt.mss > 0 {
					c, err = n.Dialer().(interface {
						DialSegment(context.Context, string, string, int) (net.Conn, error)
					}).DialSegment(t.Context(), "tcp", at.String(), tt.mss)
				} else {
					c, err = n.Dialer().DialContext(t.Context(), "tcp", at.String())
				}
				require.NoError(t, err)
				defer c.Close()
				_, err = c.Write(make([]byte, 3000))
				require.NoError(t, err, "a lost segment is no error")
				require.Equal(t, tt.up, <-heard)
				c.SetReadDeadline(time.Now().Add(time.Second))
				_, err = io.ReadFull(c, make([]byte, 3000))
				require.Equal(t, tt.down, err == nil && tt.up)
				n.Close()
			})
		})
	}
}
