package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/pullwalk/pullwalk/classify"
)

// Question is one question to one nameserver.
type Question struct {
	// Name is the full name, with or without its trailing dot. Nothing is appended.
	Name string
	// Type is "A", "AAAA" or "CNAME".
	Type string
	// CheckingDisabled asks a validating resolver to answer even if its DNSSEC check
	// failed (CD, RFC 4035 section 3.2.2). No runtime sets it; here it tells a DNSSEC
	// fault from a dead forwarder.
	CheckingDisabled bool
}

// Answer is what a nameserver said. A rcode other than NOERROR is an Answer too.
type Answer struct {
	// RCode is the response code by name: "NOERROR", "NXDOMAIN", "SERVFAIL",
	// "REFUSED", … Empty is read as "NOERROR".
	RCode string `json:"rcode"`
	// Addresses are those of the type asked for, in the order of the answer, at most 64.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// CNAMEs is the CNAME chain in the order of the answer, at most 16 targets,
	// without trailing dot.
	CNAMEs []string `json:"cnames,omitempty"`
	// Authoritative is the server's own claim (AA).
	Authoritative bool `json:"authoritative,omitempty"`
	// Truncated says that the answer did not fit (TC): the rest needs TCP.
	Truncated bool `json:"truncated,omitempty"`
	// RecursionAvailable is the server's own claim (RA).
	RecursionAvailable bool `json:"recursionAvailable,omitempty"`
	// Lame marks a lame referral: no error, no record, neither authoritative nor
	// recursive. Go's resolver then asks the next nameserver.
	Lame bool `json:"lame,omitempty"`
	// TTLSeconds is the shortest lifetime among the records; 0 = none, or not to be
	// cached.
	TTLSeconds int `json:"ttlSeconds,omitempty"`
	// NegativeTTLSeconds is how long a cache may keep the denial (RFC 2308 section
	// 5); 0 = no denial, or not to be cached.
	NegativeTTLSeconds int `json:"negativeTtlSeconds,omitempty"`
	// SOA is the zone whose SOA record came with a denial, without trailing dot.
	// Empty = not said.
	SOA string `json:"soa,omitempty"`
	// SOASerial is the version of that zone.
	SOASerial int64 `json:"soaSerial,omitempty"`
	// Extended are the server's own reasons (RFC 8914), at most 4.
	Extended []ExtendedError `json:"extended,omitempty"`
	// Unmatched tells of datagrams before this answer that did not belong to the
	// question; nil = none came.
	Unmatched *Unmatched `json:"unmatched,omitempty"`
	// Tries is how many datagrams were sent; 0 or 1 = the first was answered.
	Tries int `json:"tries,omitempty"`
}

// ExtendedError is a reason that a server adds to an answer: RFC 8914.
type ExtendedError struct {
	// Code is the INFO-CODE.
	Code int `json:"code"`
	// Name is the registered meaning of Code; empty = not known here.
	Name string `json:"name,omitempty"`
	// Text is the server's own, bounded and redacted.
	Text string `json:"text,omitempty"`
}

// Unmatched are datagrams from a nameserver that do not answer the question. Go's
// resolver ignores each and waits on (dnsclient_unix.go, checkResponse; RFC 5452
// section 9), so that the runtime runs into its timeout.
type Unmatched struct {
	// Count is how many came.
	Count int `json:"count"`
	// Why says in what the first of them differs.
	Why string `json:"why"`
	// RCode is the response code of the first of them with the right ID; empty =
	// none had it. A refusal without the question repeated is still a refusal.
	RCode string `json:"rcode,omitempty"`
	// From is set when it came from another address than the one asked.
	From netip.Addr `json:"from,omitzero"`
}

// UnmatchedError is in the chain of an [Exchanger]'s error when the wait ended and
// only [Unmatched] datagrams had come.
type UnmatchedError struct {
	Unmatched
	Err error // what ended the wait
}

// Error says what came, and what ended the wait.
func (e *UnmatchedError) Error() string { return fmt.Sprintf("%s: %v", e.Unmatched.text(), e.Err) }

// Unwrap returns what ended the wait.
func (e *UnmatchedError) Unwrap() error { return e.Err }

func (u *Unmatched) text() string {
	what := u.Why
	if u.RCode != "" {
		what = u.RCode + ", " + what
	}
	if u.From.IsValid() {
		what += " from " + u.From.String()
	}
	if u.Count > 1 {
		return fmt.Sprintf("%d answers that do not match the question (%s)", u.Count, what)
	}
	return "an answer that does not match the question (" + what + ")"
}

// Exchanger asks one nameserver one question, once.
type Exchanger interface {
	// Exchange sends q to server over network, "udp" or "tcp", and returns the answer.
	// An error is a failure of the transport, with the net and syscall errors still
	// in its chain, or wraps [ErrMalformed]; a rcode is no error. It returns soon
	// after ctx ends. A truncated answer is returned as it is: the caller asks again
	// over TCP.
	Exchange(ctx context.Context, server netip.AddrPort, network string, q Question) (Answer, error)
}

// ExchangerFunc is a function as an [Exchanger].
type ExchangerFunc func(ctx context.Context, server netip.AddrPort, network string, q Question) (Answer, error)

// Exchange calls f.
func (f ExchangerFunc) Exchange(ctx context.Context, server netip.AddrPort, network string, q Question) (Answer, error) {
	return f(ctx, server, network, q)
}

// ErrMalformed is in the chain of an [Exchanger]'s error when the nameserver
// answered with something that is no readable DNS message.
var ErrMalformed = errors.New("dnscheck: answer cannot be read")

// The most that is kept of one answer. Real answers hold a handful; the rest would
// only be room for a hostile server.
const (
	maxAddresses = 64
	maxCNAMEs    = 16
	maxExtended  = 4
	maxNameText  = 255
	maxErrorText = 256
)

const (
	rcodeOK       = "NOERROR"
	rcodeNXDomain = "NXDOMAIN"
	rcodeRefused  = "REFUSED"
	rcodeServFail = "SERVFAIL"
)

// bounded returns a with nothing in it that a report may not hold, whatever
// Exchanger it came from, and only with addresses of the type asked for.
func (a Answer) bounded(qtype string) Answer {
	if a.RCode == "" {
		a.RCode = rcodeOK
	}
	a.RCode, a.SOA = classify.Redact(a.RCode, 32), classify.Redact(a.SOA, maxNameText)
	var addresses []netip.Addr
	for _, addr := range a.Addresses {
		// An IPv4 address in an AAAA record stays there, in the form that is dialled.
		is4 := addr.Is4()
		addr = addr.Unmap().WithZone("")
		if addr.IsValid() && is4 == (qtype == "A") && len(addresses) < maxAddresses {
			addresses = append(addresses, addr)
		}
	}
	var cnames []string
	for _, c := range a.CNAMEs[:min(len(a.CNAMEs), maxCNAMEs)] {
		cnames = append(cnames, classify.Redact(c, maxNameText))
	}
	var extended []ExtendedError
	for _, e := range a.Extended[:min(len(a.Extended), maxExtended)] {
		extended = append(extended, ExtendedError{e.Code, classify.Redact(e.Name, 64), classify.Redact(e.Text, maxErrorText)})
	}
	a.Addresses, a.CNAMEs, a.Extended = addresses, cnames, extended
	a.Unmatched = a.Unmatched.bounded()
	return a
}

func (u *Unmatched) bounded() *Unmatched {
	if u == nil {
		return nil
	}
	b := *u
	b.Why, b.RCode = classify.Redact(u.Why, maxErrorText), classify.Redact(u.RCode, 32)
	return &b
}
