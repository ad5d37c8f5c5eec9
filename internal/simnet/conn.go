package simnet

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// window is how many bytes one direction of a connection holds before a write
// has to wait for the reader: what is on its way and what was not yet read.
const window = 64 << 10

// Conn is one end of a connection in memory. It keeps to what a TCP socket of
// Linux does, so that code under test meets the errors of the real thing:
//
//   - a read gives what arrived before an end or a reset, then [io.EOF] or
//     ECONNRESET;
//   - the first write to a peer that has gone is accepted and lost, since the
//     reset that answers it needs a round trip; the next one is EPIPE;
//   - a write waits when 64 KiB are unread;
//   - deadlines give [os.ErrDeadlineExceeded], a call on an end that was closed
//     here gives [net.ErrClosed], everything inside a [*net.OpError].
//
// One thing differs on purpose: closing with unread bytes is an orderly end and
// not a reset, because with a reset the outcome would hang on which goroutine
// ran first.
type Conn struct {
	link          *link
	in, out       *stream
	local, remote *net.TCPAddr
	mss           int         // of what is sent, both ways
	forget        func(*Conn) // takes the end off the network's list; nil = not listed

	// All below is guarded by link.mu.
	closed        bool
	shut          bool // CloseWrite was called
	writing       bool // one write at a time, as on a socket: no interleaving
	resetSeen     bool // the reset was reported once; from then on writes are EPIPE
	readBy        time.Time
	writeBy       time.Time
	resetOnAnswer bool // the reset fault: see meetReset
}

// link is what the two ends share. Nobody holds mu while waiting: a bubble's
// clock stands still as long as a goroutine waits for a mutex.
type link struct {
	delay   time.Duration // one way
	mu      sync.Mutex
	changed chan struct{} // closed at the next change; nil = nobody waits
}

// stream is one direction of a link.
type stream struct {
	segments []segment
	held     int       // bytes written and not read
	end      time.Time // when the end of the stream reaches the reader; zero = never
	reset    time.Time // when a reset reaches the reader; zero = never
	gone     bool      // nobody reads any more, what is written is lost
	dead     time.Time // when the writer learns that; zero = it did not write since
	swallow  bool      // the far end takes everything and reads nothing
	limit    limit
}

type segment struct {
	at   time.Time // when it reaches the reader
	data []byte
}

// limit is a fault that lets only so many bytes through, or with hole only
// segments of so many.
type limit struct {
	kind  faultKind // hang, cut or hole; zero = no limit
	left  int
	whole bool // a hole that looks at writes, not at segments
}

// defaultMSS is that of Ethernet and IPv4.
const defaultMSS = 1460

// newPair returns two ends that are connected: what is written to one is read
// from the other, delay later.
func newPair(client, server *net.TCPAddr, delay time.Duration, mss int, toServer, fromServer limit) (*Conn, *Conn) {
	l := &link{delay: delay}
	up, down := &stream{limit: toServer}, &stream{limit: fromServer}
	c := &Conn{link: l, in: down, out: up, local: client, remote: server, mss: mss}
	s := &Conn{link: l, in: up, out: down, local: server, remote: client, mss: mss}
	if fromServer.kind == cut && fromServer.left == 0 {
		s.cutOff()
	}
	return c, s
}

// Read reads what has arrived, and waits for the first byte if nothing has.
func (c *Conn) Read(p []byte) (int, error) {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		s := c.in
		switch {
		case c.closed:
			return 0, c.opError("read", net.ErrClosed)
		case passed(c.readBy):
			return 0, c.opError("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		}
		c.meetReset(time.Now())
		if len(s.segments) > 0 && passed(s.segments[0].at) {
			return c.take(p), nil
		}
		if len(s.segments) == 0 {
			if passed(s.reset) {
				c.resetSeen = true
				return 0, c.opError("read", os.NewSyscallError("read", eCONNRESET))
			}
			if passed(s.end) {
				return 0, io.EOF
			}
		}
		next := earliest(s.end, s.reset)
		if len(s.segments) > 0 {
			next = s.segments[0].at
		}
		l.wait(earliest(c.readBy, next))
	}
}

// take moves what has arrived into p.
func (c *Conn) take(p []byte) int {
	s, n := c.in, 0
	for n < len(p) && len(s.segments) > 0 && passed(s.segments[0].at) {
		first := &s.segments[0]
		k := copy(p[n:], first.data)
		n += k
		first.data = first.data[k:]
		if len(first.data) == 0 {
			s.segments[0] = segment{}
			s.segments = s.segments[1:]
		}
	}
	s.held -= n
	c.link.notify()
	return n
}

// Write sends p, and waits while the window is full.
func (c *Conn) Write(p []byte) (int, error) {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	for c.writing {
		if err := c.writeError(); err != nil {
			return 0, err
		}
		l.wait(earliest(c.writeBy, c.out.dead, c.in.reset))
	}
	c.writing = true
	defer func() {
		c.writing = false
		l.notify()
	}()
	n := 0
	for {
		if err := c.writeError(); err != nil {
			return n, err
		}
		n += c.send(p[n:])
		if n == len(p) {
			return n, nil
		}
		l.wait(earliest(c.writeBy, c.out.dead, c.in.reset))
	}
}

// writeError says why nothing can be written now; nil = it can.
func (c *Conn) writeError() error {
	broken := os.NewSyscallError("write", ePIPE)
	switch {
	case c.closed:
		return c.opError("write", net.ErrClosed)
	case passed(c.writeBy):
		return c.opError("write", os.ErrDeadlineExceeded)
	case c.shut, c.resetSeen, passed(c.out.dead):
		return c.opError("write", broken)
	case passed(c.in.reset) && !c.out.swallow:
		c.resetSeen = true
		return c.opError("write", os.NewSyscallError("write", eCONNRESET))
	}
	return nil
}

// send puts on its way as much of p as the window has room for.
func (c *Conn) send(p []byte) int {
	s, now := c.out, time.Now()
	if s.swallow {
		if len(p) > 0 {
			c.meetReset(now.Add(2 * c.link.delay))
		}
		return len(p)
	}
	n := min(len(p), window-s.held)
	if n == 0 {
		return 0
	}
	s.held += n
	if s.gone {
		if s.dead.IsZero() {
			s.dead = now.Add(2 * c.link.delay)
		}
		return n
	}
	through := n
	if s.limit.kind == hole { // what is too large is lost, and nothing overtakes it
		size := n
		if !s.limit.whole {
			size = min(n, c.mss)
		}
		if size <= s.limit.left {
			s.segments = append(s.segments, segment{at: now.Add(c.link.delay), data: append([]byte(nil), p[:n]...)})
			c.link.notify()
			return n
		}
		s.limit = limit{kind: hang}
	}
	if s.limit.kind != noFault {
		through = min(n, s.limit.left)
		s.limit.left -= through
	}
	if through > 0 {
		s.segments = append(s.segments, segment{at: now.Add(c.link.delay), data: append([]byte(nil), p[:through]...)})
	}
	if s.limit.kind == cut && s.limit.left == 0 {
		c.cutOff()
		if lost := n - through; lost > 0 {
			s.dead = now.Add(2 * c.link.delay)
		}
	}
	c.link.notify()
	return n
}

// meetReset lets the reset fault happen: the reset answers the first bytes, or
// the first read if nothing was written. Writes before it was read are lost
// without an error, so that what the caller meets does not depend on how many
// writes its request took.
func (c *Conn) meetReset(at time.Time) {
	if c.resetOnAnswer && c.in.reset.IsZero() {
		c.in.reset = at
		c.link.notify()
	}
}

// cutOff ends both directions where c, the server's end, stands. What was sent
// before still arrives.
func (c *Conn) cutOff() {
	now := time.Now()
	c.out.end, c.out.gone = now.Add(c.link.delay), true
	if c.in.end.IsZero() {
		c.in.end = now
	}
	c.in.gone = true
}

// CloseWrite ends this direction: the peer reads [io.EOF] after what was sent.
func (c *Conn) CloseWrite() error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.finish()
	c.shut = true
	c.link.notify()
	return nil
}

// finish sends the end of the stream, unless a hang swallows it.
func (c *Conn) finish() {
	s := c.out
	hangs := s.limit.kind == hang && s.limit.left == 0
	if s.end.IsZero() && !hangs {
		s.end = time.Now().Add(c.link.delay)
	}
}

// Close ends both directions and wakes whoever waits on this end.
func (c *Conn) Close() error {
	c.link.mu.Lock()
	if c.closed {
		c.link.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	c.closed = true
	c.finish()
	c.leave()
	c.link.mu.Unlock()
	if c.forget != nil {
		c.forget(c)
	}
	return nil
}

// leave stops reading. Unread bytes make the peer's next write fail at once; if
// there are none, it is the write after the next.
func (c *Conn) leave() {
	s := c.in
	s.gone = true
	if s.held > 0 && s.dead.IsZero() {
		s.dead = time.Now().Add(c.link.delay)
	}
	s.segments = nil
	c.link.notify()
}

// abort closes this end with a reset, as the kernel does with connections that
// nobody accepted.
func (c *Conn) abort() {
	c.link.mu.Lock()
	c.out.reset = time.Now().Add(c.link.delay)
	c.link.mu.Unlock()
	c.Close()
}

// LocalAddr returns a [*net.TCPAddr].
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns a [*net.TCPAddr].
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines; the zero time means none.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, &c.readBy, &c.writeBy) }

// SetReadDeadline concerns reads that wait now and all later ones.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.readBy) }

// SetWriteDeadline concerns writes that wait now and all later ones.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.writeBy) }

func (c *Conn) setDeadlines(t time.Time, which ...*time.Time) error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.closed {
		return &net.OpError{Op: "set", Net: "tcp", Addr: c.local, Err: net.ErrClosed}
	}
	for _, w := range which {
		*w = t
	}
	c.link.notify()
	return nil
}

func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// wait gives up the lock until something changes or until has come; the zero
// time never comes.
func (l *link) wait(until time.Time) {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	changed := l.changed
	l.mu.Unlock()
	defer l.mu.Lock()
	var alarm <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-changed:
	case <-alarm:
	}
}

func (l *link) notify() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// passed tells whether t has come; the zero time never does.
func passed(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// earliest returns the first of the times, leaving zero ones out.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
