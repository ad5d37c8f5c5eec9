package main

import (
	"net"
	"strings"

	"github.com/miekg/dns"
)

// zone holds the addresses of the names that a nameserver knows. What it does not
// know does not exist.
type zone map[string]net.IP

// nameserver serves a zone over UDP and TCP.
type nameserver [2]*dns.Server

func (z zone) serve(ip string) (nameserver, error) {
	at := net.JoinHostPort(ip, "53")
	pc, err := net.ListenPacket("udp", at)
	if err != nil {
		return nameserver{}, err
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		pc.Close()
		return nameserver{}, err
	}
	ns := nameserver{{PacketConn: pc, Handler: z}, {Listener: l, Handler: z}}
	for _, server := range ns {
		go func() { _ = server.ActivateAndServe() }() // ends with its socket
	}
	return ns, nil
}

func (ns nameserver) close() {
	for _, server := range ns {
		_ = server.Shutdown()
	}
}

// ServeDNS answers for good: an address, no such type, no such name.
func (z zone) ServeDNS(rw dns.ResponseWriter, query *dns.Msg) {
	if len(query.Question) != 1 {
		return
	}
	q := query.Question[0]
	reply := new(dns.Msg).SetReply(query)
	reply.RecursionAvailable = true
	header := func(name string, kind uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: 5}
	}
	ip, known := z[strings.TrimSuffix(strings.ToLower(q.Name), ".")]
	if known && q.Qtype == dns.TypeA {
		reply.Answer = []dns.RR{&dns.A{Hdr: header(q.Name, dns.TypeA), A: ip}}
	} else {
		// With this a resolver knows how long to believe it (RFC 2308).
		reply.Ns = []dns.RR{&dns.SOA{Hdr: header("test.", dns.TypeSOA), Ns: "ns.test.", Mbox: "hostmaster.test.", Serial: 1, Refresh: 60, Retry: 60, Expire: 60, Minttl: 5}}
	}
	if !known {
		reply.Rcode = dns.RcodeNameError
	}
	_ = rw.WriteMsg(reply)
}
