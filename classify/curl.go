package classify

import "strings"

// curl reads what the curl program prints, "curl: (28) Failed to connect to HOST
// port 443 after 5001 ms: Timeout was reached". Health checks of nodes ask a
// registry with it. The numbers stand in libcurl-errors(3).
func (p *piece) curl() (hit, bool) {
	const mark = "curl: ("
	if !p.has(mark) {
		return hit{}, false
	}
	i := strings.LastIndex(p.lower, mark) + len(mark)
	number, words, ok := strings.Cut(p.lower[i:min(len(p.lower), i+400)], ") ")
	if !ok {
		return hit{}, false
	}
	h := hit{endpoint: curlHost(asciiLower(p.s[i+len(number)+2:][:len(words)]))}
	if name, _, _ := strings.Cut(h.endpoint, ":"); name == "localhost" || strings.HasPrefix(name, "127.") {
		return hit{}, false // some program of the node
	}
	symbol := wordsErrno(words)
	says := func(w string) bool { return strings.Contains(words, w) }
	switch {
	case number == "5" || number == "6":
		h.cause, h.alternatives, h.nobody = DNSNXDOMAIN, []Cause{DNSTemporaryFailure}, number == "5"
	case says("resolving timed out"):
		h.cause = DNSResolverTimeout
	case number == "7" && symbol == "":
		h.cause, h.alternatives = EndpointConnectionRefused, []Cause{RouteConnectTimeout, RouteNoRouteToHost}
	case number == "28" && (says("ssl connection timeout") || says("tls connect timeout")):
		h.cause = EndpointTLSHandshakeTimeout
	case number == "28" && (says("failed to connect") || says("connection time")):
		h.cause = RouteConnectTimeout
	case number == "28" && says(" 0 bytes received"):
		h.cause, h.alternatives = EndpointResponseHeaderTimeout, []Cause{RouteConnectTimeout, EndpointTLSHandshakeTimeout}
	case number == "28" && says("operation"):
		h.cause = EndpointDownloadStalled
	case number == "35" && says("ssl_error_syscall"):
		h.cause, h.alternatives = EndpointConnectionReset, []Cause{EndpointConnectionClosedEOF}
	case number == "35" && (says("unexpected eof") || says("non-properly terminated")), number == "52":
		h.cause = EndpointConnectionClosedEOF
	case number == "56" && (says("code 407 from proxy") || says("tunnel failed, response 407")):
		h.cause, h.nobody = EndpointProxyAuthRequired, true
	case number == "56" && (says(" from proxy after connect") || says("tunnel failed, response ")):
		h.cause, h.nobody = EndpointProxyRefusedConnect, true
	case number == "18":
		h.cause = EndpointDownloadInterrupted
	case (number == "7" || number == "35" || number == "56") && symbol != "":
		h.cause = errnoCause(symbol, scene{}, number != "7")
		h.facts = []Fact{{FactErrno, symbol}}
	}
	return h, h.cause != ""
}

// curlHost returns the host in curl's words, with a port where they name one.
func curlHost(words string) string {
	for _, m := range [...]string{"failed to connect to ", "could not resolve host: ", "in connection to "} {
		_, rest, ok := strings.Cut(words, m)
		if !ok {
			continue
		}
		host := rest
		if n := strings.IndexAny(rest, " \n,;\"'"); n >= 0 {
			if host, rest = rest[:n], rest[n:]; rest[0] == '\n' {
				return "" // perhaps its head only
			}
		}
		if host = strings.TrimRight(host, ".:"); !validName(host) {
			return ""
		}
		if after, ok := strings.CutPrefix(rest, " port "); ok {
			n := 0
			for n < len(after) && after[n] >= '0' && after[n] <= '9' {
				n++
			}
			return joinPort(host, after[:n])
		}
		return host
	}
	return ""
}
