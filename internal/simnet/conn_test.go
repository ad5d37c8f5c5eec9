package simnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"github.com/pullwalk/pullwalk/reach"
)

var registry = netip.MustParseAddrPort("10.20.0.4:443")

// world returns a network with a way to everywhere.
func world() *Net {
	n := New()
	n.Route(netip.MustParsePrefix("0.0.0.0/0"), reach.Route{
		Source: netip.MustParseAddr("10.20.0.1"), Gateway: netip.MustParseAddr("10.20.0.254"), Interface: "eth0"})
	return n
}

// pair dials ap and returns both ends.
func pair(t testing.TB, n *Net, ap netip.AddrPort) (client, server *Conn) {
	t.Helper()
	l := n.Listen(ap)
	c, err := n.Dialer().DialContext(t.Context(), "tcp", ap.String())
	require.NoError(t, err)
	s, err := l.Accept()
	require.NoError(t, err)
	return c.(*Conn), s.(*Conn)
}

// The general contract of net.Conn, on the real clock.
func TestConnBehavesAsANetConn(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"no delay": 0, "delay": 50 * time.Microsecond} {
		for _, from := range []string{"client", "server"} {
			t.Run(name+", "+from, func(t *testing.T) {
				t.Parallel()
				nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
					n := world()
					n.Delay(registry, delay)
					c, s := pair(t, n, registry)
					if from == "client" {
						return c, s, n.Close, nil
					}
					return s, c, n.Close, nil
				})
			})
		}
	}
}

func TestAddressesOfAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		c, s := pair(t, n, registry)
		require.Equal(t, "10.20.0.1:32768", c.LocalAddr().String())
		require.Equal(t, "10.20.0.4:443", c.RemoteAddr().String())
		require.Equal(t, c.LocalAddr(), s.RemoteAddr())
		require.Equal(t, c.RemoteAddr(), s.LocalAddr())
		require.IsType(t, &net.TCPAddr{}, c.LocalAddr())

		n.Route(netip.MustParsePrefix("::/0"), reach.Route{})
		c, _ = pair(t, n, netip.MustParseAddrPort("[2001:db8::4]:443"))
		require.Equal(t, "[2001:db8::1]:32769", c.LocalAddr().String())
		n.Route(netip.MustParsePrefix("10.0.0.0/8"), reach.Route{})
		c, _ = pair(t, n, netip.MustParseAddrPort("10.20.0.5:443"))
		require.Equal(t, "192.0.2.1:32770", c.LocalAddr().String())
	})
}

// A write must not wait for the reader before the window is full, and must
// wait from then on.
func TestWriteWaitsOnlyForAFullWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		c, s := pair(t, n, registry)
		sent := bytes.Repeat([]byte("x"), window)
		k, err := c.Write(sent)
		require.NoError(t, err)
		require.Equal(t, window, k)

		start := time.Now()
		require.NoError(t, c.SetWriteDeadline(start.Add(3*time.Second)))
		k, err = c.Write([]byte("more"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Zero(t, k)
		require.Equal(t, 3*time.Second, time.Since(start))

		require.NoError(t, c.SetWriteDeadline(time.Time{}))
		go func() {
			time.Sleep(time.Second)
			io.CopyN(io.Discard, s, 2)
		}()
		start = time.Now()
		_, err = c.Write([]byte("ab"))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestCloseWriteLeavesTheOtherDirectionOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		c, s := pair(t, n, registry)
		go func() {
			got, _ := io.ReadAll(s)
			s.Write(append([]byte("got "), got...))
			s.Close()
		}()
		_, err := c.Write([]byte("question"))
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, "got question", string(got))
		_, err = c.Write([]byte("late"))
		requireErrno(t, err, "write", ePIPE)
	})
}

func TestErrorsAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		n.Delay(registry, time.Second)
		c, s := pair(t, n, registry)
		_, err := s.Write([]byte("last words"))
		require.NoError(t, err)
		require.NoError(t, s.Close())

		// The side that closed.
		var op *net.OpError
		_, err = s.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorAs(t, err, &op)
		_, err = s.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorIs(t, s.Close(), net.ErrClosed)
		require.ErrorIs(t, s.SetDeadline(time.Time{}), net.ErrClosed)

		// The other side: what was sent before arrives first.
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, "last words", string(got))
		start := time.Now()
		_, err = c.Write([]byte("lost"))
		require.NoError(t, err, "no reset has come back yet")
		_, err = c.Write([]byte("lost"))
		require.NoError(t, err, "no reset has come back yet")
		time.Sleep(2 * time.Second)
		_, err = c.Write([]byte("x"))
		requireErrno(t, err, "write", ePIPE)
		require.Equal(t, 2*time.Second, time.Since(start))
		_, err = c.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
	})
}

// What waits must end when its end is closed, when the peer goes, and when the
// network is closed.
func TestCloseWakesWhatWaits(t *testing.T) {
	t.Parallel()
	full := make([]byte, 2*window)
	read := func(c *Conn) error { _, err := c.Read(make([]byte, 1)); return err }
	write := func(c *Conn) error { _, err := c.Write(full); return err }
	for name, tt := range map[string]struct {
		wait func(*Conn) error
		end  func(n *Net, c, s *Conn)
		want error
	}{
		"read, closed here":     {read, func(_ *Net, c, _ *Conn) { c.Close() }, net.ErrClosed},
		"read, closed there":    {read, func(_ *Net, _, s *Conn) { s.Close() }, io.EOF},
		"read, network closed":  {read, func(n *Net, _, _ *Conn) { n.Close() }, net.ErrClosed},
		"write, closed here":    {write, func(_ *Net, c, _ *Conn) { c.Close() }, net.ErrClosed},
		"write, closed there":   {write, func(_ *Net, _, s *Conn) { s.Close() }, ePIPE},
		"write, network closed": {write, func(n *Net, _, _ *Conn) { n.Close() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := world()
				defer n.Close()
				c, s := pair(t, n, registry)
				got := make(chan error, 1)
				go func() { got <- tt.wait(c) }()
				synctest.Wait()
				tt.end(n, c, s)
				if err := <-got; tt.want != nil {
					require.ErrorIs(t, err, tt.want)
				} else { // either end may have been closed first
					require.Error(t, err)
				}
			})
		})
	}
}

// Writes of several goroutines must not be mixed, as little as on a socket.
func TestWritesAreNotInterleaved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		c, s := pair(t, n, registry)
		const size = 3 * window
		for _, b := range []string{"a", "b", "c"} {
			go c.Write(bytes.Repeat([]byte(b), size))
		}
		for range 3 {
			got := make([]byte, size)
			_, err := io.ReadFull(s, got)
			require.NoError(t, err)
			require.Equal(t, size, bytes.Count(got, got[:1]))
		}
	})
}

func TestListener(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := world()
		defer n.Close()
		l := n.Listen(registry)
		require.Equal(t, registry.String(), l.Addr().String())
		require.Panics(t, func() { n.Listen(registry) })

		waiting := make(chan error)
		go func() {
			_, err := l.Accept()
			waiting <- err
		}()
		synctest.Wait()
		c, err := n.Dialer().DialContext(t.Context(), "tcp", registry.String())
		require.NoError(t, err)
		require.NoError(t, <-waiting)
		c.Close()

		// Not accepted: reset when the listener goes.
		c, err = n.Dialer().DialContext(t.Context(), "tcp", registry.String())
		require.NoError(t, err)
		go func() {
			_, err := c.Read(make([]byte, 1))
			waiting <- err
		}()
		synctest.Wait()
		require.NoError(t, l.Close())
		requireErrno(t, <-waiting, "read", eCONNRESET)

		require.ErrorIs(t, l.Close(), net.ErrClosed)
		_, err = l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = n.Dialer().DialContext(t.Context(), "tcp", registry.String())
		requireErrno(t, err, "dial", eCONNREFUSED)
		n.Listen(registry) // free again
	})
}

// requireErrno wants the errors of package net: OpError, SyscallError, errno.
func requireErrno(t testing.TB, err error, op string, errno syscall.Errno) {
	t.Helper()
	var opErr *net.OpError
	require.ErrorAs(t, err, &opErr)
	require.Equal(t, op, opErr.Op)
	var sys *os.SyscallError
	require.ErrorAs(t, err, &sys)
	require.Equal(t, errno, sys.Err, "%v", err)
	require.True(t, errors.Is(err, errno))
}
