// Package simnet is a network in memory for tests in [testing/synctest]
// bubbles: addresses with listeners, routes, nameservers and faults. What waits
// there waits on channels and timers only, so a bubble's clock runs on and
// thirty silent seconds take no time at all; and errors are those of a Linux
// kernel behind package net, so code under test needs no branch for tests.
//
// Build a [Net] inside the bubble, give it routes, listeners and zones, and end
// it with [Net.Close] before the bubble ends:
//
//	synctest.Test(t, func(t *testing.T) {
//		n := simnet.New()
//		defer n.Close()
//		n.Route(netip.MustParsePrefix("10.0.0.0/8"), reach.Route{Interface: "eth0"})
//		l := n.Listen(netip.MustParseAddrPort("10.20.0.4:443"))
//		...
//	})
//
// An address is a host if something was ever set at it: a listener, a zone or a
// fault. A host refuses at ports where nobody listens; elsewhere packets are
// lost.
//
// There are no packets: nothing is retransmitted, reordered or too large for a
// link (the MTU of a route is only told), and a silent connect ends with its
// context, while a kernel gives up by itself after about two minutes.
package simnet

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Net is one network as a single node sees it. Make it with [New], inside the
// bubble. Its methods may be called at any time by any goroutine.
type Net struct {
	done chan struct{} // closed by Close

	mu          sync.Mutex
	closed      bool
	routes      []route
	hosts       map[netip.Addr]bool
	listeners   map[netip.AddrPort]*listener
	zones       map[netip.AddrPort]*Nameserver
	faults      map[netip.AddrPort]fault
	delays      map[netip.AddrPort]time.Duration
	nameservers []netip.AddrPort
	conns       map[*Conn]bool // both ends, until closed
	lastPort    uint16
	dials       []Dial
	questions   []Question
}

// New returns a network without hosts and without routes.
func New() *Net {
	return &Net{
		done:      make(chan struct{}),
		hosts:     map[netip.Addr]bool{},
		listeners: map[netip.AddrPort]*listener{},
		zones:     map[netip.AddrPort]*Nameserver{},
		faults:    map[netip.AddrPort]fault{},
		delays:    map[netip.AddrPort]time.Duration{},
		conns:     map[*Conn]bool{},
	}
}

// Listen opens an address for connections. It panics when that cannot be what
// the test means: no port, or an address that is taken.
func (n *Net) Listen(ap netip.AddrPort) net.Listener {
	ap = unmap(ap)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		panic("simnet: Listen after Close")
	case !ap.IsValid() || ap.Port() == 0:
		panic(fmt.Sprintf("simnet: Listen(%v) needs an address and a port", ap))
	case n.listeners[ap] != nil:
		panic(fmt.Sprintf("simnet: Listen(%v): the address is in use", ap))
	}
	l := newListener(n, ap)
	n.hosts[ap.Addr()] = true
	n.listeners[ap] = l
	return l
}

// Close closes every listener and both ends of every connection, and ends every
// dial and question that waits, with [net.ErrClosed]. The network starts no
// goroutine of its own, so none is left once those that used it have returned.
func (n *Net) Close() {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return
	}
	n.closed = true
	close(n.done)
	var listeners []*listener
	for _, l := range n.listeners {
		listeners = append(listeners, l)
	}
	var conns []*Conn
	for c := range n.conns {
		conns = append(conns, c)
	}
	n.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	for _, c := range conns {
		c.Close()
	}
}

func (n *Net) forgetListener(l *listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.listeners, l.addr)
}

// list keeps an end for Close; false = the network is closed already.
func (n *Net) list(c *Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	c.forget = n.forgetConn
	n.conns[c] = true
	return true
}

func (n *Net) forgetConn(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

func unmap(ap netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
