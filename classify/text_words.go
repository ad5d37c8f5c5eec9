package classify

import "strings"

// local reads refusals of the node itself: they are printed by the kubelet and
// the runtime about their own state, whatever else the text holds.
func (p *piece) local() (hit, bool) {
	w, ok := p.words.match(localTable())
	return w.hit(), ok
}

// content reads what the runtimes print about the image itself.
func (p *piece) content() (hit, bool) {
	if w, ok := p.words.match(contentTable()); ok {
		h := w.hit()
		if w.cause == ImageNotFound && p.hasReq && p.req.operation() == OperationFetchBlob {
			h.cause = ImageBlobUnknown
		}
		h.facts = append(codeFact(w.words), p.digestFacts(h.cause)...)
		if h.cause == ImageRepositoryUnknown || h.cause == ImageManifestUnknown {
			h.alternatives = []Cause{IdentityAccessDeniedOrMissing}
		}
		return h, true
	}
	if ref, ok := p.bareNotFound(); ok {
		// Since containerd 2.0 a mirror that lacks the image hides what the
		// registry itself said.
		return hit{cause: ImageNotFound, facts: fact(FactImage, ref), alternatives: []Cause{IdentityAccessDeniedOrMissing, RegistryMirrorMiss}}, true
	}
	return hit{}, false
}

// digestFacts returns the digests around a mismatch or a missing blob.
func (p *piece) digestFacts(c Cause) []Fact {
	var want, got string
	switch c {
	case ImageDigestMismatch:
		want, got = digestAfter(p.flat, ", expected "), digestAfter(p.flat, "unexpected commit digest ")
		if want == "" || got == "" {
			want, got = digestAfter(p.flat, "Digest did not match, expected "), digestAfter(p.flat, ", got ")
		}
		if want == "" || got == "" {
			return nil
		}
	case ImageBlobUnknown:
		want = orElse(digestAfter(p.flat, "content descriptor "), digestAfter(p.flat, "reading blob "))
	}
	return fact(FactDigest, want, FactGot, got)
}

func digestAfter(text, marker string) string {
	i := strings.Index(text, marker)
	if i < 0 {
		return ""
	}
	rest := text[i+len(marker):]
	n := 0
	for n < len(rest) && n < 140 && (isSchemeByte(rest[n]) || rest[n] == ':') {
		n++
	}
	d := strings.TrimRight(rest[:n], ":.")
	if algorithm, hex, ok := strings.Cut(d, ":"); !ok || algorithm == "" || len(hex) < 32 {
		return ""
	}
	return d
}

// bareNotFound reads "REF: not found" at the end of a text: all that containerd
// says about a 404. Other things are "not found", too, so the words before must
// be a reference.
func (p *piece) bareNotFound() (string, bool) {
	if !p.has("not found") {
		return "", false
	}
	// What follows it may be the next line of a log, or the end of a value.
	end := -1
	for at := len(p.lower); end < 0; {
		at = strings.LastIndex(p.lower[:at], "not found")
		if at < 0 {
			return "", false
		}
		if n := at + len("not found"); n == len(p.s) || strings.IndexByte("\n\r.\"')]},;", p.s[n]) >= 0 {
			end = n
		}
	}
	text := p.flat[:end]
	before, ok := strings.CutSuffix(text, ": not found")
	if !ok {
		// Docker and old kubelets: image REF not found.
		if before, ok = strings.CutSuffix(text, " not found"); !ok {
			return "", false
		}
		image := before[:strings.LastIndexByte(before, ' ')+1]
		if !strings.HasSuffix(image, "image ") && !strings.HasSuffix(image, "manifest ") && !(strings.HasSuffix(image, ": ") && p.has("failed to resolve reference")) {
			return "", false
		}
	}
	ref := before[strings.LastIndexAny(before, " \"(")+1:]
	if !strings.Contains(ref, "/") || strings.HasPrefix(ref, "/") || strings.Contains(ref, "://") {
		return "", false
	}
	_, tag, tagged := strings.Cut(ref[strings.LastIndexByte(ref, '/'):], ":")
	return ref, tagged && tag != ""
}

// identity reads refusals and throttling that are printed without a status.
func (p *piece) identity() (hit, bool) {
	lower := p.lower
	if p.words.anyOf(sourceTable()) && deniesSource(lower) {
		return hit{cause: EndpointSourceAddressDenied, facts: fact(FactClient, deniedClient(p.flat))}, true
	}
	if p.has("unable to retrieve auth token") {
		// CRI-O prints "invalid username/password" for any 401 of the token
		// endpoint, also when it had no login to offer.
		return hit{cause: IdentityTokenFetchDenied, operation: OperationFetchToken, alternatives: []Cause{IdentityBadCredentials}}, true
	}
	if w, ok := p.words.match(identityTable()); ok {
		h := w.hit()
		h.facts = codeFact(w.words)
		return h, true
	}
	word := "denied"
	message, said := p.codeWord(word)
	if !said {
		word = "unauthorized"
		message, said = p.codeWord(word)
	}
	var facts []Fact
	if said {
		facts = append(codeFact(word), fact(FactMessage, message)...)
	}
	if w, ok := p.words.match(messageTable()); ok {
		h := w.hit()
		h.facts = facts
		return h, true
	}
	switch {
	case said && word == "denied":
		return hit{cause: IdentityAccessDeniedOrMissing, facts: facts, alternatives: []Cause{IdentityForbidden, EndpointSourceAddressDenied}}, true
	case said:
		return hit{cause: IdentityUnauthorized, facts: facts}, true
	}
	w, ok := p.words.match(deniedTable())
	return w.hit(), ok
}

// secret reads the errors of a JSON decoder that stand alone behind the
// kubelet's words: the kubelet reads pull secrets, and prints no more than that.
func (p *piece) secret() (hit, bool) {
	if p.hasReq {
		return hit{}, false
	}
	core := p.lower
	for _, wrapper := range [...]string{"failed to pull image \"", "error: "} {
		if i := strings.LastIndex(core, wrapper); i >= 0 {
			core = core[i+len(wrapper):]
			if _, rest, ok := strings.Cut(core, "\": "); ok && wrapper != "error: " {
				core = rest
			}
		}
	}
	ok := beginsWith(core, []string{"invalid character ", "unexpected end of json input", "json: cannot unmarshal ", "illegal base64 data"})
	return hit{cause: IdentityPullSecretInvalid, operation: OperationUnknown}, ok
}

// codeWord finds word where a registry's error code stands: after a colon or at
// the start, followed by a colon or the end. It returns the message behind it.
func (p *piece) codeWord(word string) (string, bool) {
	if !p.has(word) {
		return "", false
	}
	lower := strings.TrimRight(p.lower, " \"'.)]}")
	flat := p.flat[:len(lower)]
	for end := len(lower); ; {
		i := strings.LastIndex(lower[:end], word)
		if i < 0 {
			return "", false
		}
		end = i
		before := strings.TrimRight(lower[max(0, i-8):i], " \"")
		after := lower[i+len(word):]
		if before != "" && before[len(before)-1] != ':' {
			continue
		}
		if after == "" || strings.IndexByte("\n\r\"'},", p.s[i+len(word)]) >= 0 {
			return "", true
		}
		if after[0] == ':' {
			message := strings.TrimSpace(flat[i+len(word)+1:])
			return message[:min(len(message), 200)], true
		}
	}
}
