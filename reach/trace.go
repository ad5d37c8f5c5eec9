package reach

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
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
	// traceAfter a connect is traced: a SYN that got lost is repeated after
	// 1 s, so until then silence is not yet a sign.
	traceAfter = time.Second
	// maxTraces at once of one Checker: a trace holds 32 descriptors.
	maxTraces = 8
)

// trace is [Checker.Trace] from the namespace at the given path, "" = the calling
// thread's.
func (s *slots) trace(ctx context.Context, namespace string, target netip.AddrPort, limit time.Duration) *Trace {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	t := &Trace{Target: target}
	if !s.take(ctx) {
		t.Inconclusive = fmt.Sprintf("%d other traces were under way", maxTraces)
		return t
	}
	defer s.give()
	t.run(ctx, namespace)
	t.ElapsedMS = time.Since(start).Milliseconds()
	return t
}

// slots bounds how many traces of one Checker run at once.
type slots struct {
	once sync.Once
	free chan struct{}
}

// take waits for a slot; false means that ctx ended first.
func (s *slots) take(ctx context.Context) bool {
	s.once.Do(func() { s.free = make(chan struct{}, maxTraces) })
	select {
	case s.free <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *slots) give() { <-s.free }

// probeKind says what the sockets of a trace send.
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
	took     time.Duration
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
			if p.kind == probeHop && p.answered && !(p.icmp != nil && p.icmp.Kind == icmpTimeExceeded) && (end == 0 || p.hops < end) {
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
		// A router answering for another port says nothing of the address.
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
		if p.icmp == nil || p.icmp.From == t.Target.Addr() && p.icmp.Kind != icmpTimeExceeded {
			if p.icmp != nil && t.Rejected == nil {
				t.Rejected = p.icmp
			}
			t.Reached, t.Distance = true, n
			break
		}
		if p.icmp.Kind != icmpTimeExceeded {
			t.Rejected = p.icmp
			break
		}
		last = n
	}
	for n := 1; n <= last; n++ {
		h := Hop{Number: n}
		if p := hops[n]; p.answered && p.icmp != nil {
			h.Address, h.RoundTripMS = p.icmp.From, p.took.Milliseconds()
		}
		t.Hops = append(t.Hops, h)
	}
}
