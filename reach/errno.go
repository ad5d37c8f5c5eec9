package reach

import (
	"errors"
	"runtime"
	"syscall"

	"github.com/pullwalk/pullwalk/classify"
)

// errnoOf returns the POSIX name of the operating system's error number inside
// err, "" if there is none or it has no such name.
func errnoOf(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != 0 {
		return errnoName(errno)
	}
	return ""
}

// refusal returns the kind of route that answers with errno; "" if errno is no
// answer about a route.
func refusal(errno string) RouteKind {
	switch errno {
	case "ENETUNREACH", "EAFNOSUPPORT": // the latter: a kernel started without that family
		return RouteNone
	case "EHOSTUNREACH":
		return RouteUnreachable
	case "EACCES":
		return RouteProhibit
	case "EINVAL":
		// fib_props in net/ipv4/fib_semantics.c of Linux; other kernels throw
		// away in silence.
		if runtime.GOOS == "linux" {
			return RouteBlackhole
		}
	}
	return ""
}

// outOfDescriptors reports whether the process (EMFILE) or the machine (ENFILE)
// has no file descriptor left.
func outOfDescriptors(errno string) bool { return errno == "EMFILE" || errno == "ENFILE" }

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
