package classify

import (
	"net"
	"strings"
)

// piece is one attempt's text, prepared for the readers.
type piece struct {
	s     string // as it stands
	flat  string // s with line breaks as spaces, same offsets
	lower string // flat in lower case, same offsets

	req     request // the last request in the text, the innermost
	hasReq  bool
	tail    int  // where the text behind the request begins; 0 without one
	stopped bool // a reader recognised the form but not the fault: do not guess on
}

func newPiece(text string) *piece {
	p := &piece{s: text, flat: strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(text)}
	p.lower = asciiLower(p.flat)
	if reqs := requests(text); len(reqs) > 0 {
		p.req, p.hasReq = reqs[len(reqs)-1], true
		p.tail = p.req.end
	}
	return p
}

func (p *piece) has(words string) bool { return strings.Contains(p.lower, words) }

// readAttempt reads one attempt. record is the text that it stood in.
func readAttempt(a attempt, record string) (hit, bool) {
	p := newPiece(strings.TrimSpace(a.text))
	h, ok := p.core()
	if !ok {
		return hit{}, false
	}
	outer := asciiLower(record)
	h.mirror = a.mirror || (p.hasReq && p.req.mirror())
	h.anonymous = p.has("anonymous token") || p.has("no basic auth credentials")
	if h.operation == "" {
		h.operation = p.operation(asciiLower(a.context))
	}
	if sandbox(outer) {
		h.operation = OperationSandboxImage
	}
	if h.mirror && (h.cause == ImageNotFound || h.cause == ImageManifestUnknown) && p.req.mirror() {
		h.cause, h.alternatives = RegistryMirrorMiss, []Cause{h.cause}
	}
	return h, true
}

// core finds the innermost cause. The order is by how sure a form is: the
// node's own refusals and a lookup are unmistakable, single words come last.
func (p *piece) core() (hit, bool) {
	for _, read := range [...]func(*piece) (hit, bool){
		(*piece).local, (*piece).lookup, (*piece).socket, (*piece).certificate, (*piece).handshake, (*piece).transport,
		(*piece).answer, (*piece).proxyPhrase, (*piece).content, (*piece).identity, (*piece).end,
	} {
		h, ok := read(p)
		if ok {
			return p.place(h), true
		}
		if p.stopped {
			break
		}
	}
	return hit{}, false
}

// place adds the endpoint of the request, unless the reader knew a nearer one.
func (p *piece) place(h hit) hit {
	if h.endpoint == "" && p.hasReq && h.operation != OperationUnknown {
		h.endpoint = p.req.host
		if h.address != "" && !hasPort(h.endpoint) {
			if _, port, err := net.SplitHostPort(h.address); err == nil && h.endpoint != "" {
				h.endpoint = joinPort(h.endpoint, port)
			}
		}
	}
	if h.endpoint == "" && (h.operation == "" || h.operation == OperationResolveManifest) {
		h.endpoint = p.namedHost()
	}
	if h.endpoint == "" {
		h.endpoint = h.address
	}
	return h
}

func hasPort(host string) bool {
	_, _, err := net.SplitHostPort(host)
	return err == nil
}

func joinPort(host, port string) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// proxied reports whether the transport failed on its way to a forward proxy;
// the peer is then the proxy, although the URL names the registry.
func (p *piece) proxied() bool { return strings.Contains(p.lower[p.tail:], "proxyconnect tcp: ") }

// lookup reads "lookup NAME on SERVER: ...". Whatever follows, the layer is dns,
// except for the node's own limits, which [piece.local] has read before.
func (p *piece) lookup() (hit, bool) {
	const word = "lookup "
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
		facts := fact(FactResolver, server)
		if symbol := wordsErrno(tail); symbol != "" {
			facts = append(facts, Fact{FactErrno, symbol})
		}
		return hit{cause: c, endpoint: name, facts: facts, alternatives: lookupAlternatives(c)}, true
	}
}

func splitLookup(rest string) (name, server, tail string, ok bool) {
	n := strings.IndexAny(rest, " ,;\"'()")
	if n < 0 || n > 256 {
		n = min(len(rest), 256)
	}
	name = rest[:n]
	if i := strings.Index(name, ":"); i >= 0 && i == len(name)-1 {
		name = name[:i]
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

// validName reports whether s can have been looked up. It is generous: a proxy
// setting read wrongly makes odd names.
func validName(s string) bool {
	return s != "" && !strings.ContainsAny(s, "/\\<>=@{}[]")
}

// socket reads "dial tcp ADDRESS: ...", "read tcp A->B: ..." and the like.
func (p *piece) socket() (hit, bool) {
	at, word := -1, ""
	for _, w := range []string{"dial tcp", "read tcp", "write tcp", "dial tcp4", "dial tcp6"} {
		if i := strings.LastIndex(p.lower, w+" "); i > at {
			at, word = i, w
		} else if i := strings.LastIndex(p.lower, w+": "); i > at {
			at, word = i, w
		}
	}
	if at < 0 {
		return hit{}, false
	}
	rest := p.flat[at+len(word):]
	address := ""
	if rest[0] == ' ' {
		i := strings.Index(rest, ": ")
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
	i := strings.Index(p.lower[p.tail:], "x509: ")
	if i < 0 {
		return hit{}, false
	}
	rest := p.flat[p.tail+i+len("x509: "):]
	lower := p.lower[p.tail+i+len("x509: "):]
	has := func(w string) bool { return strings.Contains(lower, w) }
	h := hit{}
	switch {
	case has("insecure algorithm"):
		h.cause = TLSWeakSignature
	case has("cannot sign this kind of certificate"):
		h.cause = TLSWrongKeyUsage
	case has("signed by unknown authority"), has("no valid chains built"), has("does not match subject of issuing certificate"),
		has("issuer name does not match subject"), has("certificate is not trusted"), has("failed to load system roots"):
		h.cause = TLSUnknownAuthority
	case has("has expired or is not yet valid"), has("certificate is expired"):
		h.cause = validityCause(rest[:min(len(rest), 300)], nil, noTime)
		if j := strings.Index(lower, "current time "); j >= 0 {
			detail, _, _ := strings.Cut(rest[j:], "\"")
			h.facts = fact(FactMessage, detail[:min(len(detail), 100)])
		}
	case has("legacy common name"), has("is not valid for any names"):
		h.cause = TLSNoSAN
	case has("contain any ip sans"):
		h.cause = TLSNoIPSAN
	case strings.HasPrefix(lower, "certificate is valid for "):
		h.cause = TLSHostnameMismatch
		names, host, ok := strings.Cut(rest[len("certificate is valid for "):], ", not ")
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
	case has("incompatible key usage"), has("not authorized to sign"), has("not authorized for an extended key usage"),
		has("too many intermediates"), has("unhandled critical extension"), has("name constraints"):
		h.cause = TLSWrongKeyUsage
	default:
		p.stopped = true
		return hit{}, false
	}
	return h, true
}

// handshake reads what crypto/tls prints besides certificates, and answers in
// the wrong protocol.
func (p *piece) handshake() (hit, bool) {
	if i := strings.LastIndex(p.lower, "remote error: tls: "); i >= 0 {
		if number, ok := alertNumber(p.flat[i+len("remote error: "):]); ok {
			c, alternatives := alertCause(number)
			return hit{cause: c, facts: alertFacts(number), alternatives: alternatives}, true
		}
		p.stopped = true
		return hit{}, false
	}
	for _, w := range handshakeWords {
		if p.has(w.words) {
			return hit{cause: w.cause}, true
		}
	}
	if i := strings.Index(p.lower, "malformed http response "); i >= 0 {
		// \x15\x03 is the head of a TLS alert record.
		if strings.HasPrefix(strings.TrimLeft(p.lower[i+len("malformed http response "):], `"\`), "x15") {
			return hit{cause: TLSHTTPSResponseToHTTPClient}, true
		}
		return hit{cause: EndpointMalformedResponse}, true
	}
	// A peer that speaks before it is asked, as mail and SSH servers do, makes
	// net/http print the last of these.
	if p.has("malformed http status code ") || p.has("malformed http version ") || p.has("malformed mime header") ||
		p.has("readlooppeekfaillocked: %!w(<nil>)") {
		return hit{cause: EndpointMalformedResponse}, true
	}
	return hit{}, false
}

var handshakeWords = []struct {
	words string
	cause Cause
}{
	{"server gave http response to https client", TLSHTTPResponseToHTTPSClient},
	{"http request to an https server", TLSHTTPSResponseToHTTPClient},
	{"plain http request was sent to https port", TLSHTTPSResponseToHTTPClient},
	{"server selected unsupported protocol version", TLSProtocolVersion},
	{"no supported versions satisfy", TLSProtocolVersion},
	{"unsupported cipher suite", TLSCipherMismatch},
	{"unconfigured cipher suite", TLSCipherMismatch},
	{"first record does not look like a tls handshake", TLSNotTLS},
	{"tls: oversized record received", TLSNotTLS},
	{"tls: unsupported sslv2 handshake received", TLSNotTLS},
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
	t := p.lower[p.tail:]
	has := func(w string) bool { return strings.Contains(t, w) }
	switch {
	case has("tls handshake timeout"):
		return hit{cause: EndpointTLSHandshakeTimeout}, true
	case has("timeout awaiting response headers"):
		return hit{cause: EndpointResponseHeaderTimeout}, true
	case has("while waiting for connection"):
		return hit{cause: RouteConnectWaitTimeout, alternatives: []Cause{DNSResolverTimeout, RouteConnectTimeout, EndpointTLSHandshakeTimeout}}, true
	case has("request canceled (client.timeout exceeded while awaiting headers"):
		// A connection was in use: net/http words the wait for one differently.
		return hit{cause: EndpointResponseHeaderTimeout, alternatives: []Cause{EndpointTLSHandshakeTimeout, RouteConnectTimeout}}, true
	case has("client.timeout exceeded while awaiting headers"):
		return hit{cause: UnknownRequestDeadlineNoStage}, true
	case has("context cancellation while reading body"):
		return hit{cause: EndpointDownloadStalled}, true
	case has("stopped after 10 redirects"):
		return hit{cause: EndpointHTTPRedirectLoop}, true
	case has("server response headers exceeded"):
		return hit{cause: EndpointResponseTooLarge}, true
	case has("failed to parse location header"):
		return hit{cause: EndpointBadLocation}, true
	case has("http2: server sent goaway"), has("stream error: stream id"), has("http2: client connection lost"), has("http2: server closed"):
		i := max(strings.Index(t, "http2: "), strings.Index(t, "stream error: "))
		words := p.flat[p.tail+i:]
		return hit{cause: EndpointHTTP2StreamError, facts: fact(FactMessage, words[:min(len(words), 120)])}, true
	case has("server closed idle connection"):
		return hit{cause: EndpointConnectionClosedEOF}, true
	}
	return hit{}, false
}

// proxyPhrase reads a bare status phrase right after the URL. net/http prints
// the answer of a forward proxy to CONNECT that way, without a number; what a
// registry answers has one, or a code in lower case.
func (p *piece) proxyPhrase() (hit, bool) {
	if !p.hasReq || p.req.status {
		return hit{}, false
	}
	rest, ok := strings.CutPrefix(p.s[p.tail:], ": ")
	if !ok {
		return hit{}, false
	}
	phrase, _, _ := strings.Cut(rest, "\n")
	phrase, _, _ = strings.Cut(phrase, ". ")
	phrase, _, _ = strings.Cut(phrase, "\"")
	phrase, _, _ = strings.Cut(phrase, ", ")
	phrase = strings.TrimRight(phrase, " .)]'")
	if len(phrase) < 3 || len(phrase) > 60 || phrase[0] < 'A' || phrase[0] > 'Z' || phrase == "EOF" {
		return hit{}, false
	}
	for _, c := range phrase {
		if c != ' ' && c != '-' && c != '\'' && (c < 'A' || c > 'z' || (c > 'Z' && c < 'a')) {
			return hit{}, false
		}
	}
	if strings.EqualFold(phrase, "Proxy Authentication Required") {
		return hit{cause: EndpointProxyAuthRequired, facts: []Fact{{FactStatus, "407"}}}, true
	}
	return hit{cause: EndpointProxyRefusedConnect, facts: fact(FactMessage, phrase)}, true
}
