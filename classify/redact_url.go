package classify

import "strings"

// redactURLs takes user information and everything from the first "?" or "#" out
// of each URL.
func redactURLs(s string) string {
	return rewrite(s, func(from int) (int, int, string) {
		i := strings.Index(s[from:], "://")
		if i < 0 {
			return -1, 0, ""
		}
		i += from + len("://")
		token := withoutPunctuation(s[i : i+tokenEnd(s[i:])])
		return i, i + len(token), bareURL(token)
	})
}

// bareURL takes what stands behind "://".
func bareURL(token string) string {
	authority := token
	if i := strings.IndexAny(authority, "/?#"); i >= 0 {
		authority = authority[:i]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		token = token[i+1:]
	} else if user, password, ok := strings.Cut(authority, ":"); ok && !strings.HasPrefix(authority, "[") && !port(password) {
		// No port: a password with a slash in it, or cut before its "@".
		if i := strings.LastIndexByte(token, '@'); i >= 0 && !digestAt(token[i+1:]) {
			token = token[i+1:]
		} else {
			token = user + ":" + mark + token[len(authority):]
		}
	}
	if i := strings.IndexAny(token, "?#"); i >= 0 {
		token = token[:i]
	}
	return unsigned(token)
}

// unsigned takes signatures out of a path. Google's registry signs its redirects
// so: .../downloads/SIGNATURE.
func unsigned(token string) string {
	return rewrite(token, func(from int) (int, int, string) {
		for i := from; i < len(token); {
			end := len(token)
			if n := strings.IndexByte(token[i:], '/'); n >= 0 {
				end = i + n
			}
			if i > 0 && random(token[i:end]) {
				return i, end, mark
			}
			i = end + 1
		}
		return -1, 0, ""
	})
}

// random reports whether a part of a path is no word and no digest: long, with
// small letters, capitals and digits, which change all the time.
func random(part string) bool {
	var seen [3]int
	changes, last := 0, -1
	for i := range len(part) {
		class := 0
		switch c := part[i]; {
		case c >= 'a' && c <= 'z':
		case c >= 'A' && c <= 'Z':
			class = 1
		case c >= '0' && c <= '9':
			class = 2
		default:
			continue
		}
		if seen[class]++; class != last {
			changes++
		}
		last = class
	}
	n := seen[0] + seen[1] + seen[2]
	return n >= 24 && seen[0] > 0 && seen[1] > 0 && seen[2] > 0 && 5*changes >= 2*n
}

func port(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return s == mark || s == ellipsis || strings.HasPrefix(s[i:], ellipsis)
		}
	}
	return true
}

// tokenEnd returns where an unbroken run of text ends: at a space, a closing
// quote or an angle bracket. A quote right after "=" belongs to the run.
func tokenEnd(s string) int {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '<', '>', '`':
			return i
		case '"':
			if i == 0 || s[i-1] != '=' {
				return i
			}
			n := strings.IndexByte(s[i+1:], '"')
			if n < 0 {
				return len(s)
			}
			i += n + 1
		case '\\':
			if i+1 < len(s) && (s[i+1] == '"' || s[i+1] == 'n') {
				return i
			}
		}
	}
	return len(s)
}

// withoutPunctuation takes the sentence's own punctuation off the end of a run,
// so that "URL?query: 401" keeps its colon.
func withoutPunctuation(token string) string { return strings.TrimRight(token, ":,;.)]}'") }

// redactQueries takes "?name=..." out behind anything, with or without a scheme.
func redactQueries(s string) string {
	return rewrite(s, func(from int) (int, int, string) {
		for i := from; ; i++ {
			next := strings.IndexByte(s[i:], '?')
			if next < 0 {
				return -1, 0, ""
			}
			i += next
			n := i + 1
			for n < len(s) && (isSchemeByte(s[n]) || strings.IndexByte("_%~[]$", s[n]) >= 0) {
				n++
			}
			if n > i+1 && n < len(s) && s[n] == '=' {
				return i, i + len(withoutPunctuation(s[i:i+tokenEnd(s[i:])])), ""
			}
		}
	})
}

// redactUserInfo takes "user:password" out before an "@" where no scheme shows
// that it is a URL. "name:tag@sha256:..." is an image.
func redactUserInfo(s string) string {
	return rewrite(s, func(from int) (int, int, string) {
		i := strings.IndexByte(s[from:], '@')
		if i < 0 {
			return -1, 0, ""
		}
		before := s[from : from+i]
		i += from
		start := strings.LastIndexAny(before, " \"'=<>(),;[]{}`") + 1
		if j := strings.LastIndex(before[start:], "//"); j >= 0 {
			start += j + 2
		}
		if strings.IndexByte(before[start:], ':') >= 0 && !digestAt(s[i+1:]) {
			return from + start, i + 1, mark + "@"
		}
		return i, i + 1, "@"
	})
}

// digestAt reports whether s begins with a digest, "sha256:...".
func digestAt(s string) bool {
	algorithm, rest, ok := strings.Cut(s[:min(len(s), 40)], ":")
	if !ok || algorithm == "" || rest == "" {
		return strings.HasPrefix(s, "sha256") || strings.HasPrefix(s, "sha512")
	}
	return algorithm == "sha256" || algorithm == "sha512" || algorithm == "sha384"
}
