package classify

import "strings"

// request is a request as an error names it: method and URL.
type request struct {
	method string
	scheme string
	host   string // host[:port], without user information
	path   string
	query  string
	end    int  // where the text goes on after the URL
	status bool // the text says that this request was answered
}

// parseRequest splits a URL by hand: in a text it may be cut or damaged, and
// what [net/url] refuses still names its host.
func parseRequest(method, url string) request {
	r := request{method: method}
	rest := url
	if i := strings.Index(rest, "://"); i >= 0 {
		r.scheme, rest = rest[:i], rest[i+3:]
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		r.host, rest = rest[:i], rest[i:]
	} else {
		r.host, rest = rest, ""
	}
	if i := strings.LastIndexByte(r.host, '@'); i >= 0 {
		r.host = r.host[i+1:]
	}
	if len(r.host) > 255 || strings.ContainsAny(r.host, " <>\"'\\") {
		r.host = ""
	}
	r.path, r.query, _ = strings.Cut(rest, "?")
	r.query, _, _ = strings.Cut(r.query, "#")
	return r
}

// operation reads what part of a pull the request was. "" = the URL alone does
// not say.
func (r request) operation() Operation {
	switch {
	case strings.Contains(r.path, "/manifests/"):
		return OperationResolveManifest
	case strings.EqualFold(r.method, "HEAD"):
		// Only manifests are asked for by their head. For a blob it is a lookup
		// by digest.
		return OperationResolveManifest
	case r.api() && strings.Contains(r.path, "/blobs/"):
		return OperationFetchBlob
	case strings.EqualFold(r.method, "POST"),
		strings.Contains(r.query, "scope=") || strings.Contains(r.query, "account=") || strings.Contains(r.query, "service="):
		return OperationFetchToken
	case r.path == "/v2/" || r.path == "/v2" || r.path == "/v1/_ping" || strings.HasPrefix(r.path, "/v1/repositories/"):
		return OperationResolveManifest
	case strings.HasSuffix(r.path, "/token") || strings.HasSuffix(r.path, "/oauth2/exchange") || strings.HasSuffix(r.path, "/jwt/auth"):
		return OperationFetchToken
	case strings.HasSuffix(r.path, "/tags/list") || strings.HasSuffix(r.path, "/_catalog"):
		return OperationUnknown // no part of a pull
	case r.api() || strings.HasPrefix(r.path, "/v1/"):
		return OperationResolveManifest
	}
	return ""
}

// api reports whether the path is one of the registry API. A blob elsewhere
// lies in an object store.
func (r request) api() bool { return strings.HasPrefix(r.path, "/v2/") }

// mirror reports whether the request names the registry that it stands in for;
// containerd adds it when the host is not the image's own.
func (r request) mirror() bool {
	return strings.HasPrefix(r.query, "ns=") || strings.Contains(r.query, "&ns=")
}

// safeURL returns the URL without query and user information.
func (r request) safeURL() string {
	if r.host == "" {
		return ""
	}
	return r.scheme + "://" + r.host + r.path
}

// requestAt reads the request whose URL begins at start and goes on at i.
func requestAt(text string, start, i int) (request, bool) {
	before := text[max(0, start-400):start]
	quoted := strings.HasSuffix(before, `"`)
	before = strings.TrimRight(before, "\" \t\n")
	before = spaced(before[max(0, len(before)-40):])
	word := before[strings.LastIndexAny(before, " \t\n:\"([]")+1:]
	var r request
	switch {
	case strings.EqualFold(word, "get"), strings.EqualFold(word, "head"), strings.EqualFold(word, "post"):
		r.method = word
	case strings.HasSuffix(before, "request to"):
		r.method, r.status = methodBefore(before), true
	case strings.HasSuffix(before, "status code"), strings.HasSuffix(before, "content at"), strings.HasSuffix(before, "last URL"),
		strings.HasSuffix(before, "blob body from"), strings.HasSuffix(before, "upstream:"):
		r.status = true
	case strings.HasSuffix(before, "for url ("): // reqwest, of the pullers in Rust; without a method
	case strings.HasSuffix(before, "external blob from"):
		r.method, r.status = "GET", true
	default:
		return request{}, false
	}
	end := urlEnd(text, i, quoted)
	if quoted && (end == len(text) || text[end] != '"' || strings.Contains(text[i:end], ": ")) {
		quoted = false // it never closes, or far behind
		end = urlEnd(text, i, false)
	}
	parsed := parseRequest(r.method, text[start:end])
	parsed.status, parsed.end = r.status, end
	if quoted && end < len(text) && text[end] == '"' {
		parsed.end++
	}
	if rest := strings.TrimPrefix(strings.TrimLeft(text[end:], "."), "\u2026"); len(text)-end-len(rest) >= 3 {
		parsed.end = len(text) - len(rest) // cut short by who wrote it
	}
	return parsed, true
}

// bareRequest finds a request whose URL lost its scheme or its host, to a
// reporter or to a log that masks secrets: Head "registry/team/app", Get ***v2/.
func bareRequest(text string) (request, bool) {
	for _, method := range [...]string{"Head ", "Get ", "Post "} {
		i := strings.LastIndex(text, method)
		if i < 0 || (i > 0 && strings.IndexByte(" \t\n:\"([]", text[i-1]) < 0) {
			continue
		}
		start := i + len(method)
		rest := text[start:min(len(text), start+2048)]
		end := start
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			n := max(strings.IndexByte(quoted, '"'), 0)
			rest, end = quoted[:n], start+n+2
		} else if n := strings.IndexAny(rest, " \n\""); n > 1 && rest[n-1] == ':' {
			rest, end = rest[:n-1], start+n-1
		}
		if end == start || !strings.Contains(rest, "/") || strings.ContainsAny(rest, " \n") {
			continue
		}
		parsed := parseRequest(strings.TrimSpace(method), rest)
		parsed.end = end
		if !strings.ContainsAny(parsed.host, ".:") || strings.ContainsAny(parsed.host, "*<>") {
			parsed.host = ""
		}
		if strings.HasSuffix(rest, "v2/") {
			parsed.path = "/v2/"
		}
		return parsed, true
	}
	return request{}, false
}

// methodBefore returns the word before " request to".
func methodBefore(before string) string {
	before = strings.TrimRight(strings.TrimSuffix(before, "request to"), " ")
	return before[strings.LastIndexAny(before, " \t\n")+1:]
}

// maxURL bounds a URL in a text. Signed ones are long.
const maxURL = 8 << 10

// urlEnd returns where a URL that goes on at i ends.
func urlEnd(text string, i int, quoted bool) int {
	end, limit := i, min(len(text), i+maxURL)
	for end < limit {
		c := text[end]
		if c == '"' || c == '`' || c <= ' ' && (!quoted || c == '\n') {
			break
		}
		if c == '<' && !quoted && end > i && text[end-1] == ' ' {
			break
		}
		end++
	}
	if !quoted {
		for end > i && strings.IndexByte(":,;.)]'", text[end-1]) >= 0 {
			end--
		}
		end = i + len(strings.TrimSuffix(text[i:end], "\u2026"))
		// Very old clients put no space after the colon.
		if j := strings.Index(text[i:end], ":x509"); j > 0 {
			end = i + j
		}
	}
	return end
}
