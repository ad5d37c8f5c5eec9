package classify

import (
	"net"
	"net/netip"
	"strings"
)

// errnoCause says what an error number means where it occurred. established
// tells that the connection existed already, so the same number means something
// else than during the connect. "" = this number says nothing about a pull.
//
// The numbers of a refused route are those of the Linux kernel's route types:
// unreachable gives EHOSTUNREACH, prohibit EACCES, blackhole EINVAL (ip-route(8)).
func errnoCause(symbol string, sc scene, established bool) Cause {
	switch symbol {
	case "EMFILE", "ENFILE", "ENOBUFS", "ENOMEM":
		return NodeLocalLimit
	case "ENOSPC", "EDQUOT":
		return NodeDiskFull
	}
	if sc.stage == StageLookup {
		return errnoLookupCause(symbol)
	}
	if sc.unix {
		return NodeRuntimeUnavailable
	}
	if sc.stage == StageProxyConnect {
		return errnoProxyCause(symbol, established)
	}
	if !established && bogus(sc) {
		return DNSBogusAddress
	}
	switch symbol {
	case "ECONNREFUSED":
		return EndpointConnectionRefused
	case "ECONNRESET", "EPIPE", "ECONNABORTED":
		return EndpointConnectionReset
	case "EHOSTUNREACH", "EHOSTDOWN":
		return RouteNoRouteToHost
	case "ENETUNREACH", "ENETDOWN", "EAFNOSUPPORT":
		if isIPv6(sc.address) {
			return RouteIPv6Unreachable
		}
		return RouteNetworkUnreachable
	case "ETIMEDOUT":
		if established {
			return EndpointReadTimeout
		}
		return RouteConnectTimeout
	}
	if established {
		return ""
	}
	switch symbol {
	case "EADDRNOTAVAIL":
		// For IPv6 the node has no source address to offer; for IPv4 it has
		// run out of local ports.
		if isIPv6(sc.address) {
			return RouteIPv6Unreachable
		}
		return NodeLocalLimit
	case "EACCES", "EPERM":
		return RouteProhibited
	case "EINVAL":
		return RouteBlackhole
	}
	return ""
}

func errnoLookupCause(symbol string) Cause {
	switch symbol {
	case "ECONNREFUSED":
		return DNSResolverPortClosed
	case "ENETUNREACH", "EHOSTUNREACH", "ENETDOWN", "EHOSTDOWN", "EADDRNOTAVAIL", "EAFNOSUPPORT", "EACCES", "EPERM", "EINVAL":
		return DNSResolverUnreachable
	case "ETIMEDOUT":
		return DNSResolverTimeout
	case "ECONNRESET", "EPIPE", "ECONNABORTED":
		return DNSAnswerMalformed
	}
	return ""
}

func errnoProxyCause(symbol string, established bool) Cause {
	switch symbol {
	case "ECONNRESET", "EPIPE", "ECONNABORTED":
		if established {
			return EndpointProxyRefusedConnect
		}
		return EndpointProxyUnreachable
	case "ECONNREFUSED", "EHOSTUNREACH", "EHOSTDOWN", "ENETUNREACH", "ENETDOWN", "EAFNOSUPPORT", "ETIMEDOUT", "EADDRNOTAVAIL", "EACCES", "EPERM", "EINVAL":
		return EndpointProxyUnreachable
	}
	return ""
}

// isIPv6 reports whether address, with or without a port, is an IPv6 address
// that is not an IPv4 address in disguise.
func isIPv6(address string) bool {
	host := address
	if h, _, err := net.SplitHostPort(address); err == nil {
		host = h
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Is6() && !a.Is4In6()
}

// bogus reports whether a name led to an address of "this network" (RFC 791,
// 0.0.0.0/8), which filtering resolvers hand out and no host can have.
func bogus(sc scene) bool {
	host := sc.address
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	a, err := netip.ParseAddr(host)
	if err != nil || !a.Is4() || a.As4()[0] != 0 {
		return false
	}
	name := sc.endpoint
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	if name == "" {
		return false
	}
	_, err = netip.ParseAddr(name)
	return err != nil
}

// lookupCause reads what stands after "lookup NAME on SERVER: ". Whatever it
// is, the layer is dns: a refusal there is the nameserver's port, not the
// registry's. "" = not understood.
func lookupCause(tail string) Cause {
	t := strings.ToLower(tail)
	if symbol := wordsErrno(t); symbol != "" {
		if c := errnoCause(symbol, scene{stage: StageLookup}, true); c != "" {
			return c
		}
	}
	for _, w := range lookupWords {
		if strings.Contains(t, w.words) {
			return w.cause
		}
	}
	return ""
}

// lookupWords are the words of Go's resolver, of the C library (gai_strerror)
// and of Winsock.
var lookupWords = []struct {
	words string
	cause Cause
}{
	{"no such host", DNSNXDOMAIN},
	{"name or service not known", DNSNXDOMAIN},
	{"nodename nor servname provided", DNSNXDOMAIN},
	{"no suitable address found", DNSNoUsableAddress},
	{"no address associated with hostname", DNSNoUsableAddress},
	{"server misbehaving", DNSServFail},
	{"servfail", DNSServFail},
	{"lame referral", DNSServFail},
	{"non-recoverable failure in name resolution", DNSServFail},
	{"temporary failure in name resolution", DNSTemporaryFailure},
	{"usually a temporary error", DNSTemporaryFailure},
	{"non-recoverable error occurred during a database lookup", DNSServFail},
	{"no data of the requested type was found", DNSNoData},
	{"try again", DNSTemporaryFailure},
	{"i/o timeout", DNSResolverTimeout},
	{"timed out", DNSResolverTimeout},
	{"deadline exceeded", DNSResolverTimeout},
	{"operation was canceled", DNSResolverTimeout},
	{"cannot unmarshal dns message", DNSAnswerMalformed},
	{"invalid dns response", DNSAnswerMalformed},
	{"no answer from dns server", DNSAnswerMalformed},
	{"unexpected eof", DNSAnswerMalformed},
	// Windows in another language. Go tells a name that does not exist from the
	// rest by its number and words it itself, so this is not one.
	{"getaddrinfow: ", DNSTemporaryFailure},
}

// lookupAlternatives are the answers that Go's resolver words alike: an empty
// answer as "no such host", a refusal as "server misbehaving".
func lookupAlternatives(c Cause) []Cause {
	switch c {
	case DNSNXDOMAIN:
		return []Cause{DNSNoData}
	case DNSServFail:
		return []Cause{DNSRefused}
	}
	return nil
}

// wordsErrno returns the symbol of an operating system error that t ends in or
// contains. Windows prints sentences of its own after the name of the call.
func wordsErrno(t string) string {
	t = strings.ToLower(t)
	for _, w := range errnoWords {
		if strings.Contains(t, w.words) {
			return w.symbol
		}
	}
	return ""
}

// errnoWords are strerror texts (POSIX names in errno.h) and the sentences of
// Winsock.
var errnoWords = []struct{ words, symbol string }{
	{"connection refused", "ECONNREFUSED"},
	{"actively refused it", "ECONNREFUSED"},
	{"connection reset by peer", "ECONNRESET"},
	{"forcibly closed by the remote host", "ECONNRESET"},
	{"broken pipe", "EPIPE"},
	{"connection was aborted", "ECONNABORTED"},
	{"software caused connection abort", "ECONNABORTED"},
	{"connection timed out", "ETIMEDOUT"},
	{"did not properly respond after a period of time", "ETIMEDOUT"},
	{"operation timed out", "ETIMEDOUT"},
	{"network is unreachable", "ENETUNREACH"},
	{"unreachable network", "ENETUNREACH"},
	{"no route to host", "EHOSTUNREACH"},
	{"unreachable host", "EHOSTUNREACH"},
	{"host is down", "EHOSTDOWN"},
	{"network is down", "ENETDOWN"},
	{"assign requested address", "EADDRNOTAVAIL"},
	{"requested address is not valid in its context", "EADDRNOTAVAIL"},
	{"address family not supported", "EAFNOSUPPORT"},
	{"permission denied", "EACCES"},
	{"operation not permitted", "EPERM"},
	{"forbidden by its access permissions", "EACCES"},
	{"invalid argument", "EINVAL"},
	{"too many open files", "EMFILE"},
	{"no buffer space available", "ENOBUFS"},
	{"no space left on device", "ENOSPC"},
}
