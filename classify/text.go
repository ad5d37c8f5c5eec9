package classify

import (
	"net"
	"slices"
	"strings"
	"unicode/utf8"
)

// Text reads what a kubelet, containerd, CRI-O or docker printed about a pull:
// an event's message, a waiting reason, a line of a log. The wrappers are peeled
// off and the innermost cause counts, since the outer words ("pull access
// denied", "code = NotFound") are often not the fault.
//
// What it does not understand is [KindUnknown]: nothing is guessed. A finding
// from a text is [CertaintyPossible] at most, because many faults print the same
// words; Decide names the probes that would tell. Of a text longer than 64 KiB it
// reads the first 48 KiB and the last 16.
func Text(message string) Reading {
	if len(message) > maxText {
		// The outer words stand left, the cause stands right.
		message = message[:maxText*3/4] + "\n" + message[len(message)-maxText/4:]
	}
	if !utf8.ValidString(message) {
		message = strings.ToValidUTF8(message, "\uFFFD")
	}
	var lines [4]string
	text := clean(message)
	records := splitRecords(text, lines[:0])
	reading := Reading{Kind: KindUnknown}
	var best attemptSet
	var one [1]hit // most texts are one record with one attempt
	room := one[:0]
	if len(records) > 1 {
		room = nil
	}
	var words wordSet // of all records
	for _, record := range records {
		var outer piece
		outer.read(record)
		reading.Image = orElse(reading.Image, outer.image())
		best = fuller(best, readRecord(&outer, room))
		for i := range words {
			words[i] |= outer.words[i]
		}
	}
	if len(best.hits) > 0 {
		reading.Kind = KindFailure
		store := new(struct { // one allocation for what most texts give
			attempts [1]Finding
			probes   [1]string
		})
		if reading.Attempts = store.attempts[:]; len(best.hits) > 1 {
			reading.Attempts = make([]Finding, len(best.hits))
		}
		for i := range best.hits {
			if pauseImage(reading.Image) {
				best.hits[i].operation = OperationSandboxImage
			}
			reading.Attempts[i] = best.hits[i].finding()
		}
		reading.Best = reading.Attempts[best.top]
		reading.Decide = decide(best.hits[best.top], reading.Image, store.probes[:0])
		return reading
	}
	reading.Kind, reading.Cached = quietKind(&words)
	if reading.Kind == KindUnknown && words.anyOf(startTable()) {
		started := hit{cause: UnknownPullInProgress}.finding()
		started.Severity = SeverityInfo
		reading.Attempts = []Finding{started}
	}
	return reading
}

// attemptSet is what one record says: its attempts and the one that counts.
type attemptSet struct {
	hits []hit
	top  int
}

// readRecord reads one line, with all attempts that it joins. It appends them to
// hits, which is empty.
func readRecord(outer *piece, hits []hit) attemptSet {
	if outer.words.anyOf(otherTable()) && !outer.words.anyOf(pullTable()) {
		return attemptSet{} // a probe, a volume, the pod's network
	}
	one := [1]attempt{{text: outer.s}}
	attempts := one[:]
	if outer.words.anyOf(joinTable()) {
		attempts = splitAttempts(outer.s)
		if len(attempts) == 1 && outer.s != outer.flat {
			attempts = splitAttempts(outer.flat) // a line's end inside of what joins them
		}
	}
	for _, attempt := range attempts {
		if h, ok := readAttempt(attempt, outer); ok {
			hits = append(hits, h)
		}
	}
	if len(hits) <= 1 && strings.IndexByte(outer.s, '\n') >= 60 {
		// A window may have cut lines inside of a word; then the words that are
		// whole again are the surer ones.
		var joined piece
		joined.read(strings.ReplaceAll(outer.s, "\n", ""))
		gained := joined.words.len() > outer.words.len()
		if h, ok := readAttempt(attempt{text: joined.s}, &joined); ok && (len(hits) == 0 || gained && h.order <= hits[0].order ||
			h.order < hits[0].order && h.cause != EndpointProxyRefusedConnect) {
			hits = []hit{h}
		}
	}
	if len(hits) == 0 {
		return attemptSet{}
	}
	return attemptSet{hits, bestAttempt(hits)}
}

// fuller returns o if it explains more than s, what was read before.
func fuller(s, o attemptSet) attemptSet {
	switch {
	case len(o.hits) == 0:
		return s
	case len(s.hits) == 0:
		return o
	}
	best, top := &s.hits[s.top], &o.hits[o.top]
	switch {
	case top.rank() > best.rank(), top.cause == best.cause && top.knows() > best.knows():
		return o
	case top.rank() == best.rank() && top.cause != best.cause && LayerOf(top.cause) == LayerOf(best.cause) &&
		len(best.alternatives) < 4 && !slices.Contains(best.alternatives, top.cause):
		best.alternatives = append(slices.Clip(best.alternatives), top.cause) // another line says so
	}
	return s
}

// Event reads an event of the cluster. The reason tells what the message is
// about, and events that are not about a pull are [KindUnknown] whatever they
// print: a failing readiness probe also says "connection refused". An empty
// reason is as [Text].
func Event(reason, message string) Reading {
	reason = strings.TrimSpace(reason)
	if !slices.Contains(pullReasons, reason) && !speaksOfPull(message) {
		return Reading{Kind: KindUnknown}
	}
	r := Text(message)
	switch cause := reasonCauses[reason]; {
	case cause != "" && r.Kind != KindFailure:
		r.Kind, r.Best = KindFailure, hit{cause: cause, operation: OperationUnknown}.finding()
		r.Attempts = []Finding{r.Best}
	case reason == "FailedCreatePodSandBox" && r.Kind == KindFailure:
		r.Best.Operation = OperationSandboxImage
		for i := range r.Attempts {
			r.Attempts[i].Operation = OperationSandboxImage
		}
	case r.Kind != KindUnknown:
	case reason == "ErrImagePull", reason == "ImagePullBackOff":
		r.Kind, r.Attempts = KindBackoff, nil // a status without a message
	case !speaksOfPull(message): // "Back-off restarting failed container" has the same reason
	case reason == "BackOff":
		r.Kind = KindBackoff
	case reason == "Pulled":
		r.Kind = KindOK
	}
	return r
}

// pullReasons are the reasons of events that are always about a pull.
var pullReasons = []string{
	"", "Failed", "ErrImagePull", "ImagePullBackOff", "BackOff", "InspectFailed", "ImageInspectError", "InvalidImageName",
	"RegistryUnavailable", "SignatureValidationFailed", "FailedToRetrieveImagePullSecret", "Pulled", "Pulling", "ErrImageNeverPull",
	"FreeDiskSpaceFailed", "ImageGCFailed", "EgressBlocked",
}

// reasonCauses are the reasons that name a fault whatever their message says.
var reasonCauses = map[string]Cause{
	"ErrImageNeverPull": NodeNeverPullPolicy, "InvalidImageName": ImageInvalidReference,
	"SignatureValidationFailed": NodeSignaturePolicyRejected, "FailedToRetrieveImagePullSecret": IdentityPullSecretMissing,
}

// bestAttempt picks the attempt that counts. The kubelet tries its credentials
// in order and without one last, so the first counts; but one that got past the
// question of identity says more than one that did not. Of mirrors, the one that
// answered counts: in a closed network the others need not be reachable.
func bestAttempt(hits []hit) int {
	top := chooseAttempt(hits)
	best := &hits[top]
	if best.endpoint == "" && !best.mirror && best.answered() {
		// The credentials are tried at the same registry; one attempt may
		// print its URL and the other not.
		for _, h := range hits {
			if h.endpoint != "" && !h.mirror && h.answered() && h.operation == best.operation {
				best.endpoint = h.endpoint
				break
			}
		}
	}
	return top
}

func chooseAttempt(hits []hit) int {
	top := 0
	for i := 1; i < len(hits); i++ {
		best, h := &hits[top], &hits[i]
		switch {
		case h.rank() > best.rank():
			top = i
		case h.rank() < best.rank():
		case (best.mirror || h.mirror) && h.answered() && !best.answered():
			top = i
		case best.anonymous && !h.anonymous:
			top = i
		case LayerOf(best.cause) == LayerIdentity && !best.mirror && !h.anonymous &&
			(LayerOf(h.cause) == LayerImage || LayerOf(h.cause) == LayerRegistry):
			top = i
		}
	}
	return top
}

// quietKind reads texts without a failure.
func quietKind(words *wordSet) (Kind, bool) {
	l := theLexicon()
	has := func(w string) bool { return words.has(l.id(w)) }
	switch {
	case has("already present on machine"):
		return KindOK, true
	case has("successfully pulled image"), has("status: downloaded newer image for"):
		return KindOK, false
	case has("status: image is up to date for"), has("bytes read=0"):
		return KindOK, true // docker compared digests; containerd read nothing
	case has("returns image reference "), has("image is up to date for "):
		return KindOK, false // containerd's log, and what crictl says after any pull
	case words.anyOf(backoffTable()):
		return KindBackoff, false
	}
	return KindUnknown, false
}

// speaksOfPull reports whether a message is about an image pull at all.
func speaksOfPull(message string) bool {
	var words wordSet
	theLexicon().scan(message[:min(len(message), maxText)], &words)
	return words.anyOf(pullTable()) || words.has(theLexicon().id("curl: ("))
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
	if outer.sandbox() {
		h.operation = OperationSandboxImage
	} else if h.operation == "" {
		h.operation = p.operation(a.context)
	}
	p.hidden(&h, a)
	p.realm(&h)
	if h.mirror && p.hasReq && p.req.mirror() && (h.cause == ImageNotFound || h.cause == ImageManifestUnknown) {
		h.cause, h.alternatives = RegistryMirrorMiss, []Cause{h.cause}
	}
	return h, true
}

// hidden adds what a text cannot show although it may be the cause.
func (p *piece) hidden(h *hit, a attempt) {
	switch layer := LayerOf(h.cause); {
	case (a.cut || p.hasReq && p.req.mirror()) && (layer == LayerDNS || layer == LayerRoute || layer == LayerEndpoint || layer == LayerTLS):
		// Until containerd 2.0 a dead mirror hides what the registry said.
		h.alternatives = append(h.alternatives, ImageNotFound, IdentityAccessDeniedOrMissing)
	case layer == LayerImage || layer == LayerIdentity:
		if p.has("upstream") || p.has("cache rule") || p.has("proxy cache") || p.has("remote repository") {
			h.offer(RegistryUpstreamFailed)
			if layer == LayerImage {
				h.offer(RegistryMirrorMiss)
			}
		}
	case h.cause != DNSNXDOMAIN && h.cause != TLSUnknownAuthority:
	case p.has("failed to do request: ") && p.req.operation() == OperationResolveManifest:
		// containerd only logs that it cannot read a hosts.toml, and goes to
		// the registry itself instead of the mirror, without its CA.
		h.alternatives = append(h.alternatives, NodeRuntimeConfigIgnored)
	}
}

// realm corrects what a realm that is no address led to: a name with a port in a
// lookup, a scheme twice, two addresses in one.
func (p *piece) realm(h *hit) {
	if p.proxied() || h.operation != OperationFetchToken && (h.operation != OperationUnknown || p.hasReq) || LayerOf(h.cause) == LayerNode || h.cause == EndpointBadRealm {
		return
	}
	if !(LayerOf(h.cause) == LayerDNS && (h.endpoint == "http" || h.endpoint == "https" || hasPort(h.endpoint) || strings.Count(h.endpoint, ":") > 1)) &&
		!(p.hasReq && (containsAny(p.req.path, []string{"http://", "https://"}) || strings.Count(p.req.host, ":") > 1 && p.req.host[0] != '[')) {
		return
	}
	h.alternatives = append([]Cause{h.cause}, h.alternatives...)
	h.cause = EndpointBadRealm
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

const readers = 13

// readBy asks one of the readers. They are called by name and not through a
// table, so that p stays on the stack.
func (p *piece) readBy(order int) (hit, bool) {
	switch order {
	case 0:
		return p.local()
	case 1:
		return p.lookup()
	case 2:
		return p.socket()
	case 3:
		return p.certificate()
	case 4:
		return p.handshake()
	case 5:
		return p.curl()
	case 6:
		return p.transport()
	case 7:
		return p.answer()
	case 8:
		return p.proxyPhrase()
	case 9:
		return p.content()
	case 10:
		return p.identity()
	case 11:
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
	h.endpoint = orElse(h.endpoint, h.address)
	return h
}

// namedHost returns the registry host that CRI-O names without a URL:
// "reading manifest TAG in HOST/REPO: ...", "pinging container registry HOST: ...".
func (p *piece) namedHost() string {
	for _, m := range [...]string{"reading manifest ", "pinging container registry ", "pinging docker registry ", "pulling from host "} {
		if !p.has(m) {
			continue
		}
		i := strings.LastIndex(p.lower, m)
		rest := p.flat[i+len(m):]
		rest = rest[:min(len(rest), 512)]
		if strings.HasPrefix(m, "reading") {
			_, in, ok := strings.Cut(rest, " in ")
			if !ok {
				continue
			}
			rest, _, _ = strings.Cut(in, ": ")
			if host := imageHost(rest); host != "" && !strings.HasSuffix(host, "docker.io") {
				return host
			}
			continue
		}
		host, _, ok := strings.Cut(rest, ": ")
		if m == "pulling from host " {
			host, _, ok = strings.Cut(rest, " failed with")
		}
		if ok && validName(host) && !strings.Contains(host, " ") {
			return host
		}
	}
	return ""
}

// sandbox reports whether the text is about the pod sandbox's own image, which
// has none of the pod's credentials.
func (p *piece) sandbox() bool {
	return p.words.anyOf(sandboxTable()) && (p.words.anyOf(pullTable()) || p.has("pulling image") || p.has("docker://"))
}
