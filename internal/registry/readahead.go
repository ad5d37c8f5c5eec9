package registry

import "net"

// readAhead is a connection that is read in large pieces.
type readAhead struct {
	net.Conn
	buffer []byte
	rest   []byte // of what was read
	full   bool   // the last read filled the buffer
	err    error  // came with it
}

// A handshake and an answer fit into the first buffer. Only what keeps filling its buffer,
// a download, gets the largest: many diagnoses at once have many connections.
const (
	readAheadFirst = 8 << 10
	readAheadMost  = 256 << 10
)

// ReadAhead returns c, read in large pieces, for TLS to be spoken over. TLS reads record by
// record, at most 16 KiB and often in two calls; over a fast network those calls cost as
// much as the decryption.
func ReadAhead(c net.Conn) net.Conn { return &readAhead{Conn: c} }

// Read reads what is buffered first.
func (c *readAhead) Read(p []byte) (int, error) {
	if len(c.rest) == 0 && c.err == nil {
		c.fill()
	}
	if len(c.rest) == 0 {
		err := c.err
		c.err = nil // a deadline may be moved
		return 0, err
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *readAhead) fill() {
	if size := max(readAheadFirst, min(4*len(c.buffer), readAheadMost)); c.buffer == nil || c.full && size > len(c.buffer) {
		c.buffer = make([]byte, size)
	}
	n, err := c.Conn.Read(c.buffer)
	c.rest, c.full, c.err = c.buffer[:n], n == len(c.buffer), err
}

// NetConn returns what is read ahead of, as that of a TLS connection does.
func (c *readAhead) NetConn() net.Conn { return c.Conn }
