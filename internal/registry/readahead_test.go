package registry

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sizedReads is a connection that notes how much each read asks for.
type sizedReads struct {
	net.Conn
	sizes  []int
	answer func(p []byte) (int, error)
	closed bool
}

func (c *sizedReads) Read(p []byte) (int, error) {
	c.sizes = append(c.sizes, len(p))
	return c.answer(p)
}

func (c *sizedReads) Close() error { c.closed = true; return nil }

func TestReadAhead(t *testing.T) {
	t.Parallel()
	below := &sizedReads{answer: func(p []byte) (int, error) {
		for i := range p {
			p[i] = 1
		}
		return len(p), nil
	}}
	c := ReadAhead(below)
	record := make([]byte, 8<<10)
	for range 1 + 4 + 16 + 16 {
		_, err := io.ReadFull(c, record)
		require.NoError(t, err)
	}
	assert.Equal(t, []int{8 << 10, 32 << 10, 128 << 10, 256 << 10}, below.sizes, "a download")
	newConn(c).drop()
	assert.True(t, below.closed, "dropping goes down to the transport")
}

func TestReadAheadOfShortAnswers(t *testing.T) {
	t.Parallel()
	below := &sizedReads{answer: func(p []byte) (int, error) { return copy(p, "answer"), nil }}
	c := ReadAhead(below)
	for range 100 {
		p := make([]byte, 4)
		n, err := c.Read(p)
		require.NoError(t, err)
		require.Equal(t, "answ", string(p[:n]))
		n, err = c.Read(p)
		require.NoError(t, err)
		require.Equal(t, "er", string(p[:n]))
	}
	assert.Len(t, below.sizes, 100)
	assert.EqualValues(t, 8<<10, below.sizes[99])
}

// What came with an error is read before it, and a deadline that has passed is not
// the end.
func TestReadAheadOfErrors(t *testing.T) {
	t.Parallel()
	answers := []func(p []byte) (int, error){
		func(p []byte) (int, error) { return copy(p, "ab"), os.ErrDeadlineExceeded },
		func(p []byte) (int, error) { return 0, os.ErrDeadlineExceeded },
		func(p []byte) (int, error) { return copy(p, "c"), nil },
		func(p []byte) (int, error) { return 0, io.EOF },
	}
	c := ReadAhead(&sizedReads{answer: func(p []byte) (int, error) {
		next := answers[0]
		answers = answers[1:]
		return next(p)
	}})
	var got string
	for {
		p := make([]byte, 1)
		n, err := c.Read(p)
		if errors.Is(err, io.EOF) {
			break
		}
		got += string(p[:n])
		if err != nil {
			require.Zero(t, n)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			got += "!"
		}
	}
	require.Equal(t, "ab!!c", got)
}
