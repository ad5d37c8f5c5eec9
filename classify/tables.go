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

	backoffTable = idsOf(backoffWords)
	pullTable    = idsOf(pullWords)
	startTable   = idsOf([]string{`pulling image "`, `msg="pullimage `})
	statusTable  = idsOf(statusMarkers)
	joinTable    = idsOf(joinMarkers)
	imageTable   = idsOf(imageMarkers)
	socketTable  = idsOf(socketWords)
	sandboxTable = idsOf(sandboxWords)
	otherTable   = idsOf(otherWords)
	sourceTable  = idsOf(slices.Concat(sourceDenied, sourceWords))
	methodTable  = idsOf([]string{"head ", "get ", "post "})
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
				also = l.ids[p.also]
			}
			t.first, t.also = append(t.first, l.ids[p.words]), append(t.also, also)
		}
		return t
	})
}

func idsOf(words []string) func() []uint16 {
	return sync.OnceValue(func() []uint16 {
		var ids []uint16
		for _, w := range words {
			ids = append(ids, theLexicon().ids[w])
		}
		return ids
	})
}

// match returns the first phrase of t whose words are in the set.
func (s *wordSet) match(t *table) (phrase, bool) {
	for i, id := range t.first {
		if s.has(id) && (t.also[i] == noWord || s.has(t.also[i])) {
			return t.phrases[i], true
		}
	}
	return phrase{}, false
}

// anyOf reports whether set holds one of ids.
func (s *wordSet) anyOf(ids []uint16) bool {
	for _, id := range ids {
		if s.has(id) {
			return true
		}
	}
	return false
}
