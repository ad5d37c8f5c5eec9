package classify

import (
	"net"
	"net/netip"
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
