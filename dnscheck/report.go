package dnscheck

import (
	"net/netip"
	"slices"

	"github.com/pullwalk/pullwalk/classify"
)

// Report is what one lookup on this node comes to.
type Report struct {
	// Name is the name as it was given.
	Name string `json:"name"`
	// Literal says that the name is an IP address. Nothing was read or asked.
	Literal bool `json:"literal,omitempty"`
	// Settings is what the node's files say.
	Settings Settings `json:"settings"`
	// Hosts are the lines of the hosts file that hold the name, at most 64, whether or not the
	// runtime uses them.
	Hosts []HostsEntry `json:"hosts,omitempty"`
	// Asked is the full name that Servers were asked for: the one that gave the addresses,
	// otherwise the name as it stands. Empty = nothing was asked.
	Asked string `json:"asked,omitempty"`
	// Servers are the nameservers in the order of the file.
	Servers []ServerReport `json:"servers,omitempty"`
	// Also are the other full names that were asked for, in order: the name as it stands, or with
	// suffixes of the search list.
	Also []NameReport `json:"also,omitempty"`
	// Behind is what the upstreams of a local stub say of the name as it stands, see
	// [Settings.Behind]. The runtime never asks them.
	Behind []ServerReport `json:"behind,omitempty"`
	// Platform is what Azure's platform resolver says of the name; nil = not asked. It is asked
	// when a private-link name of Azure's does not come out private, and none of the nameservers is
	// that resolver. It tells a missing forwarder from a zone that is not linked.
	Platform *ServerReport `json:"platform,omitempty"`
	// Chain is the CNAME chain, followed link by link after SERVFAIL, at most 16. Empty = not
	// followed, or there is none.
	Chain []string `json:"chain,omitempty"`
	// Wildcard is set when the search domain that answered would answer any name.
	Wildcard *Wildcard `json:"wildcard,omitempty"`
	// CLibrary is what a runtime gets that looks names up through the C library; nil = the same at
	// the same time, or not all was seen.
	CLibrary *CLibrary `json:"cLibrary,omitempty"`
	// Hints is general knowledge about names and addresses in this report, at most 8.
	Hints []Hint `json:"hints,omitempty"`
	// Unasked are the full names that the runtime would have gone on to and for which the time of
	// this check did not suffice.
	Unasked []string `json:"unasked,omitempty"`
	// Addresses is what the runtime would get, IPv4 first, each family in the order in which it
	// came. Unusable ones (0.0.0.0 and the like) are included, see [Report.Usable].
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// From is where the addresses come from: "hosts" (the hosts file), "dns" (a nameserver) or
	// "literal" (the name is an IP address). Empty = the runtime gets no address.
	From string `json:"from,omitempty"`
	// Answered is the nameserver that decided, for the IPv4 addresses where there are any. Zero =
	// none did, or DNS does not decide.
	Answered netip.AddrPort `json:"answered,omitzero"`
	// PredictedMS is how long the runtime waits for this outcome, in milliseconds: the whole
	// timeout of every dead nameserver before the one that answers, in every round. It is
	// predicted, not measured. 0 when DNS does not decide or not all was seen.
	PredictedMS int64 `json:"predictedMs"`
	// Inconclusive says why the question stays open, fully or in part; empty = it does not. The
	// report holds what was seen until then.
	Inconclusive string `json:"inconclusive,omitempty"`
	// ElapsedMS is the duration of this check, in milliseconds.
	ElapsedMS int64 `json:"elapsedMs"`

	findings []classify.Finding
}

const (
	fromHosts   = "hosts"
	fromDNS     = "dns"
	fromLiteral = "literal"
)

// NameReport is what the nameservers said of one full name.
type NameReport struct {
	// Name has a trailing dot.
	Name string `json:"name"`
	// Servers are the nameservers in the order of the file.
	Servers []ServerReport `json:"servers"`
}

// Wildcard is a search domain that answers any name.
type Wildcard struct {
	// Domain is the suffix of the search list.
	Domain string `json:"domain"`
	// Addresses is the answer to a random label below Domain.
	Addresses []netip.Addr `json:"addresses"`
}

// CLibrary is how a lookup through the GNU C library differs from Go's own, for a runtime that was
// built with cgo and leaves the lookup to it. The rules are those of resolv/res_send.c and
// res_query.c of glibc 2.36.
type CLibrary struct {
	// Addresses is what getaddrinfo gives, IPv4 first; empty = none.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// PredictedMS is how long it takes, in milliseconds, as [Report.PredictedMS].
	PredictedMS int64 `json:"predictedMs"`
	// Differs says in sentences where and why outcome or time differ.
	Differs []string `json:"differs"`
}

// ServerReport is what one nameserver said.
type ServerReport struct {
	// Server is the nameserver.
	Server netip.AddrPort `json:"server"`
	// Link is the network interface of an upstream; empty = no particular one.
	Link string `json:"link,omitempty"`
	// A is the question for IPv4 addresses.
	A Exchange `json:"a"`
	// AAAA is the question for IPv6 addresses.
	AAAA Exchange `json:"aaaa"`
	// TCP is the same question over TCP, asked when UDP brought nothing; nil = not asked. It tells
	// a filter on UDP from a dead server.
	TCP *Exchange `json:"tcp,omitempty"`
	// Unchecked is the question with the DNSSEC check switched off, asked after SERVFAIL; nil = not
	// asked.
	Unchecked *Exchange `json:"unchecked,omitempty"`
}

// addresses are those of both families.
func (s *ServerReport) addresses() []netip.Addr {
	return slices.Concat(s.A.addresses(), s.AAAA.addresses())
}

// Exchange is one question to one nameserver, and its outcome.
type Exchange struct {
	// Answer is nil when none came. With Cause dns.truncated-no-tcp it is the truncated one, which
	// the runtime throws away.
	Answer *Answer `json:"answer,omitempty"`
	// Network is the last one used: "udp", or "tcp" after a truncated answer.
	Network string `json:"network"`
	// Unmatched are datagrams that came instead of an answer; nil = none came. The runtime ignores
	// them and runs into its timeout.
	Unmatched *Unmatched `json:"unmatched,omitempty"`
	// Error is the failure of the transport, redacted; empty = none.
	Error string `json:"error,omitempty"`
	// Cause is the fault of this exchange taken alone, also when the runtime never gets that far;
	// empty = it gave addresses, or was not finished. An AAAA without a record is dns.nodata here
	// and no fault by itself.
	Cause classify.Cause `json:"cause,omitempty"`
	// ElapsedMS is the time until the answer or the failure, in milliseconds.
	ElapsedMS int64 `json:"elapsedMs"`
}

func (e *Exchange) addresses() []netip.Addr {
	if e.Answer == nil {
		return nil
	}
	return e.Answer.Addresses
}

func (e *Exchange) servFailed() bool { return e.Answer != nil && e.Answer.RCode == rcodeServFail }

// Held reports whether the runtime would get at least one usable address. It does not say that
// anything answers there.
func (r *Report) Held() bool { return r.From != "" && len(r.Usable()) > 0 }

// Usable returns the Addresses that can belong to a reachable host, in their order: not
// unspecified, multicast, broadcast or link-local. Loopback and private addresses are usable.
func (r *Report) Usable() []netip.Addr {
	return slices.DeleteFunc(slices.Clone(r.Addresses), func(a netip.Addr) bool { return unusable(a) != "" })
}

// Findings returns the faults and remarks, failures first and among them the one that the runtime
// would show. The endpoint of each is the name looked up. The slice is the caller's own. A report
// that was read back from JSON has none.
func (r *Report) Findings() []classify.Finding { return slices.Clone(r.findings) }
