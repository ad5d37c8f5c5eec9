//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/pullwalk/pullwalk/internal/lab"
)

// The addresses on the path.
var (
	nodeAddr     = netip.MustParseAddr("10.50.0.1")
	registryAddr = netip.MustParseAddr("10.50.0.2")
	tokenAddr    = netip.MustParseAddr("10.50.0.3")
	blobsAddr    = netip.MustParseAddr("10.50.0.4")
	dnsAddr      = netip.MustParseAddr("10.50.0.5")
	nearDNSAddr  = netip.MustParseAddr("127.0.0.1")
)

const httpsPort, dnsPort = 443, 53

// startRegistry puts a private registry with an image of so many layers behind
// the path.
func startRegistry(p *path, layers int) (*lab.World, error) {
	var contents [][]byte
	for i := range layers {
		content, err := archive(uint64(i))
		if err != nil {
			return nil, err
		}
		contents = append(contents, content)
	}
	w, err := lab.New(lab.Options{Layers: contents, Platforms: []string{"linux/amd64"}})
	if err != nil {
		return nil, err
	}
	p.atServers(func() {
		for _, h := range []struct {
			*lab.Host
			netip.Addr
		}{{w.Registry, registryAddr}, {w.Token, tokenAddr}, {w.Blobs, blobsAddr}} {
			var l net.Listener
			if l, err = net.Listen("tcp", netip.AddrPortFrom(h.Addr, httpsPort).String()); err != nil {
				return
			}
			h.Serve(l)
		}
	})
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// archive is a layer with one small file that no compression shortens.
func archive(seed uint64) ([]byte, error) {
	content := make([]byte, 20_000)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), 1}).Read(content)
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	if err := t.WriteHeader(&tar.Header{Name: fmt.Sprintf("file%d", seed), Mode: 0o644, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := t.Write(content); err != nil {
		return nil, err
	}
	err := t.Close()
	return out.Bytes(), err
}

// startNameserver serves the zone at addr, over UDP and TCP, in the namespace of
// the thread.
func startNameserver(addr netip.Addr) error {
	at := netip.AddrPortFrom(addr, dnsPort).String()
	pc, err := net.ListenPacket("udp", at)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	for _, server := range []*dns.Server{{PacketConn: pc}, {Listener: l}} {
		server.Handler = dns.HandlerFunc(answer)
		go func() { _ = server.ActivateAndServe() }()
	}
	return nil
}

func answer(w dns.ResponseWriter, query *dns.Msg) {
	reply := new(dns.Msg).SetReply(query)
	reply.Authoritative, reply.RecursionAvailable = true, true
	if len(query.Question) != 1 {
		return
	}
	q := query.Question[0]
	addr, known := map[string]netip.Addr{
		lab.RegistryName + ".": registryAddr, lab.TokenName + ".": tokenAddr, lab.BlobsName + ".": blobsAddr,
	}[q.Name]
	switch {
	case !known:
		reply.Rcode = dns.RcodeNameError
	case q.Qtype == dns.TypeA:
		reply.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: addr.AsSlice()}}
	}
	_ = w.WriteMsg(reply)
}
