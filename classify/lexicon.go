package classify

import (
	"math/bits"
	"slices"
)

// lexicon finds all the fixed strings of the readers in one pass over a text:
// an Aho-Corasick automaton with every transition worked out. Looking for each
// string on its own would read a text some hundred times.
//
// It reads letters without case and line breaks as spaces, so that it gives the
// same answer for a text as for [piece].lower.
type lexicon struct {
	class   [256]uint8 // byte -> column; 0 = in no word
	width   int        // columns in use, at most 64
	next    []uint16   // state<<columnBits + column -> state, with hasFound
	found   [][]uint16
	words   []string
	longest int          // bytes of a word
	slots   [2048]uint16 // hash of a word -> its number + 1
}

const (
	columnBits = 6
	hasFound   = 1 << 15 // the state ends a word
	stateMask  = hasFound - 1
)

// wordSet is a set of words of the lexicon.
type wordSet [maxWords / 64]uint64

// maxWords bounds the lexicon; a test fails before the tables outgrow it.
const maxWords = 768

func (s *wordSet) has(id uint16) bool { return s[id/64]&(1<<(id%64)) != 0 }

func (s *wordSet) add(id uint16) { s[id/64] |= 1 << (id % 64) }

func (s *wordSet) len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

func newLexicon(words []string) *lexicon {
	l := &lexicon{width: 1}
	slices.Sort(words)
	words = slices.Compact(words)
	for len(words) > 0 && words[0] == "" {
		words = words[1:]
	}
	for _, w := range words {
		for i := range len(w) {
			if l.class[w[i]] == 0 {
				l.class[w[i]] = uint8(l.width)
				l.width++
			}
		}
	}
	for c := 'A'; c <= 'Z'; c++ {
		l.class[c] = l.class[c+'a'-'A']
	}
	for _, c := range "\n\r\t" {
		l.class[c] = l.class[' ']
	}
	l.addState()
	for i, w := range words {
		l.longest = max(l.longest, len(w))
		state := uint16(0)
		for j := range len(w) {
			at := int(state)<<columnBits + int(l.class[w[j]])
			if l.next[at] == 0 {
				l.next[at] = uint16(len(l.found))
				l.addState()
			}
			state = l.next[at]
		}
		l.found[state] = append(l.found[state], uint16(i))
		slot := slotOf(w)
		for l.slots[slot] != 0 {
			slot = (slot + 1) % uint(len(l.slots))
		}
		l.slots[slot] = uint16(i) + 1
	}
	l.words = words
	l.link()
	return l
}

// slotOf is a hash that is good enough for a few hundred phrases of English.
func slotOf(w string) uint {
	if len(w) < 3 {
		return uint(len(w))
	}
	return (uint(len(w))*37 ^ uint(w[0])<<2 ^ uint(w[2])<<6 ^ uint(w[len(w)/2])<<4 ^ uint(w[len(w)-3])) % uint(len(lexicon{}.slots))
}

// id returns the number of a word, noWord if it is in no table.
func (l *lexicon) id(w string) uint16 {
	for slot := slotOf(w); l.slots[slot] != 0; slot = (slot + 1) % uint(len(l.slots)) {
		if id := l.slots[slot] - 1; l.words[id] == w {
			return id
		}
	}
	return noWord
}

func (l *lexicon) addState() {
	l.next = append(l.next, make([]uint16, 1<<columnBits)...)
	l.found = append(l.found, nil)
}

// link turns the tree of words into the automaton, breadth first: what a state
// cannot go on with, the longest proper suffix of it can.
func (l *lexicon) link() {
	fail := make([]uint16, len(l.found))
	var queue []uint16
	for c := range l.width {
		if s := l.next[c]; s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		l.found[state] = append(l.found[state], l.found[fail[state]]...)
		for c := range l.width {
			at, other := int(state)<<columnBits+c, l.next[int(fail[state])<<columnBits+c]
			if s := l.next[at]; s != 0 {
				fail[s] = other
				queue = append(queue, s)
			} else {
				l.next[at] = other
			}
		}
	}
	for at, state := range l.next {
		if len(l.found[state]) > 0 {
			l.next[at] |= hasFound
		}
	}
}

// scan adds the words that text holds to set. It reads two halves side by side,
// because each step waits for the memory of the one before; they overlap by the
// longest word, and a word seen twice is one of the set.
func (l *lexicon) scan(text string, set *wordSet) {
	a, b, next := uint16(0), uint16(0), l.next
	second := ""
	if len(text) > 2*l.longest {
		half := (len(text) + l.longest) / 2
		text, second = text[:half], text[len(text)-half:]
	}
	for i := range len(second) {
		a = next[int(a&stateMask)<<columnBits+int(l.class[text[i]])]
		b = next[int(b&stateMask)<<columnBits+int(l.class[second[i]])]
		if (a|b)&hasFound != 0 {
			set.addAll(l.found[a&stateMask])
			set.addAll(l.found[b&stateMask])
		}
	}
	for i := len(second); i < len(text); i++ {
		if a = next[int(a&stateMask)<<columnBits+int(l.class[text[i]])]; a&hasFound != 0 {
			set.addAll(l.found[a&stateMask])
		}
	}
}

func (s *wordSet) addAll(ids []uint16) {
	for _, id := range ids {
		s.add(id)
	}
}

// scanLower is scan, and returns the text in lower case with spaces for line
// breaks and tabs, at the same offsets.
func (l *lexicon) scanLower(text string, set *wordSet) string {
	l.scan(text, set)
	var short [768]byte
	lower := short[:]
	if len(text) > len(lower) {
		lower = make([]byte, len(text))
	}
	lower = lower[:len(text)]
	for i := range lower {
		lower[i] = lowered[text[i]]
	}
	return string(lower)
}

// lowered maps bytes as the lexicon reads them.
var lowered = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
	}
	for c := 'A'; c <= 'Z'; c++ {
		t[c] = byte(c + 'a' - 'A')
	}
	t['\n'], t['\r'], t['\t'] = ' ', ' ', ' '
	return t
}()

// phrases are fixed strings of a runtime that say the same, in lower case. "a…b"
// asks for both parts, in any order. other is a second reading that they allow.
type phrases struct {
	cause     Cause
	operation Operation // "" = read from the rest of the text
	other     Cause
	texts     []string
}
