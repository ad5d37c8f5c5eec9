package endpoints

import (
	"bufio"
	"net"
)

// readAhead is a connection that is read in large pieces. TLS reads record by
// record, at most 16 KiB and often in two calls; over a fast network those calls
// cost as much as the decryption.
type readAhead struct {
	net.Conn
	br *bufio.Reader
}

const readAheadSize = 128 << 10

func newReadAhead(c net.Conn) net.Conn {
	return &readAhead{Conn: c, br: bufio.NewReaderSize(c, readAheadSize)}
}

// Read reads what is buffered first.
func (c *readAhead) Read(p []byte) (int, error) { return c.br.Read(p) }
