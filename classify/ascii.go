package classify

import (
	"net"
	"strconv"
	"strings"
)

// asciiLower lowers ASCII letters only, so that offsets stay those of s.
func asciiLower(s string) string {
	i := 0
	for i < len(s) && (s[i] < 'A' || s[i] > 'Z') {
		i++
	}
	if i == len(s) {
		return s
	}
	var short [1024]byte
	b := short[:]
	if len(s) > len(b) {
		b = make([]byte, len(s))
	}
	b = b[:len(s)]
	for i := range b {
		c := s[i]
		if c-'A' < 26 {
			c += 'a' - 'A'
		}
		b[i] = c
	}
	return string(b)
}

func isSchemeByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func skipAny(s string, at int, set string) int {
	for at < len(s) && strings.IndexByte(set, s[at]) >= 0 {
		at++
	}
	return at
}

func orElse[T ~string](v, other T) T {
	if v != "" {
		return v
	}
	return other
}

// spaced puts a space for each line break and tab.
func spaced(text string) string {
	if strings.IndexByte(text, '\n') < 0 && strings.IndexByte(text, '\t') < 0 && strings.IndexByte(text, '\r') < 0 {
		return text
	}
	b := []byte(text)
	for i, c := range b {
		if c == '\n' || c == '\t' || c == '\r' {
			b[i] = ' '
		}
	}
	return string(b)
}

func isASCII(s string) bool {
	for ; len(s) >= 8; s = s[8:] {
		if (s[0]|s[1]|s[2]|s[3]|s[4]|s[5]|s[6]|s[7])&0x80 != 0 {
			return false
		}
	}
	for i := range len(s) {
		if s[i]&0x80 != 0 {
			return false
		}
	}
	return true
}

// isAge reports whether word is an age as kubectl prints it: "7s", "2m35s".
func isAge(word string) bool {
	digits, units := false, false
	for _, c := range word {
		switch {
		case c >= '0' && c <= '9':
			digits = true
		case strings.ContainsRune("dhmsy", c) && digits:
			units, digits = true, false
		default:
			return false
		}
	}
	return units && !digits
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

func hasPort(host string) bool {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.IndexByte(host[i:], ']') >= 0 {
		return false
	}
	return host[0] == '[' && host[i-1] == ']' || strings.IndexByte(host[:i], ':') < 0
}

func joinPort(host, port string) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// validName reports whether s can have been looked up. It is generous: a proxy
// setting read wrongly makes odd names.
func validName(s string) bool {
	return s != "" && !strings.ContainsAny(s, "/\\<>=@{}[]")
}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

func beginsWith(s string, words []string) bool {
	for _, w := range words {
		if strings.HasPrefix(s, w) {
			return true
		}
	}
	return false
}
