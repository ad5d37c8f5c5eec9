package wire

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type countedReads struct {
	net.Conn
	reads  int
	closed bool
}

func (c *countedReads) Read(p []byte) (int, error) {
	c.reads++
	for i := range p {
		p[i] = 1
	}
	return len(p), nil
}

func (c *countedReads) Close() error { c.closed = true; return nil }

func TestReadAhead(t *testing.T) {
	t.Parallel()
	below := &countedReads{}
	c := ReadAhead(below)
	for range 8 { // records of TLS
		_, err := io.ReadFull(c, make([]byte, 16<<10))
		require.NoError(t, err)
	}
	assert.Equal(t, 1, below.reads)
	newConn(c).drop()
	assert.True(t, below.closed, "dropping goes down to the transport")
}
