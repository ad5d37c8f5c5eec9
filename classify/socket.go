package classify

import "strings"

// lookup reads "lookup NAME on SERVER: ...". Whatever follows, the layer is dns,
// except for the node's own limits, which [piece.local] has read before.
func (p *piece) lookup() (hit, bool) {
	const word = "lookup "
	if p.has("no suitable address found") {
		// net.AddrError: address NAME: no suitable address found
		before, _, _ := strings.Cut(p.flat, ": no suitable address found")
		if i := strings.LastIndex(before, "address "); i >= 0 && validName(before[i+len("address "):]) {
			return hit{cause: DNSNoUsableAddress, endpoint: before[i+len("address "):]}, true
		}
	}
	if !p.has(word) {
		return hit{}, false
	}
	for end := len(p.lower); ; {
		i := strings.LastIndex(p.lower[:end], word)
		if i < 0 {
			return hit{}, false
		}
		end = i
		if i > 0 && strings.IndexByte(" :\"(", p.lower[i-1]) < 0 {
			continue
		}
		rest := p.flat[i+len(word):]
		name, server, tail, ok := splitLookup(rest)
		if !ok {
			continue
		}
		tail = tail[:min(len(tail), 300)]
		c := lookupCause(tail)
		if c == "" {
			p.stopped = server != ""
			return hit{}, false
		}
		facts := fact(FactResolver, server, FactErrno, wordsErrno(tail))
		return hit{cause: c, endpoint: name, facts: facts, alternatives: lookupAlternatives(c)}, true
	}
}

func splitLookup(rest string) (name, server, tail string, ok bool) {
	n := strings.IndexAny(rest, " ,;\"'()")
	if n < 0 || n > 256 {
		n = min(len(rest), 256)
	}
	name = rest[:n]
	if strings.HasSuffix(name, ":") {
		name = name[:len(name)-1]
		return name, "", strings.TrimPrefix(rest[n:], " "), validName(name)
	}
	after, found := strings.CutPrefix(rest[n:], " on ")
	if !found || !validName(name) {
		return "", "", "", false
	}
	i := strings.Index(after[:min(len(after), 130)], ": ")
	if i < 0 || strings.Contains(after[:i], " ") {
		return "", "", "", false
	}
	return name, after[:i], after[i+2:], true
}

// socket reads "dial tcp ADDRESS: ...", "read tcp A->B: ..." and the like.
func (p *piece) socket() (hit, bool) {
	if !p.words.anyOf(socketTable()) {
		return hit{}, false
	}
	at, word := -1, ""
	for _, w := range socketWords {
		if !p.has(w) {
			continue
		}
		if last := strings.LastIndex(p.lower, w); last > at {
			at, word = last, w
		}
	}
	rest := p.flat[at+len(word):]
	if rest != "" && (rest[0] == '4' || rest[0] == '6') {
		rest = rest[1:] // the family
	}
	if rest == "" {
		return hit{}, false // cut
	}
	address := ""
	if rest[0] == ' ' {
		i := strings.Index(rest[:min(len(rest), 300)], ": ")
		if i < 0 {
			return hit{}, false
		}
		address, rest = strings.TrimSpace(rest[1:i]), rest[i:]
		if _, to, ok := strings.Cut(address, "->"); ok {
			address = to
		}
		if !hasPort(address) || strings.ContainsAny(address, "<> ") {
			address = ""
		}
	}
	rest = asciiLower(rest[:min(len(rest), 300)])
	established := word != "dial tcp"
	sc := scene{address: address, endpoint: p.req.host}
	h := hit{address: address}
	if p.proxied() {
		sc.stage, h.endpoint, h.nobody = StageProxyConnect, address, address == ""
	}
	if symbol := wordsErrno(rest); symbol != "" {
		h.cause = errnoCause(symbol, sc, established)
		h.facts = []Fact{{FactErrno, symbol}}
		return h, h.cause != ""
	}
	switch {
	case established && (strings.HasPrefix(rest, ": wsarecv: ") || strings.HasPrefix(rest, ": wsasend: ")):
		// Windows in another language: only the call's name can be read. That
		// an open connection broke is sure; of connectex one could not tell a
		// refusal from a timeout, and that is left unknown.
		h.cause = errnoCause("ECONNRESET", sc, true)
		if h.cause == EndpointConnectionReset {
			h.alternatives = []Cause{EndpointReadTimeout}
		}
	case !strings.Contains(rest, "i/o timeout"):
		return hit{}, false // "operation was canceled" and others: read further on
	case sc.stage == StageProxyConnect:
		h.cause = EndpointProxyUnreachable
	case established:
		h.cause = EndpointReadTimeout
	default:
		h.cause = RouteConnectTimeout
	}
	return h, true
}

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

// goWords are the exact texts of errors that the standard library keeps to
// itself. A live error that is one of them is as sure as a type.
var goWords = []string{
	"net/http: TLS handshake timeout", "net/http: timeout awaiting response headers", "net/http: request canceled while waiting for connection",
	"http: server closed idle connection", "stopped after 10 redirects", "http2: client connection lost",
	"tls: server selected unsupported protocol version 301", "tls: server selected unsupported protocol version 302",
	"tls: server chose an unconfigured cipher suite", "Proxy Authentication Required",
}

// transport reads what net/http prints about a request that got no answer.
func (p *piece) transport() (hit, bool) {
	w, ok := p.matchBehind(transportTable(), p.tail)
	if !ok {
		return hit{}, false
	}
	h := w.hit()
	switch w.cause {
	case RouteConnectWaitTimeout:
		h.alternatives = []Cause{DNSResolverTimeout, RouteConnectTimeout, EndpointTLSHandshakeTimeout}
	case UnknownRequestDeadlineNoStage:
		h.alternatives = []Cause{DNSResolverTimeout, RouteConnectTimeout, EndpointTLSHandshakeTimeout, EndpointResponseHeaderTimeout}
	case EndpointResponseHeaderTimeout:
		if strings.Contains(w.words, "client.timeout") {
			h.alternatives = []Cause{EndpointTLSHandshakeTimeout, RouteConnectTimeout}
		}
	case EndpointHTTP2StreamError:
		words := p.flat[strings.LastIndex(p.lower, w.words):]
		h.facts = fact(FactMessage, words[:min(len(words), 120)])
	}
	if h.cause == EndpointTLSHandshakeTimeout && p.proxied() {
		h.nobody = true
	}
	return h, true
}

// proxyPhrase reads a bare status phrase right after the URL. net/http prints
// the answer of a forward proxy to CONNECT that way, without a number; what a
// registry answers has one, or a code in lower case.
func (p *piece) proxyPhrase() (hit, bool) {
	if !p.hasReq || p.req.status {
		return hit{}, false
	}
	rest, ok := p.behindRequest()
	if !ok {
		return hit{}, false
	}
	phrase, _, _ := strings.Cut(rest, "\n")
	if whole := spaced(rest[:min(len(rest), 40)]); strings.HasPrefix(whole, "Proxy Authentication Required") {
		phrase = "Proxy Authentication Required"
	}
	phrase, _, _ = strings.Cut(phrase, ". ")
	phrase, _, _ = strings.Cut(phrase, "\"")
	phrase, _, _ = strings.Cut(phrase, ", ")
	phrase = strings.TrimRight(phrase, " .)]'")
	if len(phrase) < 3 || len(phrase) > 80 || phrase[0] < 'A' || phrase[0] > 'Z' || phrase == "EOF" {
		return hit{}, false
	}
	for _, c := range phrase {
		if strings.ContainsRune(" -'()/", c) || (c >= '0' && c <= '9') {
			continue
		}
		if c < 'A' || c > 'z' || (c > 'Z' && c < 'a') {
			return hit{}, false
		}
	}
	if strings.ToUpper(phrase) == phrase {
		return hit{}, false // the head of a registry's code
	}
	if strings.HasPrefix("Proxy Authentication Required", phrase) {
		return hit{cause: EndpointProxyAuthRequired, facts: []Fact{{FactStatus, "407"}}}, true
	}
	return hit{cause: EndpointProxyRefusedConnect, facts: fact(FactMessage, phrase)}, true
}

// end reads what is left when nothing better was found: ends of a stream and
// bare deadlines.
func (p *piece) end() (hit, bool) {
	tail := strings.TrimRight(p.flat[p.tail:], " .\"')]}")
	lower := p.lower[p.tail:]
	switch {
	case p.proxied() && strings.HasSuffix(tail, "EOF"):
		return hit{cause: EndpointProxyRefusedConnect, alternatives: []Cause{EndpointProxyUnreachable}}, true
	case strings.Contains(lower, "unexpected eof"):
		return hit{cause: EndpointDownloadInterrupted}, true
	case p.hasReq && strings.HasPrefix(p.flat[p.tail:], ": EOF"), strings.HasSuffix(tail, "transport connection broken: EOF"):
		return hit{cause: EndpointConnectionClosedEOF}, true
	case p.hasReq && strings.Contains(lower, "context deadline exceeded"):
		return hit{cause: UnknownRequestDeadlineNoStage}, true
	case strings.Contains(lower, "context deadline exceeded"):
		return hit{cause: UnknownDeadlineNoCause}, true
	case containsAny(lower, []string{"context canceled", "request canceled", "operation was canceled", "rst_stream with error code: cancel"}):
		return hit{cause: UnknownCanceledNoCause}, true
	}
	if h, ok := p.looseErrno(lower); ok {
		return h, true
	}
	if p.hasReq && strings.Trim(tail, " \"'.:)\u2026") == "" && (p.req.status || p.has("failed to do request: ")) {
		return hit{cause: UnknownTruncatedNoCause}, true
	}
	if p.truncated() {
		return hit{cause: UnknownTruncatedNoCause, operation: OperationUnknown}, true
	}
	return hit{}, false
}

// looseErrno reads an operating system's words right behind a request, from
// clients that do not name the socket.
func (p *piece) looseErrno(tail string) (hit, bool) {
	if !p.hasReq || p.req.status {
		return hit{}, false
	}
	tail = tail[:min(len(tail), 200)]
	switch symbol := wordsErrno(tail); symbol {
	case "ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT":
		return hit{cause: errnoCause(symbol, scene{}, false), facts: []Fact{{FactErrno, symbol}}}, true
	}
	if strings.Contains(tail, "i/o timeout") {
		return hit{cause: UnknownRequestDeadlineNoStage}, true
	}
	return hit{}, false
}

// truncated reports whether the text says that a pull failed and is cut off
// inside one of the wrappers, before any cause.
func (p *piece) truncated() bool {
	if !p.has("failed to pull ") && !p.has("pull and unpack image") && !p.has("errimagepull:") && !p.has("get sandbox image") {
		return false
	}
	text := strings.TrimRight(p.lower, " \"'")
	bare := strings.TrimSuffix(strings.TrimRight(text, "."), "\u2026")
	if bare != text && strings.HasSuffix(text, "...") || strings.HasSuffix(text, "\u2026") || strings.HasSuffix(text, ":") || strings.HasSuffix(text, " desc =") {
		return true
	}
	for _, w := range wrapperWords {
		for n := min(len(w)-1, len(bare)); n >= 3; n-- {
			if strings.HasSuffix(bare, w[:n]) && (n > 3 || strings.HasSuffix(bare[:len(bare)-n], ": ")) && (n == len(bare) || !isLetter(bare[len(bare)-n-1])) {
				return true
			}
		}
	}
	// A reference whose quote never closes.
	i := strings.LastIndex(bare, "image \"")
	return i >= 0 && strings.IndexByte(p.lower[i+len("image \""):], '"') < 0
}
