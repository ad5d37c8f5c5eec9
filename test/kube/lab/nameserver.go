package main

import (
	"net"
	"strings"

	"github.com/miekg/dns"
)

// zone holds the addresses of the names that a nameserver knows. What it does not
// know does not exist.
type zone map[string]net.IP

// serve answers over UDP and TCP until the program ends.
func (z zone) serve(ip string) error {
	at := net.JoinHostPort(ip, "53")
	pc, err := net.ListenPacket("udp", at)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		pc.Close()
		return err
	}
	for _, server := range []*dns.Server{{PacketConn: pc, Handler: z}, {Listener: l, Handler: z}} {
		go func() { _ = server.ActivateAndServe() }()
	}
	return nil
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
