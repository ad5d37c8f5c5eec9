package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// exchangeLimit bounds one exchange: a lost segment is repeated after 0.2 s,
// 0.6 s, 1.4 s (RFC 6298 with Linux' minimum), so that chance loss heals within.
const exchangeLimit = 3 * time.Second

// clamps are the segment sizes that are tried beside the usual one. They lie
// between the packet sizes that tunnels leave over: 1450 and less for VXLAN and
// cloud gateways, 1420 and 1380 for WireGuard and IPsec, 1320 for a chain of
// them, 1280 for the least that IPv6 allows, 576 for anything.
var clamps = [...]int{1400, 1360, 1300, 1220, 1160, 1000, 536}

// smallClamp is the one of them that the other exchanges are tried with.
const smallClamp = 1000

// Exchange is something that both sides must send for, such as a TLS handshake.
type Exchange struct {
	// Name tells it from others in the report: "large", "classical".
	Name string
	// Run does it over an open connection and must not close it. nil means that
	// everything that was to come has come, also if it was a refusal: the
	// question is only whether packets pass. It should end with ctx; reads and
	// writes on the connection fail then.
	Run func(ctx context.Context, conn net.Conn) error
}

// MTUVerdict is what a comparison of segment sizes comes to.
type MTUVerdict string

// The verdicts.
const (
	MTUHeld           MTUVerdict = "held"                // the first exchange works at the usual size
	MTUBlackHole      MTUVerdict = "mtu-black-hole"      // it works only with clamped segments
	LargeHelloDropped MTUVerdict = "large-hello-dropped" // only a smaller exchange works, at any size of the segments
	MTUNotSize        MTUVerdict = "not-size"            // nothing works: not a matter of size, as far as can be seen
	MTUUnknown        MTUVerdict = "unknown"             // see Inconclusive
)

// The values of [MTUReport.Direction].
const (
	ToTarget   = "to-target"   // what this machine sends gets lost
	FromTarget = "from-target" // what the target sends gets lost
)

// MTUReport compares one exchange over connections with different limits on the
// size of their segments.
type MTUReport struct {
	Target  netip.AddrPort `json:"target"`
	Verdict MTUVerdict     `json:"verdict"`
	// Attempts in fixed order: the first exchange as usual, twice, then with
	// smaller and smaller segments, then the other exchanges.
	Attempts []Attempt `json:"attempts"`
	// Passed is the largest packet, in bytes, for which a connection with such
	// segments worked, and Lost the smallest for which none did; 0 = not known.
	// The limit of the path lies between them.
	Passed int `json:"passed,omitempty"`
	Lost   int `json:"lost,omitempty"`
	// Direction says which way large packets vanish; "" = not known.
	Direction string `json:"direction,omitempty"`
	// Inconclusive says why there is no verdict; "" = there is.
	Inconclusive string `json:"inconclusive,omitempty"`

	finding *classify.Finding
}

// Attempt is one exchange over one connection.
type Attempt struct {
	Exchange string `json:"exchange"`
	// Clamp is the segment size that was set, in bytes; 0 = as usual.
	Clamp int `json:"clamp"`
	// Connected: the TCP connection came about. Worked: the exchange did too.
	Connected bool `json:"connected"`
	Worked    bool `json:"worked"`
	// Silent: it ended because nothing more came.
	Silent bool `json:"silent,omitempty"`
	// ElapsedMS is the time until the outcome, in whole milliseconds.
	ElapsedMS int64 `json:"elapsedMs"`
	// Flow is what the kernel counted; zero = cannot be seen.
	Flow Flow `json:"flow,omitzero"`
	// Error is the shortened text of what failed; "" = it worked.
	Error string `json:"error,omitempty"`
}

// Findings returns the black hole or the dropped hello, if there is one. A
// report that was decoded from JSON has none.
func (r *MTUReport) Findings() []classify.Finding {
	if r.finding == nil {
		return nil
	}
	return []classify.Finding{*r.finding}
}

// CheckMTU looks whether an exchange fails because of the size of its packets.
// The first exchange is the one under suspicion, done as the runtime does it (a
// TLS handshake with its ClientHello); the others are smaller forms of it (a
// classical ClientHello). Each is tried with the segments as usual and clamped,
// ten connections or so, all at once and 3 s at most.
//
// Without any exchange it sends 4 KiB of a TLS record that never becomes
// complete and waits until the peer's kernel confirms them: that tests the way
// to the target only, and no request is made.
//
// An error means that target is no TCP destination or, wrapping
// [errors.ErrUnsupported], that the Checker's Dialer cannot clamp segments.
func (c *Checker) CheckMTU(ctx context.Context, target netip.AddrPort, exchanges ...Exchange) (*MTUReport, error) {
	target, err := cleanTarget(target)
	if err != nil {
		return nil, err
	}
	dial, err := c.segmentDialer()
	if err != nil {
		return nil, err
	}
	if len(exchanges) == 0 {
		exchanges = []Exchange{{Name: "write", Run: largeWrite}}
	}
	for i, e := range exchanges {
		if e.Run == nil {
			return nil, fmt.Errorf("reach: exchange %d (%q) has no function", i, e.Name)
		}
	}
	r := &MTUReport{Target: target}
	var runs []func(ctx context.Context, conn net.Conn) error
	add := func(e Exchange, clamp int) {
		r.Attempts = append(r.Attempts, Attempt{Exchange: classify.Redact(e.Name, 64), Clamp: clamp})
		runs = append(runs, e.Run)
	}
	add(exchanges[0], 0)
	add(exchanges[0], 0) // one failure alone may be chance
	for _, clamp := range clamps {
		add(exchanges[0], clamp)
	}
	for _, e := range exchanges[1:] {
		add(e, 0)
		add(e, smallClamp)
	}
	at := here()
	var wg sync.WaitGroup
	for i := range r.Attempts {
		wg.Go(func() { r.Attempts[i].run(ctx, target, at.path(), dial, runs[i]) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		r.Verdict, r.Inconclusive = MTUUnknown, endedReason(ctx, "the size of packets")
		return r, nil
	}
	r.judge(exchanges[0].Name)
	if r.Verdict == MTUBlackHole && (r.Attempts[0].doubtful(r.Lost) || r.Attempts[1].doubtful(r.Lost)) {
		// Once more, now that the kernel may know the size.
		again := Attempt{Exchange: r.Attempts[0].Exchange}
		again.run(ctx, target, "", dial, runs[0])
		if again.Worked || ctx.Err() != nil {
			r.Attempts[1] = again
			r.Passed, r.Lost, r.Direction, r.finding = 0, 0, "", nil
			if ctx.Err() != nil {
				r.Verdict, r.Inconclusive = MTUUnknown, endedReason(ctx, "the size of packets")
				return r, nil
			}
			r.judge(exchanges[0].Name)
		}
	}
	return r, nil
}

// doubtful: the failure may have another reason than a silent loss of that size.
// A router may have told the kernel the size just then, or the connection began
// with a repeated SYN, after which the kernel waits for seconds before it repeats
// anything (RFC 6298).
func (a Attempt) doubtful(lost int) bool {
	return a.Flow.PathMTU > 0 && a.Flow.PathMTU <= lost || a.Flow.roundTrip > slowStart
}

// slowStart, in microseconds: more than any path has, less than the first repeat
// of a SYN.
const slowStart = 800_000

type segmentDial func(ctx context.Context, target netip.AddrPort, from string, mss int) (net.Conn, error)

// segmentDialer returns what opens clamped connections.
func (c *Checker) segmentDialer() (segmentDial, error) {
	if s, ok := c.sockets(); ok {
		if !canObserve {
			return nil, fmt.Errorf("reach: clamping TCP segments: %w on this system", errors.ErrUnsupported)
		}
		return func(ctx context.Context, target netip.AddrPort, from string, mss int) (net.Conn, error) {
			own := s
			if own.namespace == "" {
				own.namespace = from
			}
			conn, _, err := own.dial(ctx, "tcp", target.String(), socketOptions{segment: mss})
			return conn, err
		}, nil
	}
	d, ok := c.Dialer.(SegmentDialer)
	if !ok {
		return nil, fmt.Errorf("reach: clamping TCP segments: %w by the Checker's Dialer, which is no SegmentDialer", errors.ErrUnsupported)
	}
	return func(ctx context.Context, target netip.AddrPort, _ string, mss int) (net.Conn, error) {
		return d.DialSegment(ctx, "tcp", target.String(), mss)
	}, nil
}

// run does one exchange over a connection of its own.
func (a *Attempt) run(ctx context.Context, target netip.AddrPort, from string, dial segmentDial, exchange func(context.Context, net.Conn) error) {
	own := &limitReached{exchangeLimit}
	ctx, cancel := context.WithTimeoutCause(ctx, own.limit, own)
	defer cancel()
	start := time.Now()
	defer func() { a.ElapsedMS = time.Since(start).Milliseconds() }()
	conn, err := dial(ctx, target, from, a.Clamp)
	if err == nil && conn == nil {
		err = errors.New("the dialer returned neither a connection nor an error")
	}
	if err != nil {
		a.Error = boundedText(err)
		return
	}
	kept := keepFlow(conn)
	defer kept.Close()
	a.Connected = true
	// An exchange that forgets its context ends with the connection's deadline.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	err = exchange(ctx, kept.Conn)
	a.Flow = kept.flow()
	if err == nil {
		a.Worked = true
		return
	}
	var netErr net.Error
	a.Silent = ctx.Err() != nil || errors.As(err, &netErr) && netErr.Timeout()
	a.Error = boundedText(err)
}

// packet is the size of a full packet with segments of that size: RFC 9293,
// 3.7.1 counts options as part of them.
func packet(target netip.Addr, segment int) int {
	if target.Is6() {
		return segment + 60
	}
	return segment + 40
}

// judge draws the verdict from the attempts.
func (r *MTUReport) judge(first string) {
	size := func(a Attempt) int {
		segment := a.Clamp
		if segment == 0 {
			// TCP_INFO takes the room for options off; the timestamps of Linux have 12.
			if segment = a.Flow.Segment; segment > 0 {
				segment += 12
			}
		}
		if segment == 0 {
			return 0
		}
		return packet(r.Target.Addr(), segment)
	}
	usual := r.Attempts[:2]
	clamped := r.Attempts[2 : 2+len(clamps)]
	others := r.Attempts[2+len(clamps):]
	switch {
	case usual[0].Worked || usual[1].Worked:
		r.Verdict = MTUHeld
		r.Passed = max(size(usual[0]), size(usual[1]))
		return
	case !usual[0].Connected || !usual[1].Connected:
		r.Verdict, r.Inconclusive = MTUUnknown, "no connection came about: "+usual[0].Error+usual[1].Error
		return
	case !usual[0].Silent || !usual[1].Silent:
		r.Verdict = MTUNotSize // something answered
		return
	}
	for _, a := range clamped {
		if a.Worked {
			r.Passed = max(r.Passed, size(a))
		}
	}
	r.Lost = max(size(usual[0]), size(usual[1]))
	for _, a := range clamped {
		if s := size(a); a.Silent && s > r.Passed && (r.Lost == 0 || s < r.Lost) {
			r.Lost = s
		}
	}
	if r.Passed > 0 {
		r.blackHole(usual[0], others)
		return
	}
	r.Lost = 0
	for i := 0; i+1 < len(others); i += 2 {
		if others[i].Worked {
			r.largeHello(first, others[i])
			return
		}
	}
	r.Verdict = MTUNotSize
}

func (r *MTUReport) blackHole(usual Attempt, others []Attempt) {
	r.Verdict = MTUBlackHole
	where := ""
	smallWorks, smallTried := false, false
	for i := 0; i+1 < len(others); i += 2 {
		smallTried = true
		smallWorks = smallWorks || others[i].Worked
	}
	switch flow := usual.Flow; {
	case flow.SentBytes > 0 && flow.AckedBytes < flow.SentBytes && flow.Retransmits > 0, smallWorks:
		r.Direction, where = ToTarget, " on the way there"
	case flow.SentBytes > 0 && flow.AckedBytes >= flow.SentBytes, smallTried && flow.SentBytes == 0:
		r.Direction, where = FromTarget, " on the way back"
	}
	summary := fmt.Sprintf("packets of %d bytes pass between this machine and %v", r.Passed, r.Target)
	if r.Lost > 0 {
		summary += fmt.Sprintf(", those of %d bytes vanish%s without a word", r.Lost, where)
	} else {
		summary += fmt.Sprintf(", larger ones vanish%s without a word", where)
	}
	r.find(classify.RouteMTUBlackHole, summary, classify.Fact{Key: FactSize, Value: strconv.Itoa(r.Passed)},
		classify.Fact{Key: classify.FactMTU, Value: strconv.Itoa(usual.Flow.PathMTU)})
}

func (r *MTUReport) largeHello(first string, small Attempt) {
	r.Verdict = LargeHelloDropped
	r.find(classify.RouteLargeHelloDropped,
		fmt.Sprintf("the %s exchange with %v gets no answer with segments of any size, the smaller %s one works", classify.Redact(first, 64), r.Target, small.Exchange),
		classify.Fact{Key: classify.FactHello, Value: classify.Redact(first, 64)})
}

func (r *MTUReport) find(cause classify.Cause, summary string, facts ...classify.Fact) {
	f := classify.New(cause, summary, append([]classify.Fact{{Key: classify.FactAddress, Value: r.Target.String()}}, facts...)...)
	f.Endpoint = r.Target.String()
	r.finding = &f
}

// largeWriteBytes is more than two packets of any size that is in use but
// jumbo frames.
const largeWriteBytes = 4096

// largeWrite sends the start of a TLS record and waits for the peer's kernel to
// confirm it. The record says that more comes, so that no server answers yet.
func largeWrite(ctx context.Context, conn net.Conn) error {
	record := make([]byte, largeWriteBytes)
	copy(record, []byte{22, 3, 1, 0x40, 0}) // handshake, 16384 bytes (RFC 8446, 5.1)
	if _, err := conn.Write(record); err != nil {
		return err
	}
	var one [1]byte
	for ctx.Err() == nil {
		if flowOfConn(conn).AckedBytes >= largeWriteBytes {
			return nil
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		n, err := conn.Read(one[:])
		var netErr net.Error
		switch {
		case n > 0: // whoever answers has read it
			return nil
		case err != nil && !(errors.As(err, &netErr) && netErr.Timeout()):
			return err
		}
	}
	return context.Cause(ctx)
}
