package lab

import (
	"crypto/tls"
	"net"
	"strings"
)

// listener hands out connections as the host's faults want them.
type listener struct {
	net.Listener
	host *Host
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	h := l.host
	c := &conn{Conn: raw, host: h, faults: h.state().conn}
	h.mu.Lock()
	h.connections++
	h.conns[c] = true
	h.mu.Unlock()
	if h.world.isClosed() { // Close may have looked before this connection was there
		c.Close()
	}
	if h.world.plain || c.faults.notTLS {
		return c, nil
	}
	if c.faults.server != nil {
		return tls.Server(c, c.faults.server), nil
	}
	return tls.Server(c, h.tls), nil
}

// conn is one accepted connection and what is wrong with it; both are settled
// when it is accepted.
type conn struct {
	net.Conn
	host    *Host
	faults  connFaults
	read    bool // something was read
	written bool // something was written
}

func (c *conn) Read(p []byte) (int, error) {
	if c.faults.silent {
		// Whatever comes is taken and nothing is made of it.
		for {
			if _, err := c.Conn.Read(p); err != nil {
				return 0, err
			}
		}
	}
	n, err := c.Conn.Read(p)
	if c.faults.reset && n > 0 {
		// Not before the first bytes: a reset at once may be seen as early as
		// the connect, and then it would be another fault.
		if tcp, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
			_ = tcp.SetLinger(0) // close with RST
		}
		c.Close()
		return 0, net.ErrClosed
	}
	if !c.read && n > 0 {
		c.read = true
		c.sniff(p[:n])
	}
	return n, err
}

// sniff looks for credentials in the clear on a connection that should be TLS;
// net/http answers such a request without ever showing it to a handler.
func (c *conn) sniff(first []byte) {
	if c.host.world.plain || first[0] == 0x16 { // a TLS handshake record
		return
	}
	text := strings.ToLower(string(first))
	if strings.Contains(text, "authorization:") || strings.Contains(text, "password=") {
		c.host.world.violation("%s got credentials in the clear", c.host.Name)
	}
}

// firstRecord is how much of the server's first flight a stalled handshake lets
// through: less than any ServerHello.
const firstRecord = 40

func (c *conn) Write(p []byte) (int, error) {
	if !c.faults.halfHandshake {
		return c.Conn.Write(p)
	}
	if !c.written {
		c.written = true
		if n, err := c.Conn.Write(p[:min(len(p), firstRecord)]); err != nil {
			return n, err
		}
	}
	return len(p), nil // lost on the way
}

func (c *conn) Close() error {
	c.host.mu.Lock()
	delete(c.host.conns, c)
	c.host.mu.Unlock()
	return c.Conn.Close()
}
