package reach

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Report is what was seen of one address.
type Report struct {
	// Target is what was asked for; an IPv4-mapped address stands unmapped, and
	// the port is 0 if only a route was asked for.
	Target netip.AddrPort `json:"target"`
	// Route is the outcome of the route lookup; nil = not asked for, or not known.
	Route *Route `json:"route,omitempty"`
	// Connect is the outcome of the connect; nil = not asked for, or not tried.
	Connect *Connect `json:"connect,omitempty"`
	// Rounds is always empty: it stays for readers of pullwalk.result/v1, where
	// repeated connects stand in the rounds of a step.
	Rounds []Connect `json:"rounds,omitempty"`
	// Trace is the path as the routers answered; nil = not begun, see
	// [Checker.Trace].
	Trace *Trace `json:"trace,omitempty"`
	// Pressure is how near the kernel was to its limits when the connect timed out or
	// lacked a local resource; nil = it did neither, or Checker.Pressure is nil.
	Pressure *Pressure `json:"pressure,omitempty"`
	// Inconclusive says why something that was asked for is not decided; "" =
	// all of it is.
	Inconclusive string `json:"inconclusive,omitempty"`

	findings []classify.Finding
}

// Held reports whether the route and the connect that were asked for were seen to
// work.
func (r *Report) Held() bool {
	return r.Inconclusive == "" && (r.Route != nil || r.Connect != nil) &&
		(r.Route == nil || r.Route.Usable()) && (r.Connect == nil || r.Connect.Connected)
}

// Findings returns what is wrong or worth saying, the route first. Their
// Endpoint is the address, with the port if a connect was asked for. The slice
// is the caller's own. A report that was decoded from JSON has none.
func (r *Report) Findings() []classify.Finding { return slices.Clone(r.findings) }

func (r *Report) add(f classify.Finding) { r.findings = append(r.findings, f) }

// inconclusive notes a reason; an earlier one is kept.
func (r *Report) inconclusive(reason string) {
	switch r.Inconclusive {
	case "":
		r.Inconclusive = reason
	case reason: // route and connect met the same obstacle
	default:
		r.Inconclusive += "; " + reason
	}
}

// Connect is the outcome of one TCP connect to one address. What is marked
// "Linux" needs the system's own sockets: a [System], a [*net.Dialer] or nil as
// the Checker's Dialer.
type Connect struct {
	// Connected: the other side, or something in its name, accepted. It proves
	// both directions for small packets only.
	Connected bool `json:"connected"`
	// Source is the own end of the connection; on Linux also of one that did not
	// come about. Zero = not known.
	Source netip.AddrPort `json:"source,omitzero"`
	// Errno is the symbolic name of the operating system's answer, the POSIX
	// one also on Windows ("ECONNREFUSED"); "" = none.
	Errno string `json:"errno,omitempty"`
	// TimedOut: nothing answered within the limit, or until the kernel gave up.
	TimedOut bool `json:"timedOut,omitempty"`
	// ElapsedMS is the time until the outcome, in whole milliseconds.
	ElapsedMS int64 `json:"elapsedMs"`
	// RoundTripMS is the time from SYN to SYN-ACK as the kernel measured it, in
	// whole milliseconds; Linux. 0 = less than one, or not known.
	RoundTripMS int64 `json:"roundTripMs,omitempty"`
	// Retransmits counts the SYNs that had to be repeated; Linux.
	Retransmits int `json:"synRetransmits,omitempty"`
	// Segment is the largest payload of one own packet, PathMTU what the kernel
	// believes of the path, both in bytes; Linux. 0 = not known.
	Segment int `json:"segment,omitempty"`
	PathMTU int `json:"pathMtu,omitempty"`
	// ICMP is the answer that ended the connect; Linux. nil = none: a TCP reset,
	// silence, or an answer of this machine.
	ICMP *ICMP `json:"icmp,omitempty"`
	// After is "reset" if the other side reset an accepted connection before the
	// dialer could hand it on; Connected is then false. "" = it did not.
	After string `json:"after,omitempty"`
	// Error is the dialer's own text, shortened; "" when connected.
	Error string `json:"error,omitempty"`
}

// Trace is the path to an address as its routers answered. It uses TCP to the same
// port, so that filters on the path treat it as they treat the pull.
//
// A hop that answers proves that packets get as far as that, and that its own
// answers come back. A silent one proves nothing: many routers never answer.
// Firewalls that drop still answer for themselves, so the last hop that answers
// may be the one that drops.
type Trace struct {
	Target netip.AddrPort `json:"target"`
	// Hops are the hops up to the last that answered, nearest first; silent ones
	// among them have no address.
	Hops []Hop `json:"hops,omitempty"`
	// Reached: the address itself accepted or refused a connect.
	Reached bool `json:"reached,omitempty"`
	// Distance is the smallest hop count that reached it; 0 = not reached.
	Distance int `json:"distance,omitempty"`
	// Rejected is the first refusal by something on the path; nil = none.
	Rejected *ICMP `json:"rejected,omitempty"`
	// Others are answers of the same address on other ports. They prove that a way
	// back exists. See [Checker.Trace].
	Others []OtherAnswer `json:"others,omitempty"`
	// ElapsedMS is how long it took, in whole milliseconds.
	ElapsedMS int64 `json:"elapsedMs"`
	// Inconclusive says why not the whole path was tried; "" = it was.
	Inconclusive string `json:"inconclusive,omitempty"`
}

// Hop is one router on the way.
type Hop struct {
	// Number counts from 1, the first router.
	Number int `json:"number"`
	// Address is who answered; zero = nobody.
	Address netip.Addr `json:"address,omitzero"`
	// RoundTripMS is the time until the answer, in whole milliseconds.
	RoundTripMS int64 `json:"roundTripMs"`
}

// OtherAnswer is an answer of the same address on another port.
type OtherAnswer struct {
	// Door is the port that was tried: "tcp/80" or "udp/33434".
	Door string `json:"door"`
	// Answer is "accepted", "refused" or the kind of an ICMP answer.
	Answer string `json:"answer"`
}

// LastHop returns the last router that answered; the zero Hop if none did.
func (t *Trace) LastHop() Hop {
	if len(t.Hops) == 0 {
		return Hop{}
	}
	return t.Hops[len(t.Hops)-1]
}

// Answered returns how many hops answered.
func (t *Trace) Answered() int {
	n := 0
	for _, h := range t.Hops {
		if h.Address.IsValid() {
			n++
		}
	}
	return n
}

// addFacts returns f with what the trace saw.
func (t *Trace) addFacts(f classify.Finding) classify.Finding {
	var names []string
	for _, h := range t.Hops {
		if h.Address.IsValid() {
			names = append(names, h.Address.String())
		} else {
			names = append(names, "*")
		}
	}
	f = addFact(f, factHops, strings.Join(names, " "))
	if last := t.LastHop(); last.Address.IsValid() {
		f = addFact(f, factLastHop, last.Address.String())
	}
	for _, o := range t.Others {
		f = addFact(f, factOther, o.Door+" "+o.Answer)
	}
	return f
}

// localLimit notes that a limit of this machine, not the target, stood in the
// way of doing something with endpoint.
func (r *Report) localLimit(endpoint, doing string, err error) {
	errno := errnoOf(err)
	limit := "out of file descriptors on this machine"
	if !outOfDescriptors(errno) {
		limit = "out of a local resource on this machine (" + errno + ")"
	}
	r.inconclusive(limit)
	f := classify.New(classify.NodeLocalLimit, limit+", so it could not "+doing+" "+endpoint,
		classify.Fact{Key: classify.FactAddress, Value: endpoint})
	f.Severity, f.Endpoint = classify.SeverityWarn, endpoint
	r.add(addFact(f, classify.FactErrno, errno).WithError(err))
}
