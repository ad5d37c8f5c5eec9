package wire

import (
	"bufio"
	"net"
)

// readAhead is a connection that is read in large pieces.
type readAhead struct {
	net.Conn
	br *bufio.Reader
}

const readAheadSize = 128 << 10

// ReadAhead returns c, read in large pieces, for TLS to be spoken over. TLS reads
// record by record, at most 16 KiB and often in two calls; over a fast network
// those calls cost as much as the decryption.
func ReadAhead(c net.Conn) net.Conn {
	return &readAhead{Conn: c, br: bufio.NewReaderSize(c, readAheadSize)}
}

// Read reads what is buffered first.
func (c *readAhead) Read(p []byte) (int, error) { return c.br.Read(p) }

// NetConn returns what is read ahead of, as that of a TLS connection does.
func (c *readAhead) NetConn() net.Conn { return c.Conn }
