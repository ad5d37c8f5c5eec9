package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/pullwalk/pullwalk/dnscheck"
)

const (
	zone    = "corp.test."
	zoneTTL = 60 // seconds
)

// nameserver serves the private zone over UDP and TCP on one loopback port.
type nameserver struct {
	addr     netip.AddrPort
	udp, tcp *dns.Server
}

func (w *World) startNameserver() (*nameserver, error) {
	pc, l, err := listenBoth()
	if err != nil {
		return nil, err
	}
	ns := &nameserver{
		addr: pc.LocalAddr().(*net.UDPAddr).AddrPort(),
		udp:  &dns.Server{PacketConn: pc},
		tcp:  &dns.Server{Listener: l},
	}
	for network, server := range map[string]*dns.Server{"udp": ns.udp, "tcp": ns.tcp} {
		server.Handler = dns.HandlerFunc(func(rw dns.ResponseWriter, q *dns.Msg) { w.serveDNS(rw, q, network) })
		// Shutdown before the server runs would leave it running: wait until it does.
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		w.wg.Go(func() { _ = server.ActivateAndServe() })
		<-started
	}
	return ns, nil
}

// listenBoth finds a port that is free for UDP and for TCP.
func listenBoth() (net.PacketConn, net.Listener, error) {
	var errs []error
	for range 20 {
		l, err := listenLoopback(0)
		if err != nil {
			return nil, nil, fmt.Errorf("lab: nameserver: %w", err)
		}
		pc, err := net.ListenPacket("udp", l.Addr().String())
		if err == nil {
			return pc, l, nil
		}
		l.Close()
		errs = append(errs, err)
	}
	return nil, nil, fmt.Errorf("lab: nameserver: no port is free for both UDP and TCP: %w", errors.Join(errs...))
}

func (ns *nameserver) close() {
	_ = ns.udp.Shutdown()
	_ = ns.tcp.Shutdown()
}

func (w *World) serveDNS(rw dns.ResponseWriter, query *dns.Msg, network string) {
	if len(query.Question) != 1 {
		return
	}
	q := query.Question[0]
	w.mu.Lock()
	w.queries = append(w.queries, network+" "+dns.TypeToString[q.Qtype]+" "+q.Name)
	faults, healed := w.faults, w.healed
	w.mu.Unlock()

	reply := new(dns.Msg).SetReply(query)
	reply.RecursionAvailable = true
	if opt := query.IsEdns0(); opt != nil {
		reply.SetEdns0(opt.UDPSize(), false)
	}
	switch {
	case faults.dns == dnsSilent:
		if network == "tcp" {
			<-healed.Done() // returning would let the server close the connection
		}
		return
	case faults.dns == dnsServFail:
		reply.Rcode = dns.RcodeServerFailure
	case faults.dns == dnsRefused:
		reply.Rcode = dns.RcodeRefused
	case faults.dns == dnsTruncated && network == "udp":
		reply.Truncated = true
	default:
		w.answerFromZone(reply, q, faults)
	}
	_ = rw.WriteMsg(reply)
}

// answerFromZone knows an A record for each host and denies all else in the way
// that caches understand (RFC 2308): no such name, or no such type for a name.
func (w *World) answerFromZone(reply *dns.Msg, q dns.Question, faults worldFaults) {
	reply.Authoritative = true
	name := strings.TrimSuffix(strings.ToLower(q.Name), ".")
	hosts := w.hosts()
	known := slices.ContainsFunc(hosts[:], func(h *Host) bool { return h.Name == name }) && !faults.noSuchName[name]
	if known && q.Qtype == dns.TypeA {
		reply.Answer = []dns.RR{&dns.A{
			Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: zoneTTL},
			A:   net.IPv4(127, 0, 0, 1),
		}}
		return
	}
	if !known {
		reply.Rcode = dns.RcodeNameError
	}
	reply.Ns = []dns.RR{&dns.SOA{
		Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: zoneTTL},
		Ns:  "ns." + zone, Mbox: "hostmaster." + zone,
		Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: zoneTTL,
	}}
}

// Nameserver is where the world's nameserver really listens, UDP and TCP; zero
// before Start and after Close.
func (w *World) Nameserver() netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nameserver == nil {
		return netip.AddrPort{}
	}
	return w.nameserver.addr
}

// Exchanger asks the world's nameserver whatever is meant for 127.0.0.1:53, the
// nameserver that FS names, over real UDP and TCP. There is no other
// nameserver: an address apart from that one is an error.
func (w *World) Exchanger() dnscheck.Exchanger {
	configured := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 53)
	return dnscheck.ExchangerFunc(func(ctx context.Context, server netip.AddrPort, network string, q dnscheck.Question) (dnscheck.Answer, error) {
		real := w.Nameserver()
		if server != configured || !real.IsValid() {
			return dnscheck.Answer{}, &net.OpError{
				Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(server),
				Err: errors.New("lab: no nameserver at this address"),
			}
		}
		return dnscheck.Network{}.Exchange(ctx, real, network, q)
	})
}
