package reach

import (
	"net"
	"sync"
	"syscall"
)

// Flow is what the kernel counted of one TCP connection (TCP_INFO). Linux only;
// zero elsewhere.
type Flow struct {
	// SentBytes counts payload, without repeats; AckedBytes what the peer has
	// confirmed of it; ReceivedBytes what arrived in order.
	SentBytes     int64 `json:"sentBytes"`
	AckedBytes    int64 `json:"ackedBytes"`
	ReceivedBytes int64 `json:"receivedBytes"`
	// Retransmits counts repeated segments, SYNs included.
	Retransmits int `json:"retransmits"`
	// Segment is the largest payload of one own segment, in bytes.
	Segment int `json:"segment,omitempty"`
	// PathMTU, in bytes, is what the kernel believes of the path.
	PathMTU int `json:"pathMtu,omitempty"`
	// OutOfOrder counts segments that arrived while an earlier one was missing:
	// the sign of a large segment that got lost before a small one.
	OutOfOrder int `json:"outOfOrder,omitempty"`

	roundTrip int64 // smoothed, in microseconds
}

// keptFlow counts a connection also after an exchange has closed it, as
// crypto/tls does when its context ends.
type keptFlow struct {
	net.Conn // what the exchange gets
	counting *countingConn
}

func keepFlow(conn net.Conn) keptFlow {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return keptFlow{Conn: conn} // shows no socket
	}
	c := &countingConn{Conn: conn, raw: sc}
	return keptFlow{c, c}
}

func (k keptFlow) flow() Flow {
	if k.counting == nil {
		return Flow{}
	}
	return k.counting.look()
}

// countingConn looks at its socket before it closes it.
type countingConn struct {
	net.Conn
	raw syscall.Conn

	mu     sync.Mutex // held for a system call that does not wait
	closed bool
	last   Flow
}

// SyscallConn lets callers set options, as on the connection itself.
func (c *countingConn) SyscallConn() (syscall.RawConn, error) { return c.raw.SyscallConn() }

// look reads the counters, unless the socket is closed, and returns the last.
func (c *countingConn) look() Flow {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.last = flowOfConn(c.Conn)
	}
	return c.last
}

func (c *countingConn) Close() error {
	c.look()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return c.Conn.Close()
}
