package dnscheck

import (
	"net/netip"
	"slices"

	"github.com/pullwalk/pullwalk/classify"
)

// Where the addresses of a [Report] come from.
const (
	FromHosts   = "hosts"   // the node's hosts file
	FromDNS     = "dns"     // a nameserver
	FromLiteral = "literal" // the name is an IP address; nothing was asked
)

// Report is what one lookup on this node comes to.
type Report struct {
	// Name is the name as it was given.
	Name string `json:"name"`
	// Literal says that the name is an IP address. Nothing was read or asked.
	Literal bool `json:"literal,omitempty"`
	// Settings is what the node's files say.
	Settings Settings `json:"settings"`
	// Hosts are the lines of the hosts file that hold the name, at most 64,
	// whether or not the runtime uses them.
	Hosts []HostsEntry `json:"hosts,omitempty"`
	// Asked is the full name that Servers were asked for: the one that gave the
	// addresses, otherwise the name as it stands. Empty = nothing was asked.
	Asked string `json:"asked,omitempty"`
	// Servers are the nameservers in the order of the file.
	Servers []ServerReport `json:"servers,omitempty"`
	// Also are the other full names that were asked for, in order: the name as it
	// stands, or with suffixes of the search list.
	Also []NameReport `json:"also,omitempty"`
	// Behind is what the servers behind a local stub say of the name as it stands,
	// see [Settings.Behind]. The runtime never asks them.
	Behind []ServerReport `json:"behind,omitempty"`
	// Platform is what Azure's platform resolver says of the name, asked when the
	// name belongs to Azure's private link, the answer is not private and none of
	// the nameservers is that one; nil = not asked. It tells a forwarder that is
	// missing from a zone that is not linked.
	Platform *ServerReport `json:"platform,omitempty"`
	// Chain are the aliases that were found one by one after the nameservers had
	// failed on the whole, at most 16. Empty = not needed, or there are none.
	Chain []string `json:"chain,omitempty"`
	// Wildcard is set when the search domain that answered would have answered any
	// name.
	Wildcard *Wildcard `json:"wildcard,omitempty"`
	// CLibrary is what a runtime gets that looks names up through the C library;
	// nil = the same at the same time, or not all was seen.
	CLibrary *CLibrary `json:"cLibrary,omitempty"`
	// Hints is what is known of names and addresses in this report, each with its
	// source. They prove nothing of this node.
	Hints []Hint `json:"hints,omitempty"`
	// Unasked are the full names that the runtime would have gone on to, but for
	// which the time of this check did not suffice.
	Unasked []string `json:"unasked,omitempty"`
	// Addresses is what the runtime would get, IPv4 first, then IPv6, each in the
	// order in which it came; unusable ones (0.0.0.0 and the like) are not left
	// out, see [Report.Usable].
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// From is one of the From constants; empty = the runtime gets no address.
	From string `json:"from,omitempty"`
	// Answered is the nameserver that decided, for the IPv4 addresses where there
	// are any. Zero = none did, or DNS does not decide.
	Answered netip.AddrPort `json:"answered,omitzero"`
	// PredictedMS is what the runtime waits for this outcome, in milliseconds: the
	// whole timeout of every dead nameserver before the one that answers, in every
	// round. Predicted from what was seen, not measured. 0 when DNS does not
	// decide or not all was seen.
	PredictedMS int64 `json:"predictedMs"`
	// Inconclusive says why the question stays open, fully or in part; empty = it
	// does not. What was seen until then is in the report.
	Inconclusive string `json:"inconclusive,omitempty"`
	// ElapsedMS is what this check took, in milliseconds.
	ElapsedMS int64 `json:"elapsedMs"`

	findings []classify.Finding
}

// NameReport is what the nameservers said of one full name.
type NameReport struct {
	Name    string         `json:"name"`
	Servers []ServerReport `json:"servers"`
}

// Wildcard is a search domain that answers any name.
type Wildcard struct {
	Domain    string       `json:"domain"`
	Addresses []netip.Addr `json:"addresses"`
}

// ServerReport is what one nameserver said.
type ServerReport struct {
	Server netip.AddrPort `json:"server"`
	// Link is the network interface whose nameserver it is, for those behind a
	// stub; empty = of no interface in particular.
	Link string   `json:"link,omitempty"`
	A    Exchange `json:"a"`
	AAAA Exchange `json:"aaaa"`
	// TCP is the same question over TCP, asked when UDP brought nothing; nil = not
	// asked. It tells a filter on UDP from a dead server.
	TCP *Exchange `json:"tcp,omitempty"`
	// Unchecked is the question with the DNSSEC check switched off, asked after
	// SERVFAIL; nil = not asked.
	Unchecked *Exchange `json:"unchecked,omitempty"`
}

// Exchange is one question to one nameserver, and what came of it.
type Exchange struct {
	// Answer is nil when none came. With Cause dns.truncated-no-tcp it is the
	// truncated one, which the runtime throws away.
	Answer *Answer `json:"answer,omitempty"`
	// Network is what was used last: "udp", or "tcp" after a truncated answer.
	Network string `json:"network"`
	// Unmatched are datagrams that came instead of an answer; nil = none came. The
	// runtime ignores them and is left with silence.
	Unmatched *Unmatched `json:"unmatched,omitempty"`
	// Error is the failure of the transport, redacted; empty = none.
	Error string `json:"error,omitempty"`
	// Cause is what this exchange amounts to taken alone, also when the runtime
	// never gets that far; empty = it gave addresses, or was not finished. An
	// AAAA without a record is dns.nodata here and no fault by itself.
	Cause classify.Cause `json:"cause,omitempty"`
	// ElapsedMS is the time until the answer or the failure, in milliseconds.
	ElapsedMS int64 `json:"elapsedMs"`
}

// Held reports whether the runtime would get at least one usable address. It
// does not say that anything answers there.
func (r *Report) Held() bool { return r.From != "" && len(r.Usable()) > 0 }

// Usable returns the Addresses that can belong to a host that is to be reached,
// in their order: not unspecified, multicast, broadcast or link-local. Loopback
// and private addresses are usable.
func (r *Report) Usable() []netip.Addr {
	return slices.DeleteFunc(slices.Clone(r.Addresses), func(a netip.Addr) bool { return unusable(a) != "" })
}

// Findings returns what is wrong or worth saying, failures first and among them
// the one that the runtime would show. The endpoint of each is the name looked
// up. The slice is the caller's own. A report that was read back from JSON has
// none.
func (r *Report) Findings() []classify.Finding { return slices.Clone(r.findings) }
