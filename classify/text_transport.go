package classify

import "strings"

var socketTable = idsOf([]string{"dial tcp", "read tcp", "write tcp"})

// socket reads "dial tcp ADDRESS: ...", "read tcp A->B: ..." and the like.
func (p *piece) socket() (hit, bool) {
	if !p.words.anyOf(socketTable()) {
		return hit{}, false
	}
	at, word := -1, ""
	for _, w := range [...]string{"dial tcp", "read tcp", "write tcp"} {
		if !p.has(w) {
			continue
		}
		if i := strings.LastIndex(p.lower, w); i > at {
			at, word = i, w
		}
	}
	if at < 0 {
		return hit{}, false
	}
	for _, family := range [...]string{"4", "6"} {
		if strings.HasPrefix(p.lower[at+len(word):], family) {
			word += family
			break
		}
	}
	if at+len(word) == len(p.flat) {
		return hit{}, false // cut
	}
	rest := p.flat[at+len(word):]
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
	established := strings.HasPrefix(word, "read") || strings.HasPrefix(word, "write")
	sc := scene{address: address, endpoint: p.req.host}
	if p.proxied() {
		sc.stage = StageProxyConnect
	}
	h := hit{address: address}
	if sc.stage == StageProxyConnect {
		h.endpoint = address
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
		// refusal from silence, and that is left unknown.
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

// certificate reads what crypto/x509 prints.
func (p *piece) certificate() (hit, bool) {
	if !p.has("x509: ") {
		return hit{}, false
	}
	i := strings.Index(p.lower[p.tail:], "x509: ")
	if i < 0 {
		return hit{}, false
	}
	at := p.tail + i
	w, ok := p.matchBehind(certificateTable(), max(0, at-60))
	if !ok {
		p.stopped = true
		return hit{}, false
	}
	h := w.hit()
	h.nobody = p.proxied() // the certificate is the proxy's, which is not named
	rest := p.flat[at+len("x509: "):]
	switch w.cause {
	case TLSExpired:
		h.cause = validityCause(rest[:min(len(rest), 300)], nil, noTime)
		if j := strings.Index(rest[:min(len(rest), 300)], "current time "); j >= 0 {
			detail, _, _ := strings.Cut(rest[j:], "\"")
			h.facts = fact(FactMessage, detail[:min(len(detail), 100)])
		}
	case TLSHostnameMismatch:
		names, host, ok := strings.Cut(strings.TrimPrefix(rest, "certificate is valid for "), ", not ")
		if ok && len(names) <= 2048 {
			h.facts = fact(FactNames, names)
			if !p.hasReq {
				host = host[:min(len(host), 256)]
				if n := strings.IndexAny(host, " ,;\"'"); n >= 0 {
					host = host[:n]
				}
				h.endpoint = strings.TrimRight(host, ".:")
			}
		}
	}
	return h, true
}

// handshake reads what crypto/tls prints besides certificates, and answers in
// the wrong protocol.
func (p *piece) handshake() (hit, bool) {
	if p.has("remote error: tls: ") {
		i := strings.LastIndex(p.lower, "remote error: tls: ")
		number, ok := alertNumber(p.flat[i+len("remote error: "):])
		if !ok {
			p.stopped = true
			return hit{}, false
		}
		c, alternatives := alertCause(number)
		return hit{cause: c, facts: alertFacts(number), alternatives: alternatives, nobody: p.proxied()}, true
	}
	if p.has("local error: tls: ") && !p.has("x509: ") {
		if strings.Contains(p.lower[p.tail:], "local error: tls: no renegotiation") {
			// Servers ask for another handshake to get a certificate; Go's
			// client does not take part unless it is told to.
			return hit{cause: TLSClientCertificateRequired, alternatives: []Cause{TLSHandshakeAlert}, nobody: p.proxied()}, true
		}
		// This side broke off over what it received (RFC 8446 section 6.2).
		return hit{cause: EndpointMalformedResponse, alternatives: []Cause{TLSHandshakeAlert}, nobody: p.proxied()}, true
	}
	if w, ok := p.match(handshakeTable()); ok {
		h := w.hit()
		h.nobody = p.proxied()
		return h, true
	}
	if p.has("malformed http response ") {
		i := strings.Index(p.lower, "malformed http response ")
		// \x15\x03 is the head of a TLS alert record.
		if strings.HasPrefix(strings.TrimLeft(p.lower[i+len("malformed http response "):], `"\`), "x15") {
			return hit{cause: TLSHTTPSResponseToHTTPClient}, true
		}
		return hit{cause: EndpointMalformedResponse}, true
	}
	return hit{}, false
}

// goWords are the exact texts of errors that the standard library keeps to
// itself. A live error that is one of them is as sure as a type.
var goWords = map[string]struct{}{
	"net/http: TLS handshake timeout":                         {},
	"net/http: timeout awaiting response headers":             {},
	"net/http: request canceled while waiting for connection": {},
	"http: server closed idle connection":                     {},
	"stopped after 10 redirects":                              {},
	"http2: client connection lost":                           {},
	"tls: server selected unsupported protocol version 301":   {},
	"tls: server selected unsupported protocol version 302":   {},
	"tls: server chose an unconfigured cipher suite":          {},
	"Proxy Authentication Required":                           {},
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
	if strings.EqualFold(phrase, "Proxy Authentication Required") {
		return hit{cause: EndpointProxyAuthRequired, facts: []Fact{{FactStatus, "407"}}}, true
	}
	return hit{cause: EndpointProxyRefusedConnect, facts: fact(FactMessage, phrase)}, true
}
