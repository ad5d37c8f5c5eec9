package classify

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Redact returns text without query strings, user information in URLs, tokens
// and passwords, valid UTF-8, without control characters, at most limit bytes
// long (an ellipsis marks a cut). limit <= 0 means 1024.
//
// It knows a secret by its place: the query and the user information of a URL,
// "?name=" behind a relative path, an Authorization value, a Bearer or Basic
// token, a JSON Web Token, and the value of a name such as password, token,
// secret, signature or X-Amz-*. A secret that stands alone among other words is
// not recognised; callers must not pass such text on. Redacting twice changes
// nothing. The time is linear in the length of text.
func Redact(text string, limit int) string {
	if limit <= 0 {
		limit = 1024
	}
	out := cut(redactOnce(printable(text)), limit)
	// A cut may leave the head of a form that reads differently from the whole;
	// it only gets shorter and settles at once.
	for range 4 {
		again := cut(redactOnce(out), limit)
		if again == out {
			return out
		}
		out = again
	}
	return cut(out[:strings.LastIndexByte(out, ' ')+1], limit)
}

const (
	mark     = "***" // stands for what was taken out
	ellipsis = "\u2026"
)

func redactOnce(s string) string {
	s = redactURLs(s)
	s = redactQueries(s)
	s = redactUserInfo(s)
	s = redactAuthorization(s)
	s = redactSchemes(s)
	s = redactJWTs(s)
	s = redactPairs(s)
	return s
}

// printable makes text valid UTF-8 on one line. Format characters go, too: they
// can reorder what a terminal shows.
func printable(text string) string {
	clean := true
	for _, r := range text {
		if r == utf8.RuneError || unwanted(r) {
			clean = false
			break
		}
	}
	if clean {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text { // invalid bytes come as RuneError
		switch {
		case unicode.Is(unicode.Cf, r):
		case unwanted(r):
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unwanted(r rune) bool {
	return r < ' ' || r == 0x7f || (r > 0x7f && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'))
}

// cut shortens s to limit bytes at a rune.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	room := limit - len(ellipsis)
	if room <= 0 {
		return ""
	}
	for room > 0 && !utf8.RuneStart(s[room]) {
		room--
	}
	return s[:room] + ellipsis
}

// redactAuthorization takes the value out of "Authorization: ...". The word also
// stands in prose ("may require authorization: server message"), so a value of
// small letters alone stays.
func redactAuthorization(s string) string {
	const name = "authorization"
	lower := asciiLower(s)
	if !strings.Contains(lower, name) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	from := 0
	for {
		i := strings.Index(lower[from:], name)
		if i < 0 {
			b.WriteString(s[from:])
			return b.String()
		}
		at := skipAny(s, from+i+len(name), ` "'\`)
		if at >= len(s) || (s[at] != ':' && s[at] != '=') {
			b.WriteString(s[from:at])
			from = at
			continue
		}
		at = skipAny(s, at+1, ` "'\[`)
		b.WriteString(s[from:at])
		if strings.HasPrefix(lower[at:], name) {
			from = at // the word again; what follows it is the value
			continue
		}
		end := credentialEnd(s, at)
		word := s[at:end]
		if authScheme(asciiLower(word)) {
			b.WriteString(word)
			next := skipAny(s, end, " ")
			b.WriteString(s[end:next])
			at, end = next, parametersEnd(s, next)
			word = s[at:end]
		} else if smallLetters(word) {
			b.WriteString(word)
			from = end
			continue
		}
		if masked(word) {
			b.WriteString(word)
		} else {
			b.WriteString(mark)
		}
		from = end
	}
}

func authScheme(word string) bool {
	switch word {
	case "basic", "bearer", "digest", "negotiate", "ntlm", "token", "apikey", "aws4-hmac-sha256":
		return true
	}
	return false
}

// redactSchemes takes the token out of "Bearer TOKEN" and "Basic TOKEN" wherever
// they stand. "bearer token" and "Basic realm=" stay.
func redactSchemes(s string) string {
	lower := asciiLower(s)
	if !strings.Contains(lower, "bearer ") && !strings.Contains(lower, "basic ") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	from := 0
	for from < len(s) {
		i := nextScheme(lower, from)
		if i < 0 {
			break
		}
		at := skipAny(s, i, ` "'`)
		end := at
		for end < len(s) && (isSchemeByte(s[end]) || strings.IndexByte("_~/=", s[end]) >= 0) {
			end++
		}
		word := s[at:end]
		b.WriteString(s[from:at])
		if name, value, ok := strings.Cut(word, "="); prose(word) || (ok && strings.Trim(value, "=") != "" && !strings.ContainsAny(name, "/+")) ||
			(ok && value == "" && end < len(s) && s[end] == '"') {
			b.WriteString(word)
		} else {
			b.WriteString(mark)
		}
		from = end
	}
	b.WriteString(s[from:])
	return b.String()
}

// nextScheme returns where the word after the next "bearer " or "basic " begins.
func nextScheme(lower string, from int) int {
	for i := from; ; {
		n := strings.Index(lower[i:], "b")
		if n < 0 {
			return -1
		}
		i += n
		if strings.HasPrefix(lower[i:], "bearer ") {
			return i + len("bearer ")
		}
		if strings.HasPrefix(lower[i:], "basic ") {
			return i + len("basic ")
		}
		i++
	}
}

// prose reports whether a word is language and no token: letters only, in small
// letters, with a capital, or a short word in capitals.
func prose(word string) bool {
	word = strings.TrimRight(word, ".")
	if word == "" {
		return true
	}
	return smallLetters(word[1:]) && isLetter(word[0]) || (len(word) <= 8 && smallLetters(asciiLower(word)) && strings.ToUpper(word) == word)
}

func smallLetters(s string) bool {
	s = strings.TrimRight(s, ".,:;")
	for i := range len(s) {
		if s[i] < 'a' || s[i] > 'z' {
			return false
		}
	}
	return true
}

// redactJWTs takes out what begins like the base64 of `{"`.
func redactJWTs(s string) string {
	if !strings.Contains(s, "eyJ") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for {
		i := strings.Index(s, "eyJ")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		end := i
		for end < len(s) && (isSchemeByte(s[end]) || strings.IndexByte("_/=%", s[end]) >= 0) {
			end++
		}
		if end-i >= 12 {
			b.WriteString(mark)
		} else {
			b.WriteString(s[i:end])
		}
		s = s[end:]
	}
}

// redactPairs takes out the value of a secret's name: name=value, and in JSON
// "name":"value". A colon without quotes is prose ("invalid password: ...").
func redactPairs(s string) string {
	if strings.IndexByte(s, '=') < 0 && !strings.Contains(s, `":`) && !strings.Contains(s, `" :`) && !strings.Contains(s, `auth: "`) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	from, start := 0, 0 // start of the name that is being read
	for i := 0; i < len(s); i++ {
		c := s[i]
		if isSchemeByte(c) || c == '_' {
			continue
		}
		name := s[start:i]
		start = i + 1
		if name == "" || !secretName(name) {
			continue
		}
		var at int
		switch {
		case c == '=':
			at = skipAny(s, i+1, `"'\`)
		case c == '"' || (c == '\\' && strings.HasPrefix(s[i:], `\"`)):
			at = skipAny(s, i, `\"`)
			if at = skipAny(s, at, " "); at >= len(s) || s[at] != ':' {
				continue
			}
			at = skipAny(s, at+1, " ")
			value := skipAny(s, at, `\"`)
			if value == at {
				continue // a number or an object, no string
			}
			at = value
		case c == ':' && name == "auth" && strings.HasPrefix(s[i:], `: "`):
			at = i + 3 // containerd: invalid decoded auth: "user:password"
		default:
			continue
		}
		quoted := at > 0 && (s[at-1] == '"' || s[at-1] == '\'')
		end := valueEnd(s, at, quoted)
		b.WriteString(s[from:at])
		if value := s[at:end]; value == "" || masked(value) {
			b.WriteString(value)
		} else {
			b.WriteString(mark)
		}
		from, start, i = end, end, end-1
		if i < at-1 {
			i = at - 1
		}
	}
	b.WriteString(s[from:])
	return b.String()
}

// secretName reports whether the value of name must not be seen.
func secretName(name string) bool {
	n := asciiLower(name[max(0, len(name)-64):])
	switch n {
	case "sig", "auth", "pw", "pass", "se_sig", "code", "key-pair-id", "assertion":
		return true
	}
	for _, w := range []string{
		"password", "passwd", "pwd", "token", "secret", "signature", "x-amz-", "apikey", "api_key", "api-key", "accesskey", "access_key",
		"access-key", "credential", "privatekey", "private_key", "authorization",
	} {
		if strings.Contains(n, w) {
			return true
		}
	}
	return false
}

func valueEnd(s string, at int, quoted bool) int {
	for end := at; end < len(s); end++ {
		switch c := s[end]; {
		case c == '"' || c == '\'' && quoted:
			if end > at && s[end-1] == '\\' {
				return end - 1
			}
			return end
		case quoted:
		case c == ' ' || c == '&' || c == ',' || c == ';' || c == '<' || c == '>' || c == '`' || c == ')' || c == ']' || c == '}':
			return end
		}
	}
	return len(s)
}

// credentialEnd returns the end of one word of a header's value.
func credentialEnd(s string, at int) int {
	for at < len(s) && strings.IndexByte(" \"'`<>\\]", s[at]) < 0 {
		at++
	}
	return at
}

// parametersEnd returns the end of a token or of a list of parameters,
// `a="b", c=d`.
func parametersEnd(s string, at int) int {
	for {
		for at < len(s) && strings.IndexByte(" \"'`<>\\]", s[at]) < 0 {
			at++
		}
		if at < len(s) && s[at] == '"' && at > 0 && s[at-1] == '=' {
			n := strings.IndexByte(s[at+1:], '"')
			if n < 0 {
				return len(s)
			}
			at += n + 2
		}
		if at < len(s) && s[at] == ',' {
			at++
		}
		next := skipAny(s, at, " ")
		if at == 0 || s[at-1] != ',' || !parameter(s[next:]) {
			return at
		}
		at = next
	}
}

// parameter reports whether s begins with "name=".
func parameter(s string) bool {
	n := 0
	for n < len(s) && n < 64 && (isSchemeByte(s[n]) || s[n] == '_') {
		n++
	}
	return n > 0 && n < len(s) && s[n] == '='
}

// masked reports whether a value was taken out already.
func masked(value string) bool {
	return strings.Trim(value, "*"+ellipsis) == ""
}
