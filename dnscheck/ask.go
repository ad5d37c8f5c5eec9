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

const (
	// searchPatience is how long a silent nameserver holds up the next name of the search list. The
	// runtime would wait its whole timeout; a check that has no longer itself would then never see
	// the next name.
	searchPatience = time.Second
	// drainTime is how long exchanges may take to return once they were told to.
	drainTime = 100 * time.Millisecond
)

// errLimit marks the end of our own limit in a context, so that it can be told from the caller's
// end.
var errLimit = errors.New("dnscheck: limit reached")

// asker puts one question to one nameserver.
type asker struct {
	host      string // looked up, for errors
	exchanger Exchanger
	timeout   time.Duration // of the runtime, for one exchange
	limit     time.Duration // of the whole check
}

// ask goes on over TCP if the answer was truncated. It returns an unsettled observation if the
// caller's end cut it off.
func (k *asker) ask(ctx context.Context, server netip.AddrPort, network string, q Question) observation {
	o := observation{Exchange: Exchange{Network: network}}
	start := time.Now()
	a, err := k.exchanger.Exchange(ctx, server, network, q)
	took := time.Since(start)
	var cut *Answer // the truncated answer, if one came
	if err == nil && a.Truncated && network == "udp" && took <= k.timeout {
		a = a.bounded(q.Type)
		cut = new(Answer)
		*cut = a
		o.Network = "tcp"
		again := time.Now()
		a, err = k.exchanger.Exchange(ctx, server, o.Network, q)
		took = time.Since(again)
	}
	o.silent = took > k.timeout
	o.ElapsedMS = time.Since(start).Milliseconds()
	o.waitMS = o.ElapsedMS

	if err != nil {
		o.Answer = cut
		var u *UnmatchedError
		if errors.As(err, &u) && u.Count > 0 {
			o.Unmatched = u.Unmatched.bounded()
		}
		k.failed(ctx, &o, server, err)
		if cut != nil && o.settled {
			o.Cause = classify.DNSTruncatedNoTCP
		}
		return o
	}
	a = a.bounded(q.Type)
	o.Answer, o.settled = &a, true
	if o.silent {
		o.Cause = classify.DNSResolverTimeout
		o.Error = fmt.Sprintf("answered after %v, when the runtime no longer waits (%v)", took.Round(time.Millisecond), k.timeout)
		return o
	}
	o.kind, o.Cause = judgeAnswer(&a)
	if o.kind == kindNoData && loopOf(q.Name, a.CNAMEs) != "" {
		o.Cause = classify.DNSCNAMELoop
	}
	return o
}

// failed settles o with a failure of the transport, unless it was caused by the end of ctx and
// proves nothing: drain then says so.
func (k *asker) failed(ctx context.Context, o *observation, server netip.AddrPort, err error) {
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
				k.timedOut(o, server, err)
			}
			return
		}
	}
	o.silent = o.silent || waiting
	k.settle(o, server, 0, err)
}

// timedOut settles o with our own limit. That was a timeout of o.ElapsedMS, less than the limit for
// a name that was asked later. It reports false and settles nothing when that is too short to prove
// anything.
func (k *asker) timedOut(o *observation, server netip.AddrPort, err error) bool {
	waited := min(time.Duration(o.ElapsedMS)*time.Millisecond, k.limit)
	if waited < min(searchPatience, k.limit*9/10) {
		o.Error = fmt.Sprintf("not answered within %v, when the time of this check ended", waited)
		return false
	}
	if k.limit-waited < k.limit/20 {
		waited = k.limit
	}
	o.silent, o.limit = true, waited
	k.settle(o, server, waited, err)
	return true
}

// settle records err and its cause. Datagrams that came and were ignored by the rules tell more
// than the timeout that the runtime runs into.
func (k *asker) settle(o *observation, server netip.AddrPort, limit time.Duration, err error) {
	o.settled = true
	o.err = &classify.StageError{Stage: classify.StageLookup, Endpoint: k.host, Limit: limit, Err: err, Address: server.String()}
	o.Error = classify.Redact(err.Error(), maxErrorText)
	switch {
	case limit == 0 && errors.Is(err, ErrMalformed):
		o.Cause = classify.DNSAnswerMalformed
	case o.Unmatched == nil:
		o.Cause = classify.Error(o.err).Cause
	case o.Unmatched.RCode == rcodeRefused:
		o.Cause = classify.DNSRefused
	case o.Unmatched.RCode == rcodeServFail:
		o.Cause = classify.DNSServFail
	default:
		o.Cause = classify.DNSAnswerMismatch
	}
}
