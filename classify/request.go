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
	quoted bool // the URL stood in quotes, as the transport's errors have it
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
	case r.api() && strings.Contains(r.path, "/blobs/"):
		if strings.EqualFold(r.method, "HEAD") {
			// Only a lookup by digest asks for the head of a blob.
			return OperationResolveManifest
		}
		return OperationFetchBlob
	case strings.EqualFold(r.method, "POST"),
		strings.Contains(r.query, "scope=") || strings.Contains(r.query, "account=") || strings.Contains(r.query, "service="):
		return OperationFetchToken
	case r.path == "/v2/" || r.path == "/v2" || r.path == "/v1/_ping" || strings.HasPrefix(r.path, "/v1/repositories/"):
		return OperationResolveManifest
	case strings.HasSuffix(r.path, "/token") || strings.HasSuffix(r.path, "/oauth2/exchange") || strings.HasSuffix(r.path, "/jwt/auth"):
		return OperationFetchToken
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

// requests finds the requests in text, in order. A URL counts only where the
// text says that it was asked: links to documentation do not.
func requests(text string) []request {
	var found []request
	for at := 0; at < len(text); {
		i := strings.Index(text[at:], "://")
		if i < 0 {
			break
		}
		i += at
		start := i
		for start > at && isSchemeByte(text[start-1]) {
			start--
		}
		end := urlEnd(text, i+3, start > 0 && text[start-1] == '"')
		at = max(end, i+3)
		scheme := asciiLower(text[start:i])
		if scheme != "http" && scheme != "https" {
			continue
		}
		before := text[max(0, start-40):start]
		quoted := strings.HasSuffix(before, `"`)
		before = strings.TrimRight(before, "\" \t\n")
		word := before[strings.LastIndexAny(before, " \t\n:\"(")+1:]
		r := request{}
		switch lower := asciiLower(word); {
		case lower == "get" || lower == "head" || lower == "post":
			r = parseRequest(word, text[start:end])
		case strings.HasSuffix(before, "request to"):
			r = parseRequest(methodBefore(before), text[start:end])
			r.status = true
		case strings.HasSuffix(before, "status code"), strings.HasSuffix(before, "content at"), strings.HasSuffix(before, "last URL"),
			strings.HasSuffix(before, "blob body from"):
			r = parseRequest("", text[start:end])
			r.status = true
		default:
			continue
		}
		r.quoted, r.end = quoted, end
		if quoted && end < len(text) && text[end] == '"' {
			r.end++
		}
		found = append(found, r)
		if len(found) == 64 {
			break
		}
	}
	return found
}

// methodBefore returns the word before " request to".
func methodBefore(before string) string {
	before = strings.TrimRight(strings.TrimSuffix(before, "request to"), " ")
	return before[strings.LastIndexAny(before, " \t\n")+1:]
}

// urlEnd returns where a URL that goes on at i ends.
func urlEnd(text string, i int, quoted bool) int {
	end := i
	for end < len(text) {
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
		// Very old clients put no space after the colon.
		if j := strings.Index(text[i:end], ":x509"); j > 0 {
			end = i + j
		}
	}
	return end
}

func isSchemeByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'
}

// asciiLower lowers ASCII letters only, so that offsets stay those of s.
func asciiLower(s string) string {
	i := 0
	for i < len(s) && (s[i] < 'A' || s[i] > 'Z') {
		i++
	}
	if i == len(s) {
		return s
	}
	b := []byte(s)
	for ; i < len(b); i++ {
		if b[i] >= 'A' && b[i] <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}
