package reach

import (
	"errors"
	"runtime"
	"syscall"
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

// namespaceError says that a network namespace could not be entered, so that
// nothing was asked there. Its errno says nothing about the target.
type namespaceError struct{ err error }

func (e *namespaceError) Error() string { return "reach: network namespace: " + e.err.Error() }

func (e *namespaceError) Unwrap() error { return e.err }
