package dnscheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// played is a connection on which only what was recorded comes back: whole
// datagrams, or a stream.
type played struct {
	net.Conn
	datagrams [][]byte
	stream    *bytes.Reader
	closed    bool
}

func (p *played) Write(b []byte) (int, error)     { return len(b), nil }
func (p *played) SetReadDeadline(time.Time) error { return nil }
func (p *played) Close() error                    { p.closed = true; return nil }

func (p *played) Read(b []byte) (int, error) {
	if p.stream != nil {
		return p.stream.Read(b)
	}
	if len(p.datagrams) == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(b, p.datagrams[0])
	p.datagrams = p.datagrams[1:]
	return n, nil
}

func question(t testing.TB, qtype uint16) (*dns.Msg, []byte) {
	t.Helper()
	q := new(dns.Msg).SetQuestion("registry.corp.test.", qtype)
	q.Id = 0x1234
	packed, err := q.Pack()
	require.NoError(t, err)
	return q, packed
}

func framed(b []byte) *bytes.Reader {
	return bytes.NewReader(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
}

// Answers that no honest server sends.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	q, packed := question(t, dns.TypeA)
	head := func(change func(*dns.Msg)) []byte {
		m := new(dns.Msg).SetReply(q)
		change(m)
		b, err := m.Pack()
		require.NoError(t, err)
		return b
	}
	pointerLoop := append(head(func(*dns.Msg) {}), 0xc0, 37, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 20, 0, 9)
	pointerLoop[7] = 1                                            // one answer, whose name points at itself
	pointerLoop[36], pointerLoop[37] = byte(0xc0|36>>8), byte(36) // at its own place
	for _, tt := range []struct {
		name     string
		datagram []byte
		why      string // of Unmatched; "" = ErrMalformed
		rcode    string
	}{
		{name: "noise", datagram: []byte("noise"), why: "no DNS message"},
		{name: "empty", datagram: []byte{}, why: "no DNS message"},
		{name: "wrong id", datagram: head(func(m *dns.Msg) { m.Id++ }), why: "the id of another question"},
		{name: "another name", datagram: head(func(m *dns.Msg) { m.Question[0].Name = "other.test." }), why: "it repeats another question"},
		{name: "another type", datagram: head(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }), why: "it repeats another question"},
		{name: "a question", datagram: head(func(m *dns.Msg) { m.Response = false }), why: "a question in its turn"},
		{name: "refusal without the question", datagram: head(func(m *dns.Msg) { m.Question = nil; m.Rcode = dns.RcodeRefused }), why: "the question is not repeated in it", rcode: "REFUSED"},
		{name: "compression loop", datagram: pointerLoop},
		{name: "cut in a record", datagram: head(func(m *dns.Msg) {
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "registry.corp.test.", Rrtype: dns.TypeA, Class: 1, Ttl: 60}, A: net.IPv4(10, 20, 0, 9)}}
		})[:44]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := exchangeDatagrams(t.Context(), &played{datagrams: [][]byte{tt.datagram}}, q, packed, nil)
			require.Error(t, err)
			var u *UnmatchedError
			if tt.why == "" {
				assert.ErrorIs(t, err, ErrMalformed)
				return
			}
			require.ErrorAs(t, err, &u)
			assert.Equal(t, tt.why, u.Why)
			assert.Equal(t, tt.rcode, u.RCode)
			assert.ErrorIs(t, err, os.ErrDeadlineExceeded, "the wait ended without an answer")
		})
	}

	t.Run("64 KiB over TCP", func(t *testing.T) {
		t.Parallel()
		m := new(dns.Msg).SetReply(q)
		m.Compress = true
		for i := range 4000 {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: "registry.corp.test.", Rrtype: dns.TypeA, Class: 1, Ttl: 60}, A: net.IPv4(10, 20, byte(i>>8), byte(i))})
		}
		b, err := m.Pack()
		require.NoError(t, err)
		require.Greater(t, len(b), 62<<10)
		a, err := exchangeStream(&played{stream: framed(b)}, q, packed)
		require.NoError(t, err)
		assert.Len(t, a.Addresses, maxAddresses)
	})
	t.Run("a length that is never sent", func(t *testing.T) {
		t.Parallel()
		_, err := exchangeStream(&played{stream: bytes.NewReader([]byte{0xff, 0xff, 1, 2, 3})}, q, packed)
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
	t.Run("extended errors", func(t *testing.T) {
		t.Parallel()
		m := new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
		m.SetEdns0(1232, false)
		for range 9 {
			m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeDNSBogus, ExtraText: strings.Repeat("x", 400)})
		}
		b, err := m.Pack()
		require.NoError(t, err)
		a, err := exchangeStream(&played{stream: framed(b)}, q, packed)
		require.NoError(t, err)
		a = a.bounded("A")
		require.Len(t, a.Extended, maxExtended)
		assert.Equal(t, 6, a.Extended[0].Code)
		assert.LessOrEqual(t, len(a.Extended[0].Text), maxErrorText)
	})
}

// An answer from another address than the one asked never reaches a connected
// socket, and is named all the same.
func TestAnswerFromAnotherAddress(t *testing.T) {
	t.Parallel()
	asked, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer asked.Close()
	other, err := net.ListenPacket("udp", "127.0.0.2:0")
	if err != nil {
		t.Skip("this system has one loopback address only: ", err)
	}
	defer other.Close()
	q, packed := question(t, dns.TypeA)
	go func() {
		buf := make([]byte, 512)
		for {
			_, from, err := asked.ReadFrom(buf)
			if err != nil {
				return
			}
			reply, _ := new(dns.Msg).SetReply(q).Pack()
			_, _ = other.WriteTo(reply, from)
		}
	}()
	s := listenStray(asked.LocalAddr().(*net.UDPAddr).AddrPort(), q, packed)
	require.NotNil(t, s)
	require.NoError(t, s.conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	select {
	case <-s.first:
	case <-s.done:
	}
	var seen Unmatched
	s.close(&seen)
	assert.Equal(t, 1, seen.Count)
	assert.Equal(t, netip.MustParseAddr("127.0.0.2"), seen.From)
	assert.Contains(t, seen.text(), "sent by another address than the one asked from 127.0.0.2")
}

func FuzzDatagram(f *testing.F) {
	q, packed := question(f, dns.TypeA)
	good := new(dns.Msg).SetReply(q)
	good.Answer = []dns.RR{
		&dns.CNAME{Hdr: dns.RR_Header{Name: "registry.corp.test.", Rrtype: dns.TypeCNAME, Class: 1}, Target: "a.test."},
		&dns.A{Hdr: dns.RR_Header{Name: "a.test.", Rrtype: dns.TypeA, Class: 1}, A: net.IPv4(10, 20, 0, 9)},
	}
	good.SetEdns0(1232, false)
	good.IsEdns0().Option = append(good.IsEdns0().Option, &dns.EDNS0_EDE{InfoCode: 3, ExtraText: "stale"})
	b, err := good.Pack()
	require.NoError(f, err)
	f.Add(b, []byte{})
	f.Add([]byte("noise"), b)
	f.Add(bytes.Repeat([]byte{0xc0, 0x0c}, 600), b)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for _, d := range [][]byte{first, second} {
			if len(d) > 2 {
				binary.BigEndian.PutUint16(d, q.Id)
			}
		}
		a, err := exchangeDatagrams(t.Context(), &played{datagrams: [][]byte{first, second}}, q, packed, nil)
		check(t, a, err)
		a, err = exchangeStream(&played{stream: framed(first)}, q, packed)
		check(t, a, err)
	})
}

func check(t *testing.T, a Answer, err error) {
	t.Helper()
	if err != nil {
		if !errors.Is(err, ErrMalformed) && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			t.Fatalf("error of no kind: %v", err)
		}
		return
	}
	a = a.bounded("A")
	if len(a.Addresses) > maxAddresses || len(a.CNAMEs) > maxCNAMEs || len(a.Extended) > maxExtended || a.RCode == "" {
		t.Fatalf("not bounded: %+v", a)
	}
	for _, addr := range a.Addresses {
		if !addr.Is4() {
			t.Fatalf("%v for A", addr)
		}
	}
}
