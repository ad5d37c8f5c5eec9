package classify_test

import (
	"encoding/json"
	"iter"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pullwalk/pullwalk/classify"
)

var (
	wholeURL  = regexp.MustCompile(`https?://[^\s"'\\<>\])]+[^\s"'\\<>\]):,.;]`)
	quotedURL = regexp.MustCompile(`("https?://[^\s"\\]+)"`)
	longHex   = regexp.MustCompile(`\b(sha256:[0-9a-f]{6})[0-9a-f]{26,58}\b`)
)

// damages are what people and their tools do to a text on its way to a report.
func damages(text string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		list := [][2]string{
			{"quoted mail", "> " + strings.ReplaceAll(text, "\n", "\n> ")},
			{"table", "| " + text + " |"},
			{"ci prefix", "##[error]" + text},
			{"ci time", "2026-05-06T07:08:09.1234567Z " + text},
			{"journal", "May 06 07:08:09 node-7 kubelet[1203]: " + text},
			{"compose", " web Error " + text},
			{"backticks", "```\n" + text + "\n```"},
			{"make", text + "\nmake: *** [Makefile:3: deploy] Error 1"},
			{"brace", text + "\n}"},
			{"exit status", text + "\nexit status 1"},
			{"dockerfile", text + "\n------\nDockerfile:1"},
			{"markdown link", wholeURL.ReplaceAllString(text, "[$0]($0)")},
			{"angle brackets", wholeURL.ReplaceAllString(text, "<$0>")},
			{"open quote", quotedURL.ReplaceAllString(text, "$1")},
			{"digest cut", longHex.ReplaceAllString(text, "$1...")},
			{"digest elided", longHex.ReplaceAllString(text, "$1…")},
			{"url cut", wholeURL.ReplaceAllStringFunc(text, func(u string) string { return shortened(u, "...") })},
			{"url elided", wholeURL.ReplaceAllStringFunc(text, func(u string) string { return shortened(u, "…") })},
			{"json", pretty(text)},
			{"wrapped at 80", wrapped(text, 80)},
			{"wrapped at 100", wrapped(text, 100)},
			{"wrapped at words", wrappedAtWords(text, 72)},
			{"bordered", "\u2502 " + strings.ReplaceAll(wrapped(text, 90), "\n", " \u2502\n\u2502 ") + " \u2502"},
			{"typographic", strings.NewReplacer(`"`, "\u201d", "'", "\u2019").Replace(text)},
			{"html", strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;").Replace(text)},
		}
		for i := 1; i < 8; i++ {
			n := len(text) * i / 8
			for n > 0 && text[n]&0xc0 == 0x80 {
				n--
			}
			list = append(list, [2]string{"cut", text[:n]}, [2]string{"cut with dots", text[:n] + "..."})
		}
		for _, d := range list {
			if d[1] != text && !yield(d[0], d[1]) {
				return
			}
		}
	}
}

// shortened leaves out the last third of a URL's path.
func shortened(u, with string) string {
	host := strings.Index(u, "://") + 3
	slash := strings.IndexByte(u[host:], '/')
	if slash < 0 || len(u)-host-slash < 24 || strings.IndexByte(u, '?') >= 0 {
		return u
	}
	return u[:len(u)-(len(u)-host-slash)/3] + with
}

func pretty(text string) string {
	data, _ := json.MarshalIndent(map[string]string{"error": text, "level": "error", "time": "2026-05-06T07:08:09Z"}, "", "  ")
	return string(data)
}

func wrapped(text string, width int) string {
	if strings.IndexByte(text, '\n') >= 0 {
		return text
	}
	var lines []string
	for r := range slices.Chunk([]rune(text), width) {
		lines = append(lines, string(r))
	}
	return strings.Join(lines, "\n")
}

func wrappedAtWords(text string, width int) string {
	var b strings.Builder
	n := 0
	for i, word := range strings.Split(text, " ") {
		if i > 0 {
			if n += len(word) + 1; n > width {
				b.WriteString("\n    ")
				n = len(word)
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteString(word)
	}
	return b.String()
}

// A damaged text says what it said before, or nothing; it never sends somebody
// else to look. A cut may also leave the coarser code that the rest still shows.
func TestDamagedTextsNeverAccuseAnother(t *testing.T) {
	t.Parallel()
	total, silent := map[string]int{}, map[string]int{}
	for _, l := range labelledTexts(t) {
		whole := classify.Event(l.Reason, l.Text)
		for name, text := range damages(l.Text) {
			r := classify.Event(l.Reason, text)
			total[name]++
			assert.True(t, strings.HasPrefix(whole.Image, strings.TrimRight(r.Image, ".…")) || whole.Image == "", "%s: image %q of %q in %q", name, r.Image, whole.Image, text)
			if e := whole.Best.Endpoint; e != "" && !strings.HasPrefix(name, "cut") && r.Best.Endpoint != whole.Best.Fact(classify.FactAddress) {
				assert.True(t, r.Best.Endpoint == "" || r.Best.Endpoint == e || strings.HasPrefix(e, r.Best.Endpoint+":"), "%s: endpoint %q, want %q: %s", name, r.Best.Endpoint, e, text)
			}
			for _, foreign := range []string{"make:", "exit status 1", "------", "Dockerfile:"} {
				assert.False(t, strings.Contains(r.Best.Fact(classify.FactMessage), foreign) && !strings.Contains(l.Text, foreign), "%s: message %q", name, r.Best.Fact(classify.FactMessage))
			}
			if r.Kind != classify.KindFailure || r.Best.Layer == classify.LayerUnknown {
				silent[name]++
				continue
			}
			if r.Best.Cause == l.Cause || strings.HasPrefix(name, "cut") && (r.Best.Owner == whole.Best.Owner || overlap(r.Best, whole.Best) || l.Cause == classify.RegistryUpstreamFailed) {
				continue // of what a registry says about its upstream the word that matters may be cut off
			}
			assert.Equal(t, l.Cause, r.Best.Cause, "%s: %s: %s", l.Template, name, text)
		}
	}
	for name, n := range total {
		t.Logf("%-16s %4d of %4d silent", name, silent[name], n)
	}
}

// overlap reports whether a reading of one finding, or the coarser code of it, is
// one of the other.
func overlap(a, b classify.Finding) bool {
	all := func(f classify.Finding) (causes []classify.Cause) {
		for _, c := range append([]classify.Cause{f.Cause}, f.Alternatives...) {
			for ; c != ""; c = refines(c) {
				causes = append(causes, c)
			}
		}
		return causes
	}
	return slices.ContainsFunc(all(a), func(c classify.Cause) bool { return slices.Contains(all(b), c) })
}

func refines(c classify.Cause) classify.Cause {
	info, _ := classify.Lookup(c)
	return info.Refines
}
