package classify

import (
	"net"
	"strings"
)

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
