package classify

import (
	"strconv"
	"strings"
)

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
	switch {
	case strings.Contains(lower, "<html") || strings.Contains(lower, "<!doctype html"):
		a.Answerer = answererHTML
	case strings.Contains(lower, "<?xml") || strings.Contains(lower, "<error>"):
		a.Answerer = answererObjectStore
	case a.Operation == OperationFetchBlob && p.req.host != "" && (!p.req.api() || (p.req.query != "" && !p.req.mirror())):
		// Only a redirect leads off the API or to a signed URL.
		a.Answerer = answererObjectStore
	case len(a.Codes) > 0:
		a.Answerer = answererRegistry
	}
	c, alternatives := answerCause(a, false)
	facts := append([]Fact{{FactStatus, strconv.Itoa(status)}}, nil...)
	for _, code := range a.Codes {
		facts = append(facts, fact(FactCode, code)...)
	}
	facts = append(facts, fact(FactMessage, a.Message)...)
	if client := deniedClient(a.Message); client != "" {
		facts = append(facts, Fact{FactClient, client})
	}
	return hit{cause: c, alternatives: alternatives, facts: facts}, true
}

// statusMarkers stand before a status.
var statusMarkers = []string{
	"unexpected status: ", "received unexpected http status: ", "statuscode: ", "invalid status code from registry ",
	"unexpected status code ", "error parsing http ", "unexpected http code: ", "http status: ",
}

var statusTable = idsOf(statusMarkers)

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
			if n, body, ok := leadingStatus(p.s[i+len(m):]); ok {
				return n, body, true
			}
		}
	}
	if i := p.index("failed with status code ["); i >= 0 {
		if j := strings.Index(p.s[i:], "]: "); j >= 0 {
			return leadingStatus(p.s[i+j+3:])
		}
	}
	if i := p.index("status "); i >= 0 && p.has("trying to pull repository") {
		return leadingStatus(p.s[i+len("status "):])
	}
	return 0, "", false
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
	if i := strings.Index(text, "Server message: "); i >= 0 {
		text = text[i+len("Server message: "):]
	} else if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = strings.TrimSpace(text[i+1:])
		text = strings.TrimPrefix(text, "errors:")
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

// registryCodes are the codes of the OCI distribution specification as the
// runtimes print them, in lower case with spaces.
var registryCodes = map[string]string{
	"blob unknown": "BLOB_UNKNOWN", "manifest blob unknown": "MANIFEST_BLOB_UNKNOWN", "manifest invalid": "MANIFEST_INVALID",
	"manifest unknown": "MANIFEST_UNKNOWN", "name invalid": "NAME_INVALID", "name unknown": "NAME_UNKNOWN",
	"unauthorized": "UNAUTHORIZED", "denied": "DENIED", "unsupported": "UNSUPPORTED", "toomanyrequests": "TOOMANYREQUESTS",
	"unavailable": "UNAVAILABLE", "unknown": "UNKNOWN", "manifest_unknown": "MANIFEST_UNKNOWN", "name_unknown": "NAME_UNKNOWN",
	"blob_unknown": "BLOB_UNKNOWN",
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
