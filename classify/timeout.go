package classify

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
)

// endFinding reads deadlines, cancellations and ends of a stream.
func endFinding(err error, sc scene, isOp bool, op *net.OpError) (Finding, bool) {
	canceled := errors.Is(err, context.Canceled)
	var netErr net.Error
	timeout := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		(errors.As(err, &netErr) && netErr.Timeout())
	switch {
	case sc.limit > 0 && (canceled || timeout || errors.Is(err, net.ErrClosed) || errors.Is(err, fs.ErrClosed)):
		// The step's own limit ended it, whatever way the interruption took.
		return sc.ended(stageTimeout(sc.stage)), true
	case canceled && !timeout:
		return sc.finding(UnknownCanceledNoCause), true
	case timeout && sc.stage == "":
		if c := unstagedTimeout(err, isOp, op); c != "" {
			return sc.ended(c), true
		}
		return Finding{}, false // net/http says more in words
	case timeout && sc.stage == StageProxyConnect && isOp && op.Op == "dial":
		return sc.finding(EndpointProxyUnreachable), true
	case timeout:
		return sc.ended(stageTimeout(sc.stage)), true
	case errors.Is(err, io.ErrUnexpectedEOF):
		return sc.ended(stageEnd(sc.stage, true)), true
	case errors.Is(err, io.EOF):
		return sc.ended(stageEnd(sc.stage, false)), true
	}
	return Finding{}, false
}

// unstagedTimeout reads a timeout that no probe wrapped: only the socket
// operation can say what was waited for.
func unstagedTimeout(err error, isOp bool, op *net.OpError) Cause {
	switch {
	case isOp && op.Op == "dial":
		return RouteConnectTimeout
	case isOp && (op.Op == "read" || op.Op == "write") && strings.HasPrefix(op.Net, "tcp"):
		return EndpointReadTimeout
	}
	for e := err; e != nil; e = unwrapFirst(e) {
		if e == context.DeadlineExceeded && !strings.Contains(err.Error(), "Client.Timeout") {
			return UnknownRequestDeadlineNoStage
		}
	}
	return ""
}

// stageTimeout says what silence means in a stage.
func stageTimeout(s Stage) Cause {
	switch s {
	case StageLookup:
		return DNSResolverTimeout
	case StageConnect:
		return RouteConnectTimeout
	case StageProxyConnect:
		return EndpointProxyRefusedConnect
	case StageHandshake:
		return EndpointTLSHandshakeTimeout
	case StageHeaders:
		return EndpointResponseHeaderTimeout
	case StageBody:
		return EndpointDownloadStalled
	}
	return UnknownRequestDeadlineNoStage
}

// stageEnd says what the end of a stream means in a stage; cut tells that part
// of an answer had arrived.
func stageEnd(s Stage, cut bool) Cause {
	switch s {
	case StageLookup:
		return DNSAnswerMalformed
	case StageProxyConnect:
		return EndpointProxyRefusedConnect
	case StageBody:
		return EndpointDownloadInterrupted
	case "":
		if cut {
			return EndpointDownloadInterrupted
		}
	}
	return EndpointConnectionClosedEOF
}

// ended builds the finding of an interruption, with the other reading that the
// silence of a proxy leaves.
func (sc scene) ended(c Cause) Finding {
	f := sc.finding(c)
	if c == EndpointProxyRefusedConnect {
		f.Alternatives = []Cause{EndpointProxyUnreachable}
	}
	return f
}
