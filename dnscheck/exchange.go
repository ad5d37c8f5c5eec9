package dnscheck

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// ednsSize is the datagram size announced: what passes any path without fragments, and what
	// Go's resolver announces too.
	ednsSize = 1232
	// resendAfter is when an unanswered datagram is sent once more. The runtime does so after its
	// own timeout, 5 s by default, which would not fit into a check; an answer that merely takes
	// longer than this is still accepted.
	resendAfter = 2 * time.Second
	maxStray    = 16
)

// Network is the [Exchanger] that really asks over the network. The zero value is ready; it keeps
// no connection and no goroutine between calls.
//
// It asks for recursion, announces 1232 bytes (EDNS0, RFC 6891) and ignores datagrams that do not
// answer the question, as Go's resolver does: they may be forged, or belong to an earlier question.
type Network struct{}

// Exchange implements [Exchanger]. network is "udp" or "tcp". Without a deadline in ctx it waits as
// long as ctx lives.
func (Network) Exchange(ctx context.Context, server netip.AddrPort, network string, q Question) (Answer, error) {
	qtype, ok := dns.StringToType[q.Type]
	if !ok || qtype != dns.TypeA && qtype != dns.TypeAAAA && qtype != dns.TypeCNAME {
		return Answer{}, fmt.Errorf("dnscheck: want question type A, AAAA or CNAME, got %q", q.Type)
	}
	if network != "udp" && network != "tcp" {
		return Answer{}, fmt.Errorf("dnscheck: want network udp or tcp, got %q", network)
	}
	query := new(dns.Msg)
	query.SetQuestion(dns.Fqdn(q.Name), qtype) // sets a random id and RD
	query.SetEdns0(ednsSize, false)
	query.CheckingDisabled = q.CheckingDisabled
	packed, err := query.Pack()
	if err != nil {
		return Answer{}, fmt.Errorf("dnscheck: question for %q cannot be written: %w", q.Name, err)
	}

	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, server.String())
	if err != nil {
		return Answer{}, err
	}
	defer conn.Close()
	// The end of ctx is brought into a pending read by a deadline in the past.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	if network == "tcp" {
		return exchangeStream(conn, query, packed)
	}
	return exchangeDatagrams(ctx, conn, query, packed, func() *stray { return listenStray(server, query, packed) })
}

// exchangeDatagrams asks over a connected socket, as Go's resolver does: what comes from another
// address never reaches it. When nothing came, the question is sent once more, and by again also
// from a socket that receives from other addresses.
func exchangeDatagrams(ctx context.Context, conn net.Conn, query *dns.Msg, packed []byte, again func() *stray) (Answer, error) {
	buf := make([]byte, ednsSize)
	var seen Unmatched
	for try := 1; ; try++ {
		if _, err := conn.Write(packed); err != nil {
			return Answer{}, err
		}
		var deadline time.Time
		if try == 1 {
			deadline = time.Now().Add(resendAfter)
		}
		_ = conn.SetReadDeadline(deadline)
		// The end of ctx may have come before the line above and been overwritten.
		if err := ctx.Err(); err != nil {
			return Answer{}, err
		}
		var other *stray
		if try > 1 && again != nil {
			other = again()
		}
		reply, err := readMatching(conn, buf, query, &seen)
		if other != nil {
			other.close(&seen)
		}
		if try == 1 && errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			if seen.Count > 0 && !errors.Is(err, ErrMalformed) {
				err = &UnmatchedError{seen, err}
			}
			return Answer{}, err
		}
		a := readAnswer(reply, query.Question[0].Qtype)
		a.Tries = try
		if seen.Count > 0 {
			a.Unmatched = &seen
		}
		return a, nil
	}
}

// readMatching reads until a datagram answers query, or the read fails. One that answers it but
// cannot be read to its end is [ErrMalformed].
func readMatching(conn net.Conn, buf []byte, query *dns.Msg, seen *Unmatched) (*dns.Msg, error) {
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return nil, err
		}
		reply := new(dns.Msg)
		err = reply.Unpack(buf[:n])
		if !answers(reply, query) {
			seen.add(reply, err, query, netip.Addr{})
			continue
		}
		if err != nil && !reply.Truncated { // a cut message is cut on purpose
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		return reply, nil
	}
}

// add counts a datagram that does not answer query. err is that of reading it; from is zero unless
// another address sent it.
func (u *Unmatched) add(reply *dns.Msg, err error, query *dns.Msg, from netip.Addr) {
	u.Count++
	why, ours := "", false
	switch {
	case from.IsValid():
		why = "sent by another address than the one asked"
	case err != nil && reply.Id != query.Id:
		why = "no DNS message"
	case reply.Id != query.Id:
		why = "the id of another question"
	case !reply.Response:
		why = "a question in its turn"
	case len(reply.Question) == 0:
		why, ours = "the question is not repeated in it", true
	default:
		why = "it repeats another question"
	}
	if u.Why == "" || ours && u.RCode == "" {
		u.Why, u.From = why, from
	}
	if ours && u.RCode == "" && reply.Rcode != dns.RcodeSuccess {
		u.RCode = rcodeName(reply.Rcode)
	}
}

// stray is a socket that is not connected, and so receives answers from anybody.
type stray struct {
	conn  net.PacketConn
	done  chan struct{}
	first chan struct{} // closed when seen first holds something
	seen  Unmatched
}

// listenStray asks once more, from a socket of its own. nil = it could not.
func listenStray(server netip.AddrPort, query *dns.Msg, packed []byte) *stray {
	conn, err := net.ListenPacket("udp", ":0")
	if err != nil {
		return nil
	}
	if _, err := conn.WriteTo(packed, net.UDPAddrFromAddrPort(server)); err != nil {
		_ = conn.Close()
		return nil
	}
	s := &stray{conn: conn, done: make(chan struct{}), first: make(chan struct{})}
	go func() {
		defer close(s.done)
		buf := make([]byte, ednsSize)
		for s.seen.Count < maxStray {
			n, addr, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			udp, ok := addr.(*net.UDPAddr)
			reply := new(dns.Msg)
			err = reply.Unpack(buf[:n])
			// Only a real answer from elsewhere says something; the rest is noise that anybody
			// could send to an open port.
			from := netip.Addr{}
			if ok {
				from = udp.AddrPort().Addr().Unmap()
			}
			if err == nil && from.IsValid() && from.WithZone("") != server.Addr().Unmap().WithZone("") && answers(reply, query) {
				if s.seen.add(reply, nil, query, from); s.seen.Count == 1 {
					close(s.first)
				}
			}
		}
	}()
	return s
}

// close ends the listening and adds what came to seen.
func (s *stray) close(seen *Unmatched) {
	_ = s.conn.Close()
	<-s.done
	if s.seen.Count > 0 {
		if seen.Why == "" {
			seen.Why, seen.From = s.seen.Why, s.seen.From
		}
		seen.Count += s.seen.Count
	}
}

// exchangeStream frames the message with its length, RFC 1035 section 4.2.2.
func exchangeStream(conn net.Conn, query *dns.Msg, packed []byte) (Answer, error) {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)); err != nil {
		return Answer{}, err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return Answer{}, err
	}
	body := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, body); err != nil {
		return Answer{}, err
	}
	reply := new(dns.Msg)
	if err := reply.Unpack(body); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if !answers(reply, query) {
		return Answer{}, fmt.Errorf("%w: it answers another question", ErrMalformed)
	}
	return readAnswer(reply, query.Question[0].Qtype), nil
}

// answers reports whether reply is a response to query: same id, same question.
func answers(reply, query *dns.Msg) bool {
	if !reply.Response || reply.Id != query.Id || len(reply.Question) != 1 {
		return false
	}
	got, want := reply.Question[0], query.Question[0]
	return got.Qtype == want.Qtype && got.Qclass == want.Qclass && strings.EqualFold(got.Name, want.Name)
}

func readAnswer(m *dns.Msg, qtype uint16) Answer {
	a := Answer{
		RCode:         rcodeName(m.Rcode),
		Authoritative: m.Authoritative, Truncated: m.Truncated, RecursionAvailable: m.RecursionAvailable,
		Lame: m.Rcode == dns.RcodeSuccess && !m.Authoritative && !m.RecursionAvailable &&
			len(m.Answer) == 0 && len(m.Extra) == 0,
	}
	if opt := m.IsEdns0(); opt != nil {
		for _, option := range opt.Option {
			if e, ok := option.(*dns.EDNS0_EDE); ok && len(a.Extended) < maxExtended {
				a.Extended = append(a.Extended, ExtendedError{int(e.InfoCode), dns.ExtendedErrorCodeToString[e.InfoCode], e.ExtraText})
			}
		}
	}
	records := 0
	for _, rr := range m.Answer {
		h := rr.Header()
		switch rr := rr.(type) {
		case *dns.A:
			if addr, ok := netip.AddrFromSlice(rr.A.To4()); ok && qtype == dns.TypeA && len(a.Addresses) < maxAddresses {
				a.Addresses = append(a.Addresses, addr)
			}
		case *dns.AAAA:
			if addr, ok := netip.AddrFromSlice(rr.AAAA.To16()); ok && qtype == dns.TypeAAAA && len(a.Addresses) < maxAddresses {
				a.Addresses = append(a.Addresses, addr)
			}
		case *dns.CNAME:
			if len(a.CNAMEs) < maxCNAMEs {
				a.CNAMEs = append(a.CNAMEs, trimDot(rr.Target))
			}
		default:
			continue
		}
		if records == 0 || int(h.Ttl) < a.TTLSeconds {
			a.TTLSeconds = int(h.Ttl)
		}
		records++
	}
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok && len(a.Addresses) == 0 {
			a.SOA, a.SOASerial = trimDot(soa.Hdr.Name), int64(soa.Serial)
			a.NegativeTTLSeconds = int(min(soa.Hdr.Ttl, soa.Minttl)) // RFC 2308 section 5
			break
		}
	}
	return a
}

func rcodeName(code int) string {
	if name := dns.RcodeToString[code]; name != "" {
		return name
	}
	return fmt.Sprintf("RCODE%d", code)
}
