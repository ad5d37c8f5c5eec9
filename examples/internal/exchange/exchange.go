// Package exchange makes one HTTP/1.1 exchange on a connection of its own.
//
// The agent client and the agent use it in the place of net/http's Transport, which
// writes what a server sends unasked into the program's log. It follows no redirect,
// asks no proxy, and keeps no connection.
package exchange

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Bounds of one exchange; the body is the caller's to bound.
const (
	maxHeader = 64 << 10
	setup     = 5 * time.Second // for connecting, and then for TLS
)

// Do sends req to the host of its URL and hands the answer to use. The body of the
// answer is read there and not closed. config is that of TLS, nil = in the clear.
// The end of ctx ends the exchange; the error is then its cause.
func Do(ctx context.Context, config *tls.Config, req *http.Request, use func(*http.Response) error) error {
	err := do(ctx, config, req, use)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func do(ctx context.Context, config *tls.Config, req *http.Request, use func(*http.Response) error) error {
	conn, err := (&net.Dialer{Timeout: setup}).DialContext(ctx, "tcp", req.URL.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if config != nil {
		secure := tls.Client(conn, config)
		handshake, cancel := context.WithTimeout(ctx, setup)
		err := secure.HandshakeContext(handshake)
		cancel()
		if err != nil {
			return err
		}
		conn = secure
	}
	req.Close = true
	sent := make(chan error, 1)
	go func() { sent <- req.Write(conn) }() // beside the answer: it may come early
	defer func() {
		conn.Close() // before waiting: nobody may read what is still sent
		<-sent
	}()
	header := &io.LimitedReader{R: conn, N: maxHeader}
	buffered := bufio.NewReader(header)
	resp, err := http.ReadResponse(buffered, req)
	if err != nil {
		if header.N == 0 {
			return fmt.Errorf("want a header of at most %d bytes", maxHeader)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return fmt.Errorf("want an answer, got the end of the connection: %w", err)
		}
		return err
	}
	header.N = 1 << 62
	return use(resp)
}
