package simnet

import (
	"net/netip"
	"time"
)

// A fault stands at an address, listener or not, and concerns what is dialled
// from then on; the last one set counts. Port 0 stands for every port of the
// address, and a fault of the exact port goes before it. Silent, Refuse and
// Unreachable hold for questions to a nameserver at that address as well; Delay
// too; the others are about TCP connections and leave questions alone.
type faultKind int

const (
	noFault faultKind = iota
	silent
	refuse
	unreachable
	reset
	mute
	hang
	cut
	hole
)

type fault struct {
	kind  faultKind
	bytes int
	up    bool // towards the server
	whole bool // whatever the segments
}

// Silent drops every packet: a dial waits until its context ends.
func (n *Net) Silent(ap netip.AddrPort) { n.setFault(ap, fault{kind: silent}) }

// Refuse answers with a reset: ECONNREFUSED, although somebody may listen.
func (n *Net) Refuse(ap netip.AddrPort) { n.setFault(ap, fault{kind: refuse}) }

// Unreachable lets a router on the way answer that the host cannot be reached:
// EHOSTUNREACH.
func (n *Net) Unreachable(ap netip.AddrPort) { n.setFault(ap, fault{kind: unreachable}) }

// Reset accepts, and answers the first bytes, or the first read if none were
// written, with a reset: ECONNRESET on the first read. A listener sees nothing.
func (n *Net) Reset(ap netip.AddrPort) { n.setFault(ap, fault{kind: reset}) }

// Mute accepts, takes every byte and never answers. A listener sees nothing.
func (n *Net) Mute(ap netip.AddrPort) { n.setFault(ap, fault{kind: mute}) }

// HangAfter lets the first bytes of each connection from the server through;
// what follows, the end of the stream included, never arrives. The bytes of a
// TLS handshake count.
func (n *Net) HangAfter(ap netip.AddrPort, bytes int) {
	n.setFault(ap, fault{kind: hang, bytes: bytes})
}

// CutAfter ends each connection in both directions as soon as so many bytes
// from the server went through; with 0 at once after connecting. The bytes of a
// TLS handshake count.
func (n *Net) CutAfter(ap netip.AddrPort, bytes int) {
	n.setFault(ap, fault{kind: cut, bytes: bytes})
}

// HoleUp loses every segment of more than so many bytes on its way to the server,
// and HoleDown on its way from it, again however often it is sent: the rest of the
// stream never arrives. Segments have 1460 bytes, or what [Net.Dialer] was told to
// clamp them to.
func (n *Net) HoleUp(ap netip.AddrPort, bytes int) {
	n.setFault(ap, fault{kind: hole, bytes: bytes, up: true})
}

// DropLarge is HoleUp for every write of more than so many bytes, in however small
// segments it comes: a middlebox that takes no hello it cannot see whole.
func (n *Net) DropLarge(ap netip.AddrPort, bytes int) {
	n.setFault(ap, fault{kind: hole, bytes: bytes, up: true, whole: true})
}

// HoleDown: see HoleUp.
func (n *Net) HoleDown(ap netip.AddrPort, bytes int) { n.setFault(ap, fault{kind: hole, bytes: bytes}) }

// Heal takes the fault at exactly this address, or address and port, away. The
// delay stays.
func (n *Net) Heal(ap netip.AddrPort) { n.setFault(ap, fault{}) }

// Delay is the latency of one way: connecting takes twice as long, and so does
// the answer to the first byte. What is on its way counts for the window, so a
// long latency is a slow connection: 64 KiB in each such time. It is kept apart
// from the faults, so an address can have both.
func (n *Net) Delay(ap netip.AddrPort, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delays[unmap(ap)] = d
}

func (n *Net) setFault(ap netip.AddrPort, f fault) {
	ap = unmap(ap)
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.kind == noFault {
		delete(n.faults, ap)
		return
	}
	n.hosts[ap.Addr()] = true
	n.faults[ap] = f
}

// faultAt returns what stands at an address, and the latency to it.
func (n *Net) faultAt(ap netip.AddrPort) (fault, time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := netip.AddrPortFrom(ap.Addr(), 0)
	f, ok := n.faults[ap]
	if !ok {
		f = n.faults[all]
	}
	d, ok := n.delays[ap]
	if !ok {
		d = n.delays[all]
	}
	return f, d
}
