package classify

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Redact returns text without query strings, user information in URLs, tokens
// and passwords, valid UTF-8, without control characters, at most limit bytes
// long (an ellipsis marks a cut). limit <= 0 means 1024.
//
// It knows a secret by its place: the query and the user information of a URL, a
// part of its path that is no word and no digest, "?name=" behind a relative path,
// the value of Authorization, Cookie and headers such as X-Registry-Auth, a Bearer
// or Basic token, and the value of a name such as password, token, secret,
// signature or X-Amz-*; and by its form: a JSON Web Token, and the prefixes that
// makers of tokens publish ("ghp_", "glpat-"). A secret that stands alone among other words is
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
	if !strings.ContainsAny(s, " :=?@") && !strings.Contains(s, "eyJ") {
		return redactTokens(s) // one word: no other form fits it
	}
	for _, redact := range [...]func(string) string{
		redactURLs, redactQueries, redactUserInfo, redactAuthorization, redactHeaders, redactSchemes, redactJWTs, redactPairs, redactTokens,
	} {
		s = redact(s)
	}
	return s
}

// rewrite replaces parts of s. next returns where the next part at or behind from
// begins and ends, and what stands there instead; a negative begin ends it.
func rewrite(s string, next func(from int) (begin, end int, with string)) string {
	var b strings.Builder
	for from := 0; ; {
		begin, end, with := next(from)
		if begin < 0 {
			if from == 0 {
				return s
			}
			b.WriteString(s[from:])
			return b.String()
		}
		if from == 0 {
			b.Grow(len(s))
		}
		b.WriteString(s[from:begin])
		b.WriteString(with)
		from = end
	}
}

func unlessMasked(value string) string {
	if masked(value) {
		return value
	}
	return mark
}

// printable makes text valid UTF-8 on one line. Format characters go, too: they
// can reorder what a terminal shows.
func printable(text string) string {
	i := 0
	for i < len(text) && text[i] >= ' ' && text[i] < 0x7f {
		i++
	}
	if i == len(text) {
		return text
	}
	return strings.Map(func(r rune) rune { // invalid bytes come as RuneError
		switch {
		case unicode.Is(unicode.Cf, r):
			return -1
		case unwanted(r):
			return ' '
		}
		return r
	}, text)
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
	return rewrite(s, func(from int) (int, int, string) {
		i := strings.Index(lower[from:], name)
		if i < 0 {
			return -1, 0, ""
		}
		at := skipAny(s, from+i+len(name), ` "'\`)
		if at >= len(s) || (s[at] != ':' && s[at] != '=') {
			return at, at, ""
		}
		at = skipAny(s, at+1, ` "'\[`)
		if strings.HasPrefix(lower[at:], name) {
			return at, at, "" // the word again; what follows it is the value
		}
		end := credentialEnd(s, at)
		if authScheme(asciiLower(s[at:end])) {
			at = skipAny(s, end, " ")
			end = parametersEnd(s, at)
		} else if smallLetters(s[at:end]) {
			return end, end, ""
		}
		return at, end, unlessMasked(s[at:end])
	})
}

func authScheme(word string) bool {
	return slices.Contains([]string{"basic", "bearer", "digest", "negotiate", "ntlm", "token", "apikey", "aws4-hmac-sha256"}, word)
}

// redactSchemes takes the token out of "Bearer TOKEN" and "Basic TOKEN" wherever
// they stand. "bearer token" and "Basic realm=" stay.
func redactSchemes(s string) string {
	lower := asciiLower(s)
	if !strings.Contains(lower, "bearer ") && !strings.Contains(lower, "basic ") {
		return s
	}
	return rewrite(s, func(from int) (int, int, string) {
		i := nextScheme(lower, from)
		if i < 0 {
			return -1, 0, ""
		}
		at := skipAny(s, i, ` "'`)
		end := at
		for end < len(s) && (isSchemeByte(s[end]) || strings.IndexByte("_~/=", s[end]) >= 0) {
			end++
		}
		word := s[at:end]
		if name, value, ok := strings.Cut(word, "="); prose(word) || (ok && strings.Trim(value, "=") != "" && !strings.ContainsAny(name, "/+")) ||
			(ok && value == "" && end < len(s) && s[end] == '"') {
			return at, end, word
		}
		return at, end, mark
	})
}

// nextScheme returns where the word after the next "bearer " or "basic " begins.
func nextScheme(lower string, from int) int {
	for i := from; i < len(lower); i++ {
		for _, scheme := range [...]string{"bearer ", "basic "} {
			if strings.HasPrefix(lower[i:], scheme) {
				return i + len(scheme)
			}
		}
	}
	return -1
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
	return rewrite(s, func(from int) (int, int, string) {
		i := strings.Index(s[from:], "eyJ")
		if i < 0 {
			return -1, 0, ""
		}
		i += from
		end := i
		for end < len(s) && (isSchemeByte(s[end]) || strings.IndexByte("_/=%", s[end]) >= 0) {
			end++
		}
		if end-i < 12 {
			return i, end, s[i:end]
		}
		return i, end, mark
	})
}

// redactPairs takes out the value of a secret's name: name=value, and in JSON
// "name":"value". A colon without quotes is prose ("invalid password: ...").
func redactPairs(s string) string {
	if strings.IndexByte(s, '=') < 0 && !strings.Contains(s, `":`) && !strings.Contains(s, `" :`) && !strings.Contains(s, `auth: "`) {
		return s
	}
	return rewrite(s, func(start int) (int, int, string) { // of the name that is being read
		for i := start; i < len(s); i++ {
			if isSchemeByte(s[i]) || s[i] == '_' {
				continue
			}
			name := s[start:i]
			start = i + 1
			if name == "" || !secretName(name) {
				continue
			}
			if at := valueStart(s, i, name); at >= 0 {
				end := valueEnd(s, at, at > 0 && (s[at-1] == '"' || s[at-1] == '\''))
				return at, end, unlessMasked(s[at:end])
			}
		}
		return -1, 0, ""
	})
}

// valueStart returns where the value of the name that ends at i begins, negative
// if it has none.
func valueStart(s string, i int, name string) int {
	switch {
	case s[i] == '=':
		return skipAny(s, i+1, `"'\`)
	case s[i] == '"' || strings.HasPrefix(s[i:], `\"`):
		at := skipAny(s, skipAny(s, i, `\"`), " ")
		if at >= len(s) || s[at] != ':' {
			return -1
		}
		at = skipAny(s, at+1, " ")
		if value := skipAny(s, at, `\"`); value > at {
			return value
		} // else a number or an object, no string
	case name == "auth" && strings.HasPrefix(s[i:], `: "`):
		return i + 3 // containerd: invalid decoded auth: "user:password"
	}
	return -1
}

// secretName reports whether the value of name must not be seen.
func secretName(name string) bool {
	n := asciiLower(name[max(0, len(name)-64):])
	return slices.Contains([]string{"sig", "auth", "pw", "pass", "se_sig", "code", "key-pair-id", "assertion"}, n) || containsAny(n, []string{
		"password", "passwd", "pwd", "token", "secret", "signature", "x-amz-", "apikey", "api_key", "api-key", "accesskey", "access_key",
		"access-key", "credential", "cookie", "privatekey", "private_key", "authorization",
	})
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
		at = credentialEnd(s, at)
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
