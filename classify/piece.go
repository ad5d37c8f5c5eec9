package classify

import (
	"slices"
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

// read prepares p for text.
func (p *piece) read(text string) {
	*p = piece{s: text, flat: spaced(text)}
	p.lower = theLexicon().scanLower(text, &p.words)
	if p.req, p.hasReq = p.lastRequest(); p.hasReq {
		p.tail = p.req.end
	}
}

// matchBehind is match for what stands at from or later.
func (p *piece) matchBehind(t *table, from int) (phrase, bool) {
	if !p.words.anyOf(&t.any) {
		return phrase{}, false
	}
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

// has reports whether a fixed string of the lexicon is in the text.
func (p *piece) has(word string) bool {
	id := theLexicon().id(word)
	if id == noWord {
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

// hit is what one attempt's text says.
type hit struct {
	cause        Cause
	operation    Operation
	endpoint     string
	address      string
	facts        []Fact
	alternatives []Cause
	mirror       bool // the attempt went to a mirror
	anonymous    bool // the attempt says that it had no credential
	nobody       bool // the peer is not named: no endpoint
	order        int  // of the reader that found it, the surest first
}

// finding makes the possible finding of a hit.
func (h hit) finding() Finding {
	sc := scene{operation: h.operation, endpoint: h.endpoint, address: h.address}
	f := sc.finding(h.cause, h.facts...)
	f.Certainty, f.Alternatives = CertaintyPossible, h.alternatives
	if h.cause == IdentityPullSecretMissing || h.cause == NodeRuntimeConfigIgnored {
		f.Severity = SeverityWarn // the pull goes on without it
	}
	return f
}

// rank orders hits of one text: a cause explains a missing stage, and a missing
// stage explains a warning.
func (h hit) rank() int {
	switch {
	case h.cause == IdentityPullSecretMissing || h.cause == NodeRuntimeConfigIgnored:
		return 1
	case LayerOf(h.cause) == LayerUnknown:
		return 2
	}
	return 3
}

// offer adds another reading.
func (h *hit) offer(c Cause) {
	if h.cause != c && !slices.Contains(h.alternatives, c) {
		h.alternatives = append(slices.Clip(h.alternatives), c)
	}
}

// knows counts what a hit says besides its cause. Of two lines about the same
// fault the fuller one is kept.
func (h hit) knows() int {
	n := min(len(h.endpoint), 1)
	if h.operation != "" && h.operation != OperationUnknown {
		n++
	}
	return n
}

// answered reports whether a registry spoke.
func (h hit) answered() bool {
	l := LayerOf(h.cause)
	return l == LayerRegistry || l == LayerIdentity || l == LayerImage
}

// decide appends the probes that would settle what a text can only suggest.
func decide(h hit, image string, probes []string) []string {
	host := h.endpoint
	if host == "" {
		host = imageHost(image)
	}
	layer := LayerOf(h.cause)
	if host == "" || layer == LayerNode {
		return nil
	}
	bare := host
	if hasPort(host) {
		bare = strings.Trim(host[:strings.LastIndexByte(host, ':')], "[]")
	}
	switch {
	case layer == LayerDNS:
		return append(probes, "dns@"+host)
	case h.cause == RouteConnectWaitTimeout || h.cause == UnknownRequestDeadlineNoStage || h.cause == UnknownCanceledNoCause:
		return append(probes, "dns@"+bare, probeAt("connect@", orElse(h.address, host)), probeAt("tls@", host), "request@"+host)
	case layer == LayerRoute || h.cause == EndpointConnectionRefused || h.cause == EndpointProxyUnreachable:
		return append(probes, probeAt("connect@", orElse(h.address, host)))
	case layer == LayerTLS || h.cause == EndpointTLSHandshakeTimeout || h.cause == EndpointConnectionReset || h.cause == EndpointConnectionClosedEOF:
		return append(probes, probeAt("tls@", host))
	case layer == LayerUnknown:
		return nil
	case slices.Contains(h.alternatives, EndpointSourceAddressDenied) || h.cause == EndpointSourceAddressDenied:
		// Whether the name leads to a private endpoint decides between an
		// identity and a network rule.
		return append(probes, "request@"+host, "dns@"+bare)
	}
	return append(probes, "request@"+host)
}

// probeAt names a probe of a port, HTTPS's own if host has none.
func probeAt(probe, host string) string {
	switch {
	case hasPort(host):
		return probe + host
	case strings.IndexByte(host, ':') >= 0:
		return probe + joinPort(host, "443")
	}
	return probe + host + ":443"
}

// behindRequest returns what follows the request and its colon, over a line's end
// if a window put one there.
func (p *piece) behindRequest() (string, bool) {
	rest, ok := strings.CutPrefix(p.s[p.tail:], ":")
	if !ok || rest == "" || strings.IndexByte(" \n\t\r", rest[0]) < 0 {
		return "", false
	}
	return strings.TrimLeft(rest, " \n\t\r"), true
}

// index returns where a word of the lexicon first stands, -1 if nowhere.
func (p *piece) index(word string) int {
	if !p.has(word) {
		return -1
	}
	return strings.Index(p.lower, word)
}

// lastRequest finds the last request in text, which is the innermost. A URL
// counts only where the text says that it was asked: links to documentation do
// not. It looks at the last 32 URLs.
func (p *piece) lastRequest() (request, bool) {
	text := p.s
	for i, n := len(text), 0; n < 32; n++ {
		if i = strings.LastIndex(text[:i], "://"); i < 0 {
			break
		}
		start := i - len("https")
		if !strings.HasSuffix(text[:i], "https") {
			if start++; !strings.HasSuffix(text[:i], "http") {
				continue
			}
		}
		if r, ok := requestAt(text, start, i+3); ok {
			return r, true
		}
	}
	if !p.words.anyOf(methodTable()) {
		return request{}, false
	}
	return bareRequest(text)
}

// operation reads what part of a pull the text is about: by the request first,
// then by the stage that the runtime names. context is what stood before a list
// of attempts.
func (p *piece) operation(context string) Operation {
	if p.hasReq {
		if op := p.req.operation(); op != "" {
			return op
		}
	}
	if p.has("lookup ") && !p.has("proxyconnect tcp: ") && containsAny(p.lower, []string{"lookup index.docker.io", "lookup registry-1.docker.io"}) {
		// The two names that the Docker engine has built in for Docker Hub
		// (IndexHostname and DefaultV2Registry of its package registry): they
		// serve the API and no blobs.
		return OperationResolveManifest
	}
	words := p.words
	if context != "" {
		theLexicon().scan(context, &words)
	}
	if w, ok := words.match(stageTable()); ok {
		return w.operation
	}
	return OperationUnknown
}
