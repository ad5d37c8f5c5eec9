package reach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

const (
	// maxHops: paths inside a company are shorter, and 30 is what every trace
	// tool stops at.
	maxHops = 30
	// traceLimit bounds a trace. Routers answer within a round trip; those that
	// answer only so many times a second get a second SYN after 1 s (RFC 6298).
	traceLimit = 3 * time.Second
	// rejectedTraceLimit: a path on which a router refuses answers at once.
	rejectedTraceLimit = time.Second
	// traceGrace is how long hops may still answer after the far end was seen.
	traceGrace = 300 * time.Millisecond
	// silenceBefore a connect is traced: a SYN that got lost is repeated after
	// 1 s, so until then silence is not yet a sign.
	silenceBefore = time.Second
	// maxTraces at once of one Checker: a trace holds 32 descriptors.
	maxTraces = 8
)

// Trace is the way to an address as the routers on it answered, for TCP to the
// same port, so that the filters on the path treat it as they treat the pull.
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
	// Others are answers of the same address on other doors: they prove that a
	// way back exists. See [Checker.Trace].
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

// OtherAnswer is a sign of life of the same address on another door.
type OtherAnswer struct {
	// Door is what was tried: "tcp/80" or "udp/33434".
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

// Trace finds the routers on the way to target with connects of limited hop
// count to the same port, up to 30 hops at once and 3 s in all. It needs no
// privileges and no raw socket, and it works on Linux only.
//
// A connect that arrives is closed at once, unless it is the target's own
// refusal. Beside them one SYN to TCP 80 and one datagram to UDP 33434 of the
// same address ask whether it lives at all.
//
// An error means that target is no TCP destination or, wrapping
// [errors.ErrUnsupported], that this system or the Checker's Dialer does not
// allow to look.
func (c *Checker) Trace(ctx context.Context, target netip.AddrPort) (*Trace, error) {
	target, err := cleanTarget(target)
	if err != nil {
		return nil, err
	}
	s, ok := c.sockets()
	switch {
	case !canObserve:
		return nil, fmt.Errorf("reach: trace: %w on this system", errors.ErrUnsupported)
	case !ok:
		return nil, fmt.Errorf("reach: trace: %w by the Checker's Dialer, whose sockets are not ours", errors.ErrUnsupported)
	}
	return c.trace(ctx, s.namespace, target, traceLimit), nil
}

// trace is Trace from the namespace at the given path, "" = the calling
// thread's.
func (c *Checker) trace(ctx context.Context, namespace string, target netip.AddrPort, limit time.Duration) *Trace {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	t := &Trace{Target: target}
	if !c.traces.take(ctx) {
		t.Inconclusive = fmt.Sprintf("%d other traces were under way", maxTraces)
		return t
	}
	defer c.traces.give()
	t.run(ctx, namespace)
	t.ElapsedMS = time.Since(start).Milliseconds()
	return t
}

// probeKind says what the sockets of a trace ask.
type probeKind int

const (
	probeHop probeKind = iota // the same port, with a limited hop count
	probeTCP                  // another port
	probeUDP                  // a datagram
)

// probe is one question of a trace and its answer.
type probe struct {
	kind     probeKind
	hops     int // hop count, for probeHop
	answer   string
	icmp     *ICMP
	trip     time.Duration
	answered bool
}

// The answers of a probe that did not come by ICMP.
const (
	answerAccepted = "accepted"
	answerRefused  = "refused"
)

// gather reads the answers as they come and ends the trace when it knows
// enough. left is how many are still to come.
func (t *Trace) gather(answers <-chan probe, left int, stop func()) {
	var hops [maxHops + 1]probe
	end := 0 // hop count that met the far end or a refusal; 0 = none yet
	var grace <-chan time.Time
	for left > 0 {
		select {
		case p := <-answers:
			left--
			t.note(p, &hops)
			if p.kind == probeHop && p.answered && !(p.icmp != nil && p.icmp.Kind == ICMPTimeExceeded) && (end == 0 || p.hops < end) {
				end = p.hops
			}
		case <-grace:
			stop()
			grace = nil
		}
		if end > 0 && grace == nil {
			grace = time.After(traceGrace)
		}
		if complete := end > 0; complete {
			for n := 1; n < end; n++ {
				complete = complete && hops[n].answered
			}
			if complete {
				stop()
			}
		}
	}
	t.conclude(&hops)
}

// note keeps one answer.
func (t *Trace) note(p probe, hops *[maxHops + 1]probe) {
	switch {
	case p.kind == probeHop:
		hops[p.hops] = p
	case !p.answered || p.icmp != nil && p.icmp.From != t.Target.Addr():
		// A router answering for another door says nothing of the address.
	case p.kind == probeTCP:
		t.Others = append(t.Others, OtherAnswer{Door: "tcp/80", Answer: p.answer})
	default:
		t.Others = append(t.Others, OtherAnswer{Door: "udp/33434", Answer: p.answer})
	}
}

// conclude writes down the hops.
func (t *Trace) conclude(hops *[maxHops + 1]probe) {
	last := 0
	for n := 1; n <= maxHops; n++ {
		p := hops[n]
		if !p.answered {
			continue
		}
		if p.icmp == nil || p.icmp.From == t.Target.Addr() && p.icmp.Kind != ICMPTimeExceeded {
			if p.icmp != nil && t.Rejected == nil {
				t.Rejected = p.icmp
			}
			t.Reached, t.Distance = true, n
			break
		}
		if p.icmp.Kind != ICMPTimeExceeded {
			t.Rejected = p.icmp
			break
		}
		last = n
	}
	for n := 1; n <= last; n++ {
		h := Hop{Number: n}
		if p := hops[n]; p.answered && p.icmp != nil {
			h.Address, h.RoundTripMS = p.icmp.From, p.trip.Milliseconds()
		}
		t.Hops = append(t.Hops, h)
	}
}
