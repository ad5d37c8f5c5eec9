package classify

import (
	"slices"
	"strings"
	"sync"
)

// theLexicon holds the words of all tables. It is built when the first text is
// read; a program that never reads one pays nothing.
var theLexicon = sync.OnceValue(func() *lexicon {
	words := slices.Concat(pullWords, sandboxWords, backoffWords, markerWords)
	for _, list := range [...][]phrases{
		localPhrases, contentPhrases, identityPhrases, deniedPhrases, certificatePhrases, handshakePhrases, transportPhrases,
		messagePhrases, stagePhrases,
	} {
		for _, p := range split(list) {
			words = append(words, p.words, p.also)
		}
	}
	return newLexicon(words)
})

// The tables of phrases and words, each looked up in the lexicon once.
var (
	localTable       = compile(localPhrases)
	contentTable     = compile(contentPhrases)
	identityTable    = compile(identityPhrases)
	deniedTable      = compile(deniedPhrases)
	messageTable     = compile(messagePhrases)
	certificateTable = compile(certificatePhrases)
	handshakeTable   = compile(handshakePhrases)
	transportTable   = compile(transportPhrases)
	stageTable       = compile(stagePhrases)

	backoffTable = setOf(backoffWords)
	pullTable    = setOf(pullWords)
	startTable   = setOf([]string{`pulling image "`, `msg="pullimage `})
	joinTable    = setOf(joinMarkers)
	imageTable   = setOf(imageMarkers)
	socketTable  = setOf(socketWords)
	sandboxTable = setOf(sandboxWords)
	otherTable   = setOf(otherWords)
	sourceTable  = setOf(slices.Concat(sourceDenied, sourceWords))
	methodTable  = setOf([]string{"head ", "get ", "post "})
)

// phrase is one fixed string of [phrases]. also, unless empty, must be in the
// text, too.
type phrase struct {
	words, also string
	cause       Cause
	operation   Operation
	other       Cause
}

func split(list []phrases) []phrase {
	var all []phrase
	for _, p := range list {
		for _, text := range p.texts {
			words, also, _ := strings.Cut(text, "…")
			all = append(all, phrase{words, also, p.cause, p.operation, p.other})
		}
	}
	return all
}

// table is a list of phrases with their words looked up.
type table struct {
	phrases []phrase
	any     wordSet // of first
	first   []uint16
	also    []uint16 // noWord = nothing more is asked for
}

const noWord = maxWords

func compile(list []phrases) func() *table {
	return sync.OnceValue(func() *table {
		l, t := theLexicon(), &table{phrases: split(list)}
		for _, p := range t.phrases {
			also := uint16(noWord)
			if p.also != "" {
				also = l.id(p.also)
			}
			t.first, t.also = append(t.first, l.id(p.words)), append(t.also, also)
			t.any.add(l.id(p.words))
		}
		return t
	})
}

func setOf(words []string) func() *wordSet {
	return sync.OnceValue(func() *wordSet {
		set := new(wordSet)
		for _, w := range words {
			set.add(theLexicon().id(w))
		}
		return set
	})
}

// match returns the first phrase of t whose words are in the set.
func (s *wordSet) match(t *table) (phrase, bool) {
	if !s.anyOf(&t.any) {
		return phrase{}, false
	}
	for i, id := range t.first {
		if s.has(id) && (t.also[i] == noWord || s.has(t.also[i])) {
			return t.phrases[i], true
		}
	}
	return phrase{}, false
}

// anyOf reports whether the sets have a word in common.
func (s *wordSet) anyOf(o *wordSet) bool {
	common := uint64(0)
	for i, words := range s {
		common |= words & o[i]
	}
	return common != 0
}
