package simnet

import (
	"net"
	"net/netip"
	"sync"
)

// listener hands out what was dialled to one address. Its queue has no limit:
// a server that never accepts keeps its clients connected and silent.
type listener struct {
	net  *Net
	addr netip.AddrPort

	mu     sync.Mutex
	queue  []*Conn
	closed bool
	wake   chan struct{} // holds a token while the queue may have something for a waiter
	done   chan struct{}
}

func newListener(n *Net, addr netip.AddrPort) *listener {
	return &listener{net: n, addr: addr, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil, l.opError("accept")
		}
		if len(l.queue) > 0 {
			c := l.queue[0]
			l.queue = l.queue[1:]
			if len(l.queue) > 0 {
				l.signal()
			}
			l.mu.Unlock()
			return c, nil
		}
		l.mu.Unlock()
		select {
		case <-l.wake:
		case <-l.done:
		}
	}
}

// offer queues the server's end of a connection; false = closed.
func (l *listener) offer(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.queue = append(l.queue, c)
	l.signal()
	return true
}

func (l *listener) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Close frees the address and resets what nobody accepted. Connections that
// were accepted live on.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return l.opError("close")
	}
	l.closed = true
	queue := l.queue
	l.queue = nil
	close(l.done)
	l.mu.Unlock()
	l.net.forgetListener(l)
	for _, c := range queue {
		c.abort()
	}
	return nil
}

// Addr returns a [*net.TCPAddr].
func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.addr) }

func (l *listener) opError(op string) error {
	return &net.OpError{Op: op, Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
}
