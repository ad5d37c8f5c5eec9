package classify

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean undoes what happened to a text on its way here, where that is certain:
// layers of escaping, borders of a terminal's window in the middle of a word,
// typographic quotes, marks of Markdown, HTML and CSV, colours. What could be
// part of the text stays.
func clean(text string) string {
	escapes := strings.IndexByte(text, '\\') >= 0
	bold, entities := strings.Contains(text, "**"), hasEntity(text)
	links := strings.IndexByte(text, '<') >= 0 || strings.Contains(text, "](")
	doubled := strings.Contains(text, `""`)
	if strings.IndexByte(text, 0x1b) >= 0 || !isASCII(text) {
		text = plain(text)
	}
	if strings.Count(text, "\n") > 1 {
		text = joinCut(text)
	}
	if bold {
		text = strings.ReplaceAll(text, "**", "")
	}
	if links {
		text = unlink(text)
	}
	if entities {
		text = htmlMarks.Replace(text)
	}
	if escapes {
		text = unescape(text)
	}
	if doubled && strings.HasPrefix(strings.TrimSpace(text), `"`) && strings.Contains(text, ` ""`) {
		text = strings.ReplaceAll(text, `""`, `"`) // a cell of a CSV file
	}
	return text
}

// unlink takes Markdown's marks off a URL: "<URL>" and "[URL](URL)".
func unlink(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for {
		i := strings.Index(text, "http")
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		end := i
		for end < len(text) && text[end] > ' ' && strings.IndexByte("<>]", text[end]) < 0 {
			end++
		}
		url, rest := text[i:end], text[end:]
		switch {
		case i > 0 && text[i-1] == '<' && strings.HasPrefix(rest, ">"):
			b.WriteString(text[:i-1])
			rest = rest[1:]
		case i > 0 && text[i-1] == '[' && strings.HasPrefix(rest, "]("+url+")"):
			b.WriteString(text[:i-1])
			rest = rest[len(url)+3:]
		default:
			b.WriteString(text[:i])
		}
		b.WriteString(url)
		text = rest
	}
}

// hasEntity reports whether text has a character as HTML writes it, "&quot;". The
// "&" of a query has none.
func hasEntity(text string) bool {
	for {
		i := strings.IndexByte(text, '&')
		if i < 0 {
			return false
		}
		text = text[i+1:]
		if n := strings.IndexByte(text[:min(len(text), 6)], ';'); n > 1 {
			return true
		}
	}
}

var htmlMarks = strings.NewReplacer("&quot;", `"`, "&#34;", `"`, "&#39;", "'", "&apos;", "'", "&lt;", "<", "&gt;", ">", "&amp;", "&")

var jsonMarks = strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">", `\u003C`, "<", `\u003E`, ">", `\u0022`, `\"`, `\u0027`, "'")

var (
	quoted   = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\t`, " ")
	newlines = strings.NewReplacer(`\r\n`, "\n", `\n`, "\n", `\t`, " ")
)

// unescape undoes up to four levels of quoting ("\\\"" and "\\n"), which logs
// put around an error that already has quotes. Other escapes stay: they may be
// bytes of a malformed answer.
func unescape(text string) string {
	if strings.Contains(text, `\u00`) {
		text = jsonMarks.Replace(text)
	}
	for range 4 {
		if !strings.Contains(text, `\"`) {
			break
		}
		text = quoted.Replace(text)
	}
	if strings.Contains(text, `\n`) || strings.Contains(text, `\t`) {
		text = newlines.Replace(text)
	}
	return text
}

// plain replaces characters that stand for others, and takes out those that
// nobody sees.
func plain(text string) string {
	text = joinBorders(text)
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); {
		if text[i] == 0x1b {
			i = colourEnd(text, i)
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch i += size; {
		case strings.ContainsRune("\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02", r):
			b.WriteByte('"')
		case r == '\u2018' || r == '\u2019':
			b.WriteByte('\'')
		case unicode.Is(unicode.Zs, r):
			b.WriteByte(' ')
		case !unicode.Is(unicode.Cf, r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// colourEnd returns where a terminal's control sequence that begins at i ends.
func colourEnd(text string, i int) int {
	end := i + 1
	if end < len(text) && text[end] == '[' {
		for end++; end < len(text) && end < i+16 && (text[end] < 0x40 || text[end] > 0x7e); end++ {
		}
		end++
	}
	return min(end, len(text))
}

// joinBorders joins lines that a window cut at its border: one space and a bar on
// each side are the window's, and a line that reaches the border goes on in the
// next one.
func joinBorders(text string) string {
	if !strings.Contains(text, bar) {
		return text
	}
	if strings.Contains(text, bar+bar) {
		text = strings.NewReplacer(" "+bar+bar+" ", "", bar+bar, "").Replace(text) // its line ends are lost
	}
	lines := strings.Split(text, "\n")
	bordered := 0
	for i, line := range lines {
		line = strings.TrimSpace(line)
		inner, left := strings.CutPrefix(line, bar)
		inner, right := strings.CutSuffix(inner, bar)
		if left || right {
			bordered++
			if left {
				inner = strings.TrimPrefix(inner, " ")
			}
			lines[i] = strings.TrimSuffix(inner, " ")
		}
	}
	if bordered == 0 {
		return text
	}
	return joinFull(lines)
}

const bar = "\u2502"

// joinFull puts lines together again: one that is as wide as the widest was cut
// by the window if several are, or if it ends inside of a word.
func joinFull(lines []string) string {
	width := 0
	for _, line := range lines {
		width = max(width, utf8.RuneCountInString(line))
	}
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(line)
		if i+1 < len(lines) && (utf8.RuneCountInString(line) < width || strings.HasSuffix(line, " ")) {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// joinCut joins lines that a window without a border cut, all at one width. It is
// certain if several lines are full and few are nearly full: those would be lines
// broken between words.
func joinCut(text string) string {
	width, full := windowWidth(strings.SplitSeq(text, "\n"))
	if width == 0 {
		return text
	}
	lines, near := strings.Split(text, "\n"), 0
	for _, line := range lines[:len(lines)-1] { // the last may end anywhere
		if n := utf8.RuneCountInString(line); n < width && n > width-15 {
			near++
		}
	}
	if 3*near >= full {
		return text
	}
	return joinFull(lines)
}

// windowWidth returns the width at which a window cut lines, and how many are
// that long; 0 if it did not cut any: the longest lines would be several.
func windowWidth(lines iter.Seq[string]) (width, full int) {
	const narrowest = 60
	for line := range lines {
		switch n := utf8.RuneCountInString(line); {
		case n > width:
			width, full = n, 1
		case n == width:
			full++
		}
	}
	if full < 2 || width < narrowest {
		return 0, 0
	}
	return width, full
}
