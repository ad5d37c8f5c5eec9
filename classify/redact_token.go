package classify

import "strings"

// tokenPrefixes are how the tokens of registries, forges and clouds begin, as their
// makers publish it for scanners, each with the least length of what follows.
var tokenPrefixes = []struct {
	prefix string
	rest   int
}{
	{"ghp_", 20}, {"gho_", 20}, {"ghu_", 20}, {"ghs_", 20}, {"ghr_", 20}, {"github_pat_", 20}, // GitHub
	{"glpat-", 16}, {"gldt-", 16}, {"glrt-", 16}, {"glcbt-", 16}, {"gloas-", 16}, // GitLab
	{"dckr_pat_", 16}, {"dckr_oat_", 16}, // Docker Hub
	{"AKIA", 16}, {"ASIA", 16}, // AWS
	{"AIza", 30}, {"ya29.", 20}, {"GOCSPX-", 16}, // Google
	{"dop_v1_", 20}, {"doo_v1_", 20}, {"dor_v1_", 20}, // DigitalOcean
	{"AKCp", 30}, {"cmVmdGtu", 30}, // Artifactory
	{"ATATT3", 30}, {"ATBB", 20}, {"hvs.", 20}, {"npm_", 30}, {"pypi-", 30}, {"xoxb-", 16}, {"xoxp-", 16},
}

// redactTokens takes out what begins as a token of a known maker, wherever it
// stands.
func redactTokens(s string) string {
	return rewrite(s, func(from int) (int, int, string) {
		if i := nextToken(s, from); i >= 0 {
			return i, tokenRun(s, i), mark
		}
		return -1, 0, ""
	})
}

// nextToken returns where the next token at or behind from begins, negative if
// there is none.
func nextToken(s string, from int) int {
	for i := from; i < len(s); i++ {
		if i > 0 && (isSchemeByte(s[i-1]) || s[i-1] == '_') || !isLetter(s[i]) {
			continue
		}
		for _, t := range tokenPrefixes {
			if t.prefix[0] == s[i] && strings.HasPrefix(s[i:], t.prefix) && tokenRun(s, i) >= i+len(t.prefix)+t.rest {
				return i
			}
		}
	}
	return -1
}

func tokenRun(s string, i int) int {
	for i < len(s) && (isSchemeByte(s[i]) || s[i] == '_') {
		i++
	}
	return i
}

// redactHeaders takes the value out of "Name: value" where the name is that of a
// header with a secret. Authorization has a rule of its own.
func redactHeaders(s string) string {
	if !strings.Contains(s, ": ") {
		return s
	}
	return rewrite(s, func(from int) (int, int, string) {
		for at := from; ; {
			i := strings.Index(s[at:], ": ")
			if i < 0 {
				return -1, 0, ""
			}
			i += at
			at = i + 2
			start := i
			for start > from && i-start < 64 && (isSchemeByte(s[start-1]) || s[start-1] == '_') {
				start--
			}
			if !secretHeader(s[start:i]) {
				continue
			}
			end := credentialEnd(s, at)
			for end < len(s)-1 && s[end] == ' ' && (s[end-1] == ';' || authScheme(asciiLower(s[at:end]))) {
				end = credentialEnd(s, end+1)
			}
			if at < end {
				return at, end, unlessMasked(s[at:end])
			}
		}
	})
}

func secretHeader(name string) bool {
	switch n := asciiLower(name); n {
	case "cookie", "set-cookie", "private-token", "job-token", "deploy-token":
		return true
	default:
		return strings.HasPrefix(n, "x-") && containsAny(n, []string{"token", "auth", "api-key", "apikey", "art-api", "secret", "password", "signature", "credential"})
	}
}
