package classify

import (
	"net"
	"strings"
)

// piece is one attempt's text, prepared for the readers.
type piece struct {
	s     string  // as it stands
	flat  string  // s with line breaks as spaces, same offsets
	lower string  // flat in lower case, same offsets
	words wordSet // the fixed strings in it

	req     request // the last request in the text, the innermost
	hasReq  bool
	tail    int  // where the text behind the request begins; 0 without one
	stopped bool // a reader recognised the form but not the fault: do not guess on
}

func newPiece(text string) *piece {
	var p piece
	p.read(text)
	return &p
}

// read prepares p for text.
func (p *piece) read(text string) {
	*p = piece{s: text, flat: spaced(text)}
	p.lower = theLexicon().scanLower(text, &p.words)
	if r, ok := p.lastRequest(); ok {
		p.req, p.hasReq = r, true
		p.tail = r.end
	}
}

// spaced puts a space for each line break and tab.
func spaced(text string) string {
	if strings.IndexByte(text, '\n') < 0 && strings.IndexByte(text, '\t') < 0 && strings.IndexByte(text, '\r') < 0 {
		return text
	}
	b := []byte(text)
	for i, c := range b {
		if c == '\n' || c == '\t' || c == '\r' {
			b[i] = ' '
		}
	}
	return string(b)
}

// match returns the first phrase of t that the text holds.
func (p *piece) match(t *table) (phrase, bool) {
	for i, id := range t.first {
		if p.words.has(id) && (t.also[i] == noWord || p.words.has(t.also[i])) {
			return t.phrases[i], true
		}
	}
	return phrase{}, false
}

// matchBehind is match for what stands at from or later.
func (p *piece) matchBehind(t *table, from int) (phrase, bool) {
	for i, id := range t.first {
		if p.words.has(id) && (t.also[i] == noWord || p.words.has(t.also[i])) && strings.Contains(p.lower[from:], t.phrases[i].words) {
			return t.phrases[i], true
		}
	}
	return phrase{}, false
}

func (w phrase) hit() hit {
	h := hit{cause: w.cause, operation: w.operation}
	if w.other != "" {
		h.alternatives = []Cause{w.other}
	}
	return h
}

// readAttempt reads one attempt. outer is the record that it stood in.
func readAttempt(a attempt, outer *piece) (hit, bool) {
	p := outer
	if a.text != outer.s {
		var inner piece
		inner.read(strings.TrimSpace(a.text))
		p = &inner
	}
	h, ok := p.core()
	if !ok {
		return hit{}, false
	}
	h = coarse(h)
	h.mirror = a.mirror || (p.hasReq && p.req.mirror())
	h.anonymous = p.has("anonymous token") || p.has("no basic auth credentials")
	if h.operation == "" {
		h.operation = p.operation(a.context)
	}
	if outer.sandbox() {
		h.operation = OperationSandboxImage
	}
	p.hidden(&h)
	if h.mirror && p.hasReq && p.req.mirror() && (h.cause == ImageNotFound || h.cause == ImageManifestUnknown) {
		h.cause, h.alternatives = RegistryMirrorMiss, []Cause{h.cause}
	}
	return h, true
}

// hidden adds what a text cannot show although it may be the cause.
func (p *piece) hidden(h *hit) {
	switch layer := LayerOf(h.cause); {
	case p.hasReq && p.req.mirror() && (layer == LayerDNS || layer == LayerRoute || layer == LayerEndpoint || layer == LayerTLS):
		// Until containerd 2.0 a dead mirror hides what the registry said.
		h.alternatives = append(h.alternatives, ImageNotFound, IdentityAccessDeniedOrMissing)
	case h.cause != DNSNXDOMAIN && h.cause != TLSUnknownAuthority:
	case p.has("failed to do request: ") && p.req.operation() == OperationResolveManifest:
		// containerd only logs that it cannot read a hosts.toml, and goes to
		// the registry itself instead of the mirror, without its CA.
		h.alternatives = append(h.alternatives, NodeRuntimeConfigIgnored)
	}
}

// coarse gives the code that a text can show where the exact one needs more than
// words: what else the peer sent, or whether a certificate was offered at all.
func coarse(h hit) hit {
	switch h.cause {
	case TLSNotTLS:
		// Old clients print it for clear HTTP, too.
		h.cause, h.alternatives = TLSHTTPResponseToHTTPSClient, append([]Cause{TLSNotTLS}, h.alternatives...)
	case TLSClientCertificateRequired:
		h.cause, h.alternatives = TLSClientCertificateRejected, append([]Cause{TLSClientCertificateRequired}, h.alternatives...)
	}
	return h
}

// core finds the innermost cause. The order is by how sure a form is: the
// node's own refusals and a lookup are unmistakable, single words come last.
func (p *piece) core() (hit, bool) {
	for order := range readers {
		h, ok := p.readBy(order)
		if ok {
			h.order = order
			return p.place(h), true
		}
		if p.stopped {
			break
		}
	}
	return hit{}, false
}

const (
	readers     = 12
	orderLookup = 1
)

// readBy asks one of the readers. They are called by name and not through a
// table, so that p stays on the stack.
func (p *piece) readBy(order int) (hit, bool) {
	switch order {
	case 0:
		return p.local()
	case orderLookup:
		return p.lookup()
	case 2:
		return p.socket()
	case 3:
		return p.certificate()
	case 4:
		return p.handshake()
	case 5:
		return p.transport()
	case 6:
		return p.answer()
	case 7:
		return p.proxyPhrase()
	case 8:
		return p.content()
	case 9:
		return p.identity()
	case 10:
		return p.secret()
	}
	return p.end()
}

// place adds the endpoint of the request, unless the reader knew a nearer one.
func (p *piece) place(h hit) hit {
	if h.nobody {
		return h
	}
	if h.endpoint == "" && p.hasReq && h.operation != OperationUnknown {
		h.endpoint = p.req.host
		if h.address != "" && !hasPort(h.endpoint) && LayerOf(h.cause) != LayerDNS {
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
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.IndexByte(host[i:], ']') >= 0 {
		return false
	}
	return host[0] == '[' && host[i-1] == ']' || strings.IndexByte(host[:i], ':') < 0
}

func joinPort(host, port string) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// has reports whether a fixed string of the lexicon is in the text.
func (p *piece) has(word string) bool {
	id, ok := theLexicon().ids[word]
	if !ok {
		return strings.Contains(p.lower, word)
	}
	return p.words.has(id)
}

// proxied reports whether the transport failed on its way to a forward proxy;
// the peer is then the proxy, although the URL names the registry.
func (p *piece) proxied() bool {
	return p.has("proxyconnect tcp: ") && strings.Contains(p.lower[p.tail:], "proxyconnect tcp: ") ||
		p.has("socks connect tcp ") && strings.Contains(p.lower[p.tail:], "socks connect tcp ")
}

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
