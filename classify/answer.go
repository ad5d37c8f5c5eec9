package classify

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// answerFinding turns a complete answer into a finding.
func answerFinding(a *HTTPAnswer, sc scene) Finding {
	sc.endpoint = orElse(a.Host, sc.endpoint)
	sc.operation = orElse(a.Operation, sc.operation)
	c, alternatives := answerCause(a, true)
	f := sc.finding(c, answerFacts(a)...)
	f.Alternatives = alternatives
	return f
}

func answerFacts(a *HTTPAnswer) []Fact {
	var facts []Fact
	if a.Status > 0 {
		facts = append(facts, Fact{FactStatus, strconv.Itoa(a.Status)})
	}
	for _, code := range a.Codes[:min(len(a.Codes), 8)] {
		facts = append(facts, fact(FactCode, code)...)
	}
	facts = append(facts, fact(FactMessage, a.Message, FactAnswerer, a.Answerer, FactMethod, a.Method, FactURL, a.URL)...)
	if a.Answerer == answererProxy {
		facts = append(facts, fact(FactProxy, a.Host)...)
	}
	return append(facts, fact(FactClient, deniedClient(a.Message))...)
}

// answerCause says what an answer means: by who wrote it first, then by its
// error code, then by its status. credentialKnown tells that a.Credentialed was
// seen; a text does not show it.
func answerCause(a *HTTPAnswer, credentialKnown bool) (Cause, []Cause) {
	if a.Status == 407 {
		return EndpointProxyAuthRequired, nil
	}
	if a.Answerer == answererProxy {
		return EndpointProxyRefusedConnect, nil
	}
	message := strings.ToLower(a.Message)
	if deniesSource(message) {
		return EndpointSourceAddressDenied, nil
	}
	if a.Status == 400 && plainToTLS(message) {
		return TLSHTTPSResponseToHTTPClient, nil
	}
	if a.Status >= 500 {
		if a.Operation == OperationFetchToken {
			return RegistryServerError, []Cause{IdentityTokenFetchDenied}
		}
		if strings.Contains(message, "upstream") && a.Answerer == answererRegistry {
			return RegistryServerError, []Cause{RegistryUpstreamFailed}
		}
		return RegistryServerError, nil
	}
	if a.Status == 429 || hasCode(a, "TOOMANYREQUESTS") {
		return RegistryRateLimited, nil
	}
	switch a.Answerer {
	case answererHTML:
		if a.Status == 401 {
			// A front end in the registry's place may ask for a login in HTML.
			c, _ := unauthorizedCause(a, message, credentialKnown)
			return c, []Cause{EndpointHTMLInsteadOfRegistry}
		}
		return EndpointHTMLInsteadOfRegistry, nil
	case answererObjectStore:
		switch a.Status {
		case 401, 403:
			return EndpointBlobHostForbidden, nil
		case 404:
			return ImageBlobUnknown, nil
		}
	}
	if a.Operation == OperationFetchToken {
		if c, alternatives := tokenCause(a, message, credentialKnown); c != "" {
			return c, alternatives
		}
	}
	if c, alternatives := codeCause(a); c != "" {
		if a.Mirror && a.Status == 404 {
			return RegistryMirrorMiss, []Cause{c}
		}
		if c == IdentityAccessDeniedOrMissing {
			if w, ok := messageSays(message); ok {
				return w.cause, orOther(w, IdentityAccessDeniedOrMissing)
			}
		}
		return c, alternatives
	}
	return statusCause(a, message, credentialKnown)
}

func statusCause(a *HTTPAnswer, message string, credentialKnown bool) (Cause, []Cause) {
	switch {
	case a.Status == 401:
		return unauthorizedCause(a, message, credentialKnown)
	case a.Status == 403:
		if w, ok := messageSays(message); ok {
			return w.cause, orOther(w, IdentityForbidden)
		}
		if a.Operation == OperationFetchBlob && !credentialKnown {
			// Until containerd 2.0, and in CRI-O, the text names the registry
			// also when the store that it redirects to refused.
			return IdentityForbidden, []Cause{EndpointBlobHostForbidden, EndpointSourceAddressDenied, IdentityAccessDeniedOrMissing}
		}
		return IdentityForbidden, []Cause{EndpointSourceAddressDenied, IdentityAccessDeniedOrMissing, RegistryPolicyBlocked}
	case a.Status == 404 && a.Mirror:
		return RegistryMirrorMiss, nil
	case a.Status == 404 && a.Operation == OperationFetchBlob:
		return ImageBlobUnknown, nil
	case a.Status == 404:
		return ImageNotFound, []Cause{IdentityAccessDeniedOrMissing}
	case a.Status == 405 && !credentialKnown:
		return RegistryClientError, []Cause{EndpointMethodBlocked}
	case a.Status == 405:
		return EndpointMethodBlocked, nil
	case a.Status == 412:
		return RegistryPolicyBlocked, nil
	case a.Status == 400 && !credentialKnown:
		// Servers of TLS answer clear HTTP so; their words may be cut off.
		return RegistryClientError, []Cause{TLSHTTPSResponseToHTTPClient}
	case a.Status >= 400:
		return RegistryClientError, nil
	case a.Status >= 300:
		return EndpointBadLocation, nil
	}
	return EndpointMalformedResponse, nil
}

// unauthorizedCause reads a 401 of the registry itself.
func unauthorizedCause(a *HTTPAnswer, message string, credentialKnown bool) (Cause, []Cause) {
	nobody := credentialKnown && !a.Credentialed
	if w, ok := messageSays(message); ok && !(nobody && w.cause == IdentityBadCredentials) {
		return w.cause, w.hit().alternatives
	}
	if nobody {
		return IdentityUnauthenticatedRequest, nil
	}
	return IdentityUnauthorized, nil
}

// messageSays reads a registry's own words.
func messageSays(message string) (phrase, bool) {
	if message == "" {
		return phrase{}, false
	}
	var words wordSet
	theLexicon().scan(message, &words)
	return words.match(messageTable())
}

// orOther returns the other reading of w, or else other.
func orOther(w phrase, other Cause) []Cause {
	if w.other != "" {
		other = w.other
	}
	if other == w.cause {
		return nil
	}
	return []Cause{other}
}

// tokenCause reads an answer of the token endpoint. A 404 there is not a missing
// image: the realm leads nowhere, or the service does not know the account. A
// network rule of the registry refuses with 403 there, too.
func tokenCause(a *HTTPAnswer, message string, credentialKnown bool) (Cause, []Cause) {
	switch a.Status {
	case 401, 403:
		if w, ok := messageSays(message); ok && (w.cause == IdentityTokenExpired ||
			w.cause == IdentityBadCredentials && (a.Credentialed || !credentialKnown)) {
			return w.cause, nil
		}
		if a.Status == 403 {
			return IdentityTokenFetchDenied, []Cause{EndpointSourceAddressDenied}
		}
		return IdentityTokenFetchDenied, nil
	case 400:
		// RFC 6749 section 5.2: refused grants are a 400.
		if strings.Contains(message, "invalid_grant") || strings.Contains(message, "invalid_client") ||
			hasCode(a, "INVALID_GRANT") || hasCode(a, "INVALID_CLIENT") {
			return IdentityTokenFetchDenied, nil
		}
	case 404:
		return EndpointBadRealm, []Cause{IdentityTokenFetchDenied}
	}
	return "", nil
}

// codeCause reads the error codes of the OCI distribution specification, and
// those that registries add.
func codeCause(a *HTTPAnswer) (Cause, []Cause) {
	for _, code := range a.Codes {
		switch c := codeCauses[strings.ToUpper(strings.TrimSpace(code))]; {
		case c == "":
		case c == IdentityAccessDeniedOrMissing && a.Status == 412:
			return RegistryPolicyBlocked, nil
		case c == IdentityAccessDeniedOrMissing:
			return c, []Cause{IdentityForbidden, EndpointSourceAddressDenied}
		case c == ImageRepositoryUnknown:
			return c, []Cause{IdentityAccessDeniedOrMissing}
		default:
			return c, nil
		}
	}
	return "", nil
}

var codeCauses = map[string]Cause{
	"MANIFEST_UNKNOWN": ImageManifestUnknown, "TAG_INVALID": ImageManifestUnknown, "NAME_UNKNOWN": ImageRepositoryUnknown,
	"BLOB_UNKNOWN": ImageBlobUnknown, "MANIFEST_BLOB_UNKNOWN": ImageBlobUnknown, "MANIFEST_INVALID": ImageManifestInvalid,
	"MANIFEST_UNVERIFIED": ImageManifestInvalid, "NAME_INVALID": ImageInvalidReference, "PROJECTPOLICYVIOLATION": RegistryPolicyBlocked,
	"DENIED": IdentityAccessDeniedOrMissing,
}

func hasCode(a *HTTPAnswer, code string) bool {
	return slices.ContainsFunc(a.Codes, func(c string) bool { return strings.EqualFold(strings.TrimSpace(c), code) })
}

// deniesSource reports whether the lower-case message refuses the address or
// the region that the request came from. No credential helps there.
func deniesSource(message string) bool {
	return containsAny(message, sourceDenied) || containsAny(message, sourceWords) && containsAny(message, deniedWords)
}

// deniedClient returns the address that a registry says it saw and refused, in
// "client with IP '203.0.113.9' is not allowed access".
func deniedClient(message string) string {
	lower := asciiLower(message)
	if !deniesSource(lower) {
		return ""
	}
	i := strings.Index(lower, " ip")
	if i < 0 {
		return ""
	}
	for _, word := range strings.FieldsFunc(message[i:min(len(message), i+256)], func(r rune) bool { return strings.ContainsRune(" '\"`,;()[]", r) }) {
		if a, err := netip.ParseAddr(strings.TrimRight(word, ".")); err == nil {
			return a.String()
		}
	}
	return ""
}

// plainToTLS reports whether the lower-case message is a TLS server's complaint
// about clear HTTP.
func plainToTLS(message string) bool {
	return strings.Contains(message, "http request to an https server") ||
		strings.Contains(message, "plain http request was sent to https port")
}

// answer reads texts that carry a status or a registry's error code.
func (p *piece) answer() (hit, bool) {
	status, body, ok := p.status()
	if !ok {
		return hit{}, false
	}
	a := &HTTPAnswer{
		Operation: p.operation(""), Host: p.req.host, Method: strings.ToUpper(p.req.method), URL: p.req.safeURL(),
		Status: status, Mirror: p.hasReq && p.req.mirror(),
	}
	a.Codes, a.Message = splitCode(body)
	lower := asciiLower(body)
	start := strings.TrimLeft(lower, ` :,"`)
	switch {
	case strings.Contains(lower, "<html") || strings.Contains(lower, "<!doctype html") || strings.HasPrefix(start, "<h") || strings.HasPrefix(start, "<!"):
		a.Answerer = answererHTML
	case strings.Contains(lower, "<?xml") || strings.Contains(lower, "<error>"):
		a.Answerer = answererObjectStore
	case a.Operation == OperationFetchBlob && p.req.host != "" && (!p.req.api() || (p.req.query != "" && !p.req.mirror())):
		// Only a redirect leads off the API or to a signed URL.
		a.Answerer = answererObjectStore
	case len(a.Codes) > 0:
		a.Answerer = answererRegistry
	case a.Operation == OperationFetchBlob && status == 403 && p.req.host != "" && !p.req.mirror() && otherHost(p.req.host, imageHost(p.image())):
		// containerd marks what it asks a mirror; only a redirect leads elsewhere.
		a.Answerer = answererObjectStore
	}
	c, alternatives := answerCause(a, false)
	if a.Operation == OperationFetchBlob && (status == 416 || status == 501 && (p.has("httpread") || p.has("failed seek"))) {
		c, alternatives = EndpointRangeRefused, []Cause{c}
	}
	facts := answerFacts(&HTTPAnswer{Status: status, Codes: a.Codes, Message: a.Message})
	h := hit{cause: c, alternatives: alternatives, facts: facts}
	if status < 500 && p.has("error parsing http ") {
		h.offer(EndpointHTMLInsteadOfRegistry) // docker's word that the body is none of a registry
	}
	return h, true
}

// status finds a status and what the text has of the body.
func (p *piece) status() (int, string, bool) {
	if p.req.status {
		if rest, ok := p.behindRequest(); ok {
			if n, body, ok := leadingStatus(rest); ok {
				return n, body, true
			}
		}
	}
	for i, id := range statusTable() {
		if !p.words.has(id) {
			continue
		}
		m := statusMarkers[i]
		if i := strings.LastIndex(p.lower, m); i >= 0 {
			rest := p.s[i+len(m):]
			if strings.HasPrefix(rest, "\u2026") || strings.HasPrefix(rest, "...") {
				_, rest, _ = strings.Cut(rest[:min(len(rest), 400)], ": ") // the head of the URL is left out
			}
			if n, body, ok := leadingStatus(rest); ok {
				return n, body, true
			}
		}
	}
	if i := p.index("status code ["); i >= 0 {
		if j := strings.Index(p.s[i:], "]: "); j >= 0 {
			return leadingStatus(p.s[i+j+3:])
		}
	}
	if i := p.index("status "); i >= 0 && p.has("trying to pull repository") {
		return leadingStatus(p.s[i+len("status "):])
	}
	return 0, "", false
}

// otherHost reports whether a request's host is not the image's; a reference
// without a host says nothing.
func otherHost(asked, image string) bool {
	return image != "" && asked != image && !strings.HasPrefix(asked, image+":")
}

func leadingStatus(s string) (int, string, bool) {
	if len(s) < 3 || (len(s) > 3 && s[3] >= '0' && s[3] <= '9') {
		return 0, "", false
	}
	n, err := strconv.Atoi(s[:3])
	if err != nil || n < 100 || n > 599 {
		return 0, "", false
	}
	body := s[3:]
	return n, body[:min(len(body), 4096)], true
}

// splitCode finds the registry's error code and message in what follows a
// status: " - Server message: code: text", or on a line of its own.
func splitCode(body string) ([]string, string) {
	text := body
	if i := strings.Index(text, "\n\""); i >= 0 {
		if name := text[i+2:]; strings.HasPrefix(name[max(strings.IndexByte(name, '"'), 0):], `":`) {
			text = text[:i] // the next field of a log in JSON
		}
	}
	if i := strings.Index(text, "Server message: "); i >= 0 {
		text = text[i+len("Server message: "):]
	} else if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text[i+1:]), "errors:"))
	} else if i := strings.IndexByte(text, '"'); i >= 0 {
		return nil, strings.TrimSuffix(strings.TrimSpace(text[i+1:]), `"`)
	} else {
		// The phrase of the status itself is no message.
		if _, after, ok := strings.Cut(text, ": "); ok {
			text = after
		} else {
			return nil, ""
		}
	}
	text = strings.TrimSpace(text)
	code, message, _ := strings.Cut(text, ":")
	if c, ok := registryCodes[asciiLower(strings.TrimSpace(code))]; ok {
		return []string{c}, strings.TrimSpace(message)
	}
	return nil, text
}

// codeFact returns the registry's error code that words stand for, if any.
func codeFact(words string) []Fact {
	return fact(FactCode, registryCodes[words])
}
