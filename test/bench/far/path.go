//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// path is the way between the node's network namespace and that of the servers:
// a TUN device at each end, and this program carrying every packet from one to the
// other, each as late as half a round trip. It is below TCP, so that what sets
// out on it pays for all that a far host costs: the handshake of TCP, a name
// asked for over UDP, a connection that is opened for nothing but to see that it
// opens. What it does not model is width: any number of packets travel at once.
type path struct {
	oneWay time.Duration
	inside chan func() // runs in the servers' namespace

	mu     sync.Mutex
	flows  map[flow]bool // whether the last payload was the node's
	record *record
}

type flow struct{ node, server netip.AddrPort }

// record is what passed the node's end of the path during one pull.
type record struct {
	first   time.Time                // packet of all
	answer  map[netip.Addr]time.Time // beginning of the last answer of each server
	opened  map[netip.Addr]int       // connections
	turns   map[netip.Addr]int       // payload of the server behind payload of the node
	queries int                      // to the nameserver, over UDP
}

const prefixBits = 24

// newPath is called in the node's namespace. The servers' namespace lasts as long
// as the process.
func newPath(node netip.Addr, servers []netip.Addr, roundTrip time.Duration) (*path, error) {
	p := &path{oneWay: roundTrip / 2, inside: make(chan func()), flows: map[flow]bool{}, record: newRecord()}
	near, err := openTUN("far0", node)
	if err != nil {
		return nil, err
	}
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the namespace
		err := unix.Unshare(unix.CLONE_NEWNET)
		entered <- err
		for err == nil {
			(<-p.inside)()
		}
	}()
	if err := <-entered; err != nil {
		return nil, fmt.Errorf("a network namespace for the servers: %w", err)
	}
	var distant *os.File
	p.atServers(func() { distant, err = openTUN("far0", servers...) })
	if err != nil {
		return nil, err
	}
	go p.carry(near, distant, p.sent, nil)
	go p.carry(distant, near, nil, p.arrived)
	return p, nil
}

// atServers runs do in the servers' network namespace: what it opens stays there.
func (p *path) atServers(do func()) {
	done := make(chan struct{})
	p.inside <- func() { defer close(done); do() }
	<-done
}

// openTUN makes a device with these addresses in the namespace of the thread.
func openTUN(name string, addrs ...netip.Addr) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("a TUN device: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(prefixBits, 32)}}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return nil, fmt.Errorf("address %v: %w", a, err)
		}
	}
	return f, netlink.LinkSetUp(link)
}

// carry brings every packet over, in their order. It ends with its devices.
func (p *path) carry(from, to *os.File, leaves, arrives func(packet []byte)) {
	type late struct {
		packet []byte
		due    time.Time
	}
	way := make(chan late, 1<<14)
	go func() {
		for l := range way {
			time.Sleep(time.Until(l.due))
			if arrives != nil {
				arrives(l.packet)
			}
			_, _ = to.Write(l.packet) // a packet that cannot be delivered is lost
		}
	}()
	defer close(way)
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		packet := append([]byte(nil), buf[:n]...)
		if leaves != nil {
			leaves(packet)
		}
		way <- late{packet, time.Now().Add(p.oneWay)}
	}
}

func newRecord() *record {
	return &record{answer: map[netip.Addr]time.Time{}, opened: map[netip.Addr]int{}, turns: map[netip.Addr]int{}}
}

// recorded returns what was seen since the last call.
func (p *path) recorded() *record {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record
	p.record = newRecord()
	return r
}

func (p *path) sent(packet []byte) {
	s, ok := parse(packet)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.record.first.IsZero() {
		p.record.first = time.Now()
	}
	switch {
	case s.udp:
		p.record.queries++
	case s.syn:
		p.record.opened[s.to.Addr()]++
	case s.payload > 0:
		p.flows[flow{s.from, s.to}] = true
	}
}

func (p *path) arrived(packet []byte) {
	s, ok := parse(packet)
	if !ok || s.udp || s.payload == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := flow{s.to, s.from}
	if asked := p.flows[f]; !asked {
		return
	}
	p.flows[f] = false
	p.record.turns[s.from.Addr()]++
	p.record.answer[s.from.Addr()] = time.Now()
}

// segment is what is looked at of a packet.
type segment struct {
	from, to netip.AddrPort
	udp, syn bool
	payload  int
}

// parse reads IPv4 with TCP or UDP (RFC 791, 9293, 768).
func parse(packet []byte) (s segment, ok bool) {
	const tcp, udp = 6, 17
	if len(packet) < 20 || packet[0]>>4 != 4 {
		return s, false
	}
	header := int(packet[0]&15) * 4
	total := int(binary.BigEndian.Uint16(packet[2:]))
	if header < 20 || total > len(packet) || total < header+8 {
		return s, false
	}
	body := packet[header:total]
	at := func(addr, port []byte) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(addr)), binary.BigEndian.Uint16(port))
	}
	s.from, s.to = at(packet[12:16], body[0:]), at(packet[16:20], body[2:])
	switch packet[9] {
	case udp:
		s.udp = true
		return s, true
	case tcp:
		if len(body) < 20 {
			return s, false
		}
		s.syn = body[13]&2 != 0
		s.payload = len(body) - int(body[12]>>4)*4
		return s, true
	}
	return s, false
}
