package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

const (
	// searchPatience is how long a silent nameserver holds up the next name of the
	// search list. The runtime would wait its whole timeout; a check that has no
	// longer itself would then never see the next name.
	searchPatience = time.Second
	// drainTime is how long exchanges may take to return once they were told to.
	drainTime    = 100 * time.Millisecond
	maxErrorText = 256
)

// family is an index: A or AAAA.
type family int

const (
	famA family = iota
	famAAAA
	families
)

func (f family) String() string { return [...]string{"A", "AAAA"}[f] }

// lookup asks every nameserver for every name that is needed, and keeps what
// came. Its fields are written by the goroutine of run alone.
type lookup struct {
	name      string
	settings  *Settings
	exchanger Exchanger
	limit     time.Duration
	names     []string // full names in the order of the runtime

	rounds []*round // those of names that were asked, same order
	events chan event
	open   int   // exchanges still out
	ended  error // the caller's end, if it came before everything was seen
	short  bool  // our own limit came too soon after a name was asked to prove silence
}

// round is everything about one full name.
type round struct {
	name    string
	started time.Time
	seen    [][families]observation // per nameserver
}

// observation is an [Exchange] with what the runtime's rules need of it.
type observation struct {
	Exchange
	settled bool
	kind    kind
	silent  bool          // the runtime waits its whole timeout
	waitMS  int64         // what the runtime waits when it is not silent
	limit   time.Duration // our own limit, if that ended it
	err     error
}

// kind is how an answer steers the runtime.
type kind int

const (
	kindMoveOn    kind = iota // the next nameserver is asked
	kindAddresses             // final
	kindNXDomain              // final
	kindNoData                // final
)

type event struct {
	round, server int
	family        family
	observation   observation
}

// run asks until everything is answered or ctx ends.
func (l *lookup) run(ctx context.Context) {
	l.events = make(chan event, len(l.names)*len(l.settings.Nameservers)*int(families))
	l.launch(ctx)
	patience := time.NewTimer(searchPatience)
	defer patience.Stop()
	for l.open > 0 {
		select {
		case ev := <-l.events:
			l.take(ev)
		case <-patience.C:
		case <-ctx.Done():
			l.drain(ctx)
			return
		}
		if l.wantsNext() {
			l.launch(ctx)
			patience.Reset(searchPatience)
		}
	}
}

// launch asks all nameservers for the next name, both families at once.
func (l *lookup) launch(ctx context.Context) {
	i := len(l.rounds)
	r := &round{name: l.names[i], started: time.Now(), seen: make([][families]observation, len(l.settings.Nameservers))}
	l.rounds = append(l.rounds, r)
	for s := range r.seen {
		for f := range families {
			l.open++
			go func() {
				// The channel has room for every event, so that nobody waits here.
				l.events <- event{i, s, f, l.ask(ctx, s, Question{Name: r.name, Type: f.String()})}
			}()
		}
	}
}

func (l *lookup) take(ev event) {
	l.open--
	l.rounds[ev.round].seen[ev.server][ev.family] = ev.observation
}

// drain takes what still comes once ctx has ended, and settles the rest.
func (l *lookup) drain(ctx context.Context) {
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	for waiting := true; waiting && l.open > 0; {
		select {
		case ev := <-l.events:
			l.take(ev)
		case <-timer.C: // an Exchanger that does not heed its context
			waiting = false
		}
	}
	own := errors.Is(context.Cause(ctx), errLimit)
	for _, r := range l.rounds {
		for s := range r.seen {
			for f := range families {
				o := &r.seen[s][f]
				if o.settled {
					continue
				}
				if o.Network == "" {
					o.Network = l.network()
					o.ElapsedMS = time.Since(r.started).Milliseconds()
				}
				switch {
				case !own:
					o.Error = "not answered before the caller's end"
					l.ended = context.Cause(ctx)
				case !l.timedOut(o, s, context.DeadlineExceeded):
					l.short = true
				}
			}
		}
	}
}

// wantsNext reports whether the runtime goes on to the next name: the last one
// gave no address. A nameserver that stays silent is not waited for longer than
// searchPatience, provided that another has said something.
func (l *lookup) wantsNext() bool {
	if len(l.rounds) == len(l.names) {
		return false
	}
	r := l.rounds[len(l.rounds)-1]
	impatient := time.Since(r.started) >= searchPatience
	if impatient {
		impatient = false
		for s := range r.seen {
			for f := range families {
				impatient = impatient || r.seen[s][f].Answer != nil
			}
		}
	}
	for f := range families {
		if o := l.outcome(r, f, impatient); !o.decided || o.kind == kindAddresses {
			return false
		}
	}
	return true
}

func (l *lookup) network() string {
	if l.settings.UseTCP {
		return "tcp"
	}
	return "udp"
}

// ask is one question to one nameserver, over TCP again if the answer was cut.
// It returns an unsettled observation if the caller's end cut it off.
func (l *lookup) ask(ctx context.Context, server int, q Question) observation {
	o := observation{Exchange: Exchange{Network: l.network()}}
	addr := l.settings.Nameservers[server]
	timeout := time.Duration(l.settings.TimeoutMS) * time.Millisecond

	start := time.Now()
	a, err := l.exchanger.Exchange(ctx, addr, o.Network, q)
	took := time.Since(start)
	o.silent = took > timeout
	o.waitMS = took.Milliseconds()
	var cut *Answer // the truncated answer, if one came
	if err == nil && a.Truncated && o.Network == "udp" && !o.silent {
		a = a.bounded(q.Type)
		cut = new(Answer)
		*cut = a
		o.Network = "tcp"
		again := time.Now()
		a, err = l.exchanger.Exchange(ctx, addr, o.Network, q)
		took = time.Since(again)
		o.waitMS = time.Since(start).Milliseconds()
		o.silent = took > timeout
	}
	o.ElapsedMS = time.Since(start).Milliseconds()

	switch {
	case err != nil:
		o.Answer = cut
		l.failed(ctx, &o, server, err)
		if cut != nil && o.settled {
			o.Cause = classify.DNSTruncatedNoTCP
		}
	case o.silent:
		a = a.bounded(q.Type)
		o.Answer, o.settled = &a, true
		o.Cause = classify.DNSResolverTimeout
		o.Error = fmt.Sprintf("answered after %v, when the runtime no longer waits (%v)", took.Round(time.Millisecond), timeout)
	default:
		a = a.bounded(q.Type)
		o.Answer, o.settled = &a, true
		o.kind, o.Cause = judgeAnswer(&a)
	}
	return o
}

// failed settles o with a failure of the transport, unless it is the end of ctx
// that caused it and that proves nothing: drain then says so.
func (l *lookup) failed(ctx context.Context, o *observation, server int, err error) {
	var timeout net.Error
	waiting := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.As(err, &timeout) && timeout.Timeout()
	if waiting {
		// A socket knows the deadline too and may notice it a moment earlier.
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < drainTime/2 {
			<-ctx.Done()
		}
		if ctx.Err() != nil {
			if errors.Is(context.Cause(ctx), errLimit) {
				l.timedOut(o, server, err)
			}
			return
		}
	}
	o.settled = true
	o.silent = o.silent || waiting
	o.err = l.stageError(server, 0, err)
	if errors.Is(err, ErrMalformed) {
		o.Cause = classify.DNSAnswerMalformed
	} else {
		o.Cause = classify.Error(o.err).Cause
	}
	o.Error = classify.Redact(err.Error(), maxErrorText)
}

// timedOut settles o with our own limit. How long that was silence is
// o.ElapsedMS, less than the limit for a name that was asked later. It reports
// false and settles nothing when that is too short to prove anything.
func (l *lookup) timedOut(o *observation, server int, err error) bool {
	waited := min(time.Duration(o.ElapsedMS)*time.Millisecond, l.limit)
	if waited < min(searchPatience, l.limit*9/10) {
		o.Error = fmt.Sprintf("not answered within %v, when the time of this check ended", waited)
		return false
	}
	if l.limit-waited < l.limit/20 {
		waited = l.limit
	}
	o.settled, o.silent, o.limit = true, true, waited
	o.err = l.stageError(server, waited, err)
	o.Cause = classify.Error(o.err).Cause
	o.Error = classify.Redact(err.Error(), maxErrorText)
	return true
}

func (l *lookup) stageError(server int, limit time.Duration, err error) error {
	return &classify.StageError{
		Stage: classify.StageLookup, Endpoint: l.name, Limit: limit, Err: err,
		Address: l.settings.Nameservers[server].String(),
	}
}

// judgeAnswer says how a complete answer steers Go's resolver (checkHeader and
// skipToAnswer in net's dnsclient_unix.go), and what it amounts to.
func judgeAnswer(a *Answer) (kind, classify.Cause) {
	switch {
	case a.RCode == rcodeNXDomain:
		return kindNXDomain, classify.DNSNXDOMAIN
	case a.RCode == rcodeRefused:
		return kindMoveOn, classify.DNSRefused
	case a.RCode != rcodeOK:
		// FORMERR, NOTIMP and the rest are shown like SERVFAIL: "server misbehaving".
		return kindMoveOn, classify.DNSServFail
	case len(a.Addresses) > 0:
		return kindAddresses, ""
	case a.Lame:
		return kindMoveOn, classify.DNSServFail
	default:
		return kindNoData, classify.DNSNoData
	}
}
