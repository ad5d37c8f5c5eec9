package classify

import (
	"net"
	"net/netip"
	"slices"
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
	reset := slices.Contains(resetErrnos, symbol)
	unreachable := slices.Contains(unreachableErrnos, symbol)
	switch {
	case sc.stage == StageLookup && symbol == "ECONNREFUSED":
		return DNSResolverPortClosed
	case sc.stage == StageLookup && symbol == "ETIMEDOUT":
		return DNSResolverTimeout
	case sc.stage == StageLookup && unreachable:
		return DNSResolverUnreachable
	case sc.stage == StageLookup && reset:
		return DNSAnswerMalformed
	case sc.stage == StageLookup:
		return ""
	case sc.unix:
		return NodeRuntimeUnavailable
	case sc.stage == StageProxyConnect && reset && established:
		return EndpointProxyRefusedConnect
	case sc.stage == StageProxyConnect && (reset || unreachable || symbol == "ECONNREFUSED" || symbol == "ETIMEDOUT"):
		return EndpointProxyUnreachable
	case sc.stage == StageProxyConnect:
		return ""
	case !established && bogus(sc):
		return DNSBogusAddress
	case reset:
		return EndpointConnectionReset
	}
	return peerErrno(symbol, isIPv6(sc.address), established)
}

var (
	resetErrnos       = []string{"ECONNRESET", "EPIPE", "ECONNABORTED"}
	unreachableErrnos = []string{
		"ENETUNREACH", "EHOSTUNREACH", "ENETDOWN", "EHOSTDOWN", "EADDRNOTAVAIL", "EAFNOSUPPORT", "EACCES", "EPERM", "EINVAL",
	}
)

// peerErrno is errnoCause for the connection to a registry itself.
func peerErrno(symbol string, ipv6, established bool) Cause {
	switch symbol {
	case "ECONNREFUSED":
		return EndpointConnectionRefused
	case "EHOSTUNREACH", "EHOSTDOWN":
		return RouteNoRouteToHost
	case "ENETUNREACH", "ENETDOWN", "EAFNOSUPPORT":
		if ipv6 {
			return RouteIPv6Unreachable
		}
		return RouteNetworkUnreachable
	case "ETIMEDOUT":
		if established {
			return EndpointReadTimeout
		}
		return RouteConnectTimeout
	}
	switch {
	case established:
		return ""
	case symbol == "EADDRNOTAVAIL" && ipv6: // the node has no source address to offer
		return RouteIPv6Unreachable
	case symbol == "EADDRNOTAVAIL": // it has run out of local ports
		return NodeLocalLimit
	case symbol == "EACCES" || symbol == "EPERM":
		return RouteProhibited
	case symbol == "EINVAL":
		return RouteBlackhole
	}
	return ""
}

// ipOf returns the address in host or host:port.
func ipOf(host string) (netip.Addr, bool) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	a, err := netip.ParseAddr(host)
	return a, err == nil
}

// isIPv6 reports whether address, with or without a port, is an IPv6 address
// that is not an IPv4 address in disguise.
func isIPv6(address string) bool {
	a, ok := ipOf(address)
	return ok && a.Is6() && !a.Is4In6()
}

// bogus reports whether a name led to an address of "this network" (RFC 791,
// 0.0.0.0/8), which filtering resolvers hand out and no host can have.
func bogus(sc scene) bool {
	a, ok := ipOf(sc.address)
	if !ok || !a.Is4() || a.As4()[0] != 0 {
		return false
	}
	_, isIP := ipOf(sc.endpoint)
	return !isIP && sc.endpoint != "" && !strings.HasPrefix(sc.endpoint, ":")
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
	for _, p := range lookupPhrases {
		if containsAny(t, p.texts) {
			return p.cause
		}
	}
	return ""
}

// lookupPhrases are the words of Go's resolver, of the C library (gai_strerror)
// and of Winsock.
var lookupPhrases = []phrases{
	{DNSNXDOMAIN, "", "", []string{"no such host", "name or service not known", "nodename nor servname provided"}},
	{DNSNoUsableAddress, "", "", []string{"no suitable address found", "no address associated with hostname"}},
	{DNSServFail, "", "", []string{"server misbehaving", "servfail", "lame referral", "non-recoverable failure in name resolution"}},
	{DNSTemporaryFailure, "", "", []string{"temporary failure in name resolution", "usually a temporary error"}},
	{DNSServFail, "", "", []string{"non-recoverable error occurred during a database lookup"}},
	{DNSNoData, "", "", []string{"no data of the requested type was found"}},
	{DNSTemporaryFailure, "", "", []string{"try again"}},
	{DNSResolverTimeout, "", "", []string{"i/o timeout", "timed out", "deadline exceeded", "operation was canceled"}},
	{DNSAnswerMalformed, "", "", []string{"cannot unmarshal dns message", "invalid dns response", "no answer from dns server", "unexpected eof"}},
	// Windows in another language. Go tells a name that does not exist from the
	// rest by its number and words it itself, so this is not one.
	{DNSTemporaryFailure, "", "", []string{"getaddrinfow: "}},
}

// lookupAlternatives are the answers that Go's resolver words alike: an empty
// answer as "no such host", a refusal as "server misbehaving".
func lookupAlternatives(c Cause) []Cause {
	switch c {
	case DNSNXDOMAIN:
		return append(make([]Cause, 0, 2), DNSNoData)
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
		if containsAny(t, w.words) {
			return w.symbol
		}
	}
	return ""
}

// errnoWords are strerror texts (POSIX names in errno.h) and the sentences of
// Winsock.
var errnoWords = []struct {
	symbol string
	words  []string
}{
	{"ECONNREFUSED", []string{"connection refused", "actively refused it"}},
	{"ECONNRESET", []string{"connection reset by peer", "forcibly closed by the remote host"}},
	{"EPIPE", []string{"broken pipe"}},
	{"ECONNABORTED", []string{"connection was aborted", "software caused connection abort"}},
	{"ETIMEDOUT", []string{"connection timed out", "did not properly respond after a period of time", "operation timed out"}},
	{"ENETUNREACH", []string{"network is unreachable", "unreachable network"}},
	{"EHOSTUNREACH", []string{"no route to host", "unreachable host"}},
	{"EHOSTDOWN", []string{"host is down"}},
	{"ENETDOWN", []string{"network is down"}},
	{"EADDRNOTAVAIL", []string{"assign requested address", "requested address is not valid in its context"}},
	{"EAFNOSUPPORT", []string{"address family not supported"}},
	{"EACCES", []string{"permission denied"}},
	{"EPERM", []string{"operation not permitted"}},
	{"EACCES", []string{"forbidden by its access permissions"}},
	{"EINVAL", []string{"invalid argument"}},
	{"EMFILE", []string{"too many open files"}},
	{"ENOBUFS", []string{"no buffer space available"}},
	{"ENOSPC", []string{"no space left on device"}},
}
