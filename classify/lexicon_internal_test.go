package classify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The tables must not outgrow the automaton's numbers.
func TestLexiconFits(t *testing.T) {
	t.Parallel()
	l := theLexicon()
	assert.Less(t, len(l.words), maxWords)
	assert.Less(t, len(l.found), hasFound)
	assert.LessOrEqual(t, l.width, 1<<columnBits)
	for _, w := range l.words {
		assert.Equal(t, asciiLower(w), w, "the text is read in lower case")
	}
}

// One pass finds exactly what looking for each word finds.
func TestLexiconFindsWhatStringsContains(t *testing.T) {
	t.Parallel()
	l := theLexicon()
	var all strings.Builder
	for _, w := range l.words {
		all.WriteString(w)
	}
	for _, text := range []string{
		"", "a", `failed to pull and unpack image "x": failed to do request: Head "https://a/v2/": dial tcp: lookup a on b:53: no such host`,
		"FAILED TO\nRESOLVE", "manifest unknown: manifest_unknown", "errimagepull: ", all.String(), all.String()[1:],
	} {
		var set wordSet
		lower := l.scanLower(text, &set)
		assert.Equal(t, asciiLower(spaced(text)), lower)
		for id, w := range l.words {
			assert.Equal(t, strings.Contains(lower, w), set.has(uint16(id)), "%q in %q", w, text)
		}
	}
}
