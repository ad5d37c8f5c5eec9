package lab

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
)

// SOCKS is a SOCKS 5 proxy for host names (RFC 1928), with a login if User is set
// (RFC 1929).
type SOCKS struct {
	User, Password string
	// Dial opens what a client asks for, by name and port.
	Dial func(ctx context.Context, hostPort string) (net.Conn, error)
	// Refuse is the reply to every request instead; 0 = none. When Dial fails, the
	// reply is 4, host unreachable.
	Refuse byte
}

// Serve serves one client until either side is done, and closes its connection.
func (s SOCKS) Serve(ctx context.Context, c net.Conn) {
	defer c.Close()
	target, ok := s.greet(c)
	if !ok {
		return
	}
	reply := func(code byte) { _, _ = c.Write([]byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0}) }
	if s.Refuse != 0 {
		reply(s.Refuse)
		return
	}
	up, err := s.Dial(ctx, target)
	if err != nil {
		reply(4)
		return
	}
	defer up.Close()
	reply(0)
	var both sync.WaitGroup
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
		_ = from.Close()
	}
	both.Go(func() { pipe(up, c) })
	both.Go(func() { pipe(c, up) })
	both.Wait()
}

// greet reads up to the name that is asked for.
func (s SOCKS) greet(c net.Conn) (target string, ok bool) {
	var err error
	read := func(n byte) []byte {
		b := make([]byte, n)
		if err == nil {
			_, err = io.ReadFull(c, b)
		}
		return b
	}
	say := func(b ...byte) { _, _ = c.Write(b) }
	knows := false
	for _, method := range read(read(2)[1]) {
		knows = knows || method == 2
	}
	switch {
	case s.User == "":
		say(5, 0)
	case !knows:
		say(5, 0xff)
		return "", false
	default:
		say(5, 2)
		user := string(read(read(2)[1]))
		if password := string(read(read(1)[0])); user != s.User || password != s.Password {
			say(1, 1)
			return "", false
		}
		say(1, 0)
	}
	ask := read(4)
	if err != nil || ask[1] != 1 || ask[3] != 3 {
		return "", false
	}
	name := read(read(1)[0])
	port := read(2)
	return net.JoinHostPort(string(name), strconv.Itoa(int(port[0])<<8|int(port[1]))), err == nil
}
