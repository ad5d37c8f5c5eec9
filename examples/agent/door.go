package main

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// door bounds the connections of a listener and lets everybody in. Where there are
// too many, the oldest that shows no right to ask goes: of the same address, or of the
// address that has most. So who opens many keeps nobody out but himself.
type door struct {
	net.Listener
	most, each int // connections in all, and of one address

	mu     sync.Mutex
	guests []*guest // the oldest first
}

// guest is a connection that came through the door.
type guest struct {
	net.Conn
	door    *door
	from    netip.Addr
	welcome bool // it is being answered, and showed that it may ask
}

func (d *door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &guest{Conn: c, door: d}
	if from, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		g.from = from.Addr().Unmap()
	}
	d.mu.Lock()
	left := d.enter(g)
	d.mu.Unlock()
	if left != nil {
		left.Close()
	}
	return g, nil
}

// enter adds a guest and returns who has to go for it, nil = nobody.
func (d *door) enter(g *guest) (left *guest) {
	d.guests = append(d.guests, g)
	of := map[netip.Addr]int{}
	for _, other := range d.guests {
		of[other.from]++
	}
	from := g.from
	switch {
	case of[from] > d.each:
	case len(d.guests) > d.most:
		for _, other := range d.guests {
			if !other.welcome && of[other.from] > of[from] {
				from = other.from
			}
		}
	default:
		return nil
	}
	for _, other := range d.guests {
		if !other.welcome && other.from == from {
			return other
		}
	}
	return g
}

// Close ends the connection and makes room.
func (g *guest) Close() error {
	g.door.mu.Lock()
	for i, other := range g.door.guests {
		if other == g {
			g.door.guests = append(g.door.guests[:i:i], g.door.guests[i+1:]...)
			break
		}
	}
	g.door.mu.Unlock()
	return g.Conn.Close()
}

func (g *guest) be(welcome bool) {
	g.door.mu.Lock()
	g.welcome = welcome
	g.door.mu.Unlock()
}

// guestOf finds the guest below a TLS connection, nil = it came through no door.
func guestOf(c net.Conn) *guest {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	g, _ := c.(*guest)
	return g
}

type guestKey struct{}

// withGuest lets handlers find the guest of a request.
func withGuest(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, guestOf(c))
}

// received keeps the connection of a request that may be answered.
func received(r *http.Request) {
	if g, _ := r.Context().Value(guestKey{}).(*guest); g != nil {
		g.be(true)
	}
}

// rest makes a connection that waits for its next request one of many again.
func rest(c net.Conn, state http.ConnState) {
	if g := guestOf(c); g != nil && state == http.StateIdle {
		g.be(false)
	}
}
