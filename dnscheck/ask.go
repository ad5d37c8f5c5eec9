package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// ask is one question to one nameserver, over TCP again if the answer was cut.
// It returns an unsettled observation if the caller's end cut it off.
func (l *lookup) ask(ctx context.Context, server netip.AddrPort, network string, q Question) observation {
	o := observation{Exchange: Exchange{Network: network}}
	timeout := time.Duration(l.settings.TimeoutMS) * time.Millisecond

	start := time.Now()
	a, err := l.exchanger.Exchange(ctx, server, o.Network, q)
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
		a, err = l.exchanger.Exchange(ctx, server, o.Network, q)
		took = time.Since(again)
		o.waitMS = time.Since(start).Milliseconds()
		o.silent = took > timeout
	}
	o.ElapsedMS = time.Since(start).Milliseconds()

	switch {
	case err != nil:
		o.Answer = cut
		o.Unmatched = unmatched(err)
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
		if o.kind == kindNoData && loopOf(q.Name, a.CNAMEs) != "" {
			o.Cause = classify.DNSCNAMELoop
		}
	}
	return o
}

// unmatched takes from an Exchanger's error what came and did not belong to the
// question; nil = nothing did.
func unmatched(err error) *Unmatched {
	var u *UnmatchedError
	if errors.As(err, &u) && u.Count > 0 {
		return u.Unmatched.bounded()
	}
	return nil
}

// failed settles o with a failure of the transport, unless it is the end of ctx
// that caused it and that proves nothing: drain then says so.
func (l *lookup) failed(ctx context.Context, o *observation, server netip.AddrPort, err error) {
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
		o.Cause = l.transportCause(o)
	}
	o.Error = classify.Redact(err.Error(), maxErrorText)
}

// transportCause is what a failed exchange amounts to. What came and was ignored
// by the rules tells more than the silence that the runtime is left with.
func (l *lookup) transportCause(o *observation) classify.Cause {
	if o.Unmatched == nil {
		return classify.Error(o.err).Cause
	}
	switch o.Unmatched.RCode {
	case rcodeRefused:
		return classify.DNSRefused
	case rcodeServFail:
		return classify.DNSServFail
	}
	return classify.DNSAnswerMismatch
}

// timedOut settles o with our own limit. How long that was silence is
// o.ElapsedMS, less than the limit for a name that was asked later. It reports
// false and settles nothing when that is too short to prove anything.
func (l *lookup) timedOut(o *observation, server netip.AddrPort, err error) bool {
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
	o.Cause = l.transportCause(o)
	o.Error = classify.Redact(err.Error(), maxErrorText)
	return true
}

func (l *lookup) stageError(server netip.AddrPort, limit time.Duration, err error) error {
	return &classify.StageError{
		Stage: classify.StageLookup, Endpoint: l.name, Limit: limit, Err: err, Address: server.String(),
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
