package dnscheck

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

const (
	maxFile     = 1 << 20  // the most that is read of one file
	maxLine     = 64 << 10 // a longer line is skipped, and that is said
	maxProblems = 32
)

type line struct {
	number int    // the first is 1
	text   string // never empty
}

// lines yields the lines of data that are not empty, without their ends, LF or
// CRLF. What is too long to be a line of such a file is skipped and said.
func lines(data []byte, problems *[]string, file string) iter.Seq[line] {
	return func(yield func(line) bool) {
		for number := 1; len(data) > 0; number++ {
			var text []byte
			text, data, _ = bytes.Cut(data, []byte("\n"))
			text = bytes.TrimSuffix(text, []byte("\r"))
			if len(text) == 0 {
				continue
			}
			if len(text) > maxLine {
				*problems = addProblem(*problems, file, number, fmt.Sprintf("has more than %d bytes and was skipped", maxLine))
				continue
			}
			if !yield(line{number, string(text)}) {
				return
			}
		}
	}
}

// fields splits at blanks; other control characters belong to the words, so that
// a word with one in it matches nothing.
func fields(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' || r == '\r' })
}

// shown returns words of a file in a form that is short and safe to print.
func shown(text string) string {
	const most = 64
	if len(text) > most {
		text = text[:most] + "..."
	}
	quoted := strconv.Quote(text)
	if plain := quoted[1 : len(quoted)-1]; plain == text {
		return classify.Redact(text, 2*most)
	}
	return classify.Redact(quoted, 2*most)
}

// addProblem appends "file:line: text" within the bound; line 0 is not printed.
func addProblem(problems []string, file string, line int, text string) []string {
	if len(problems) >= maxProblems {
		return problems
	}
	if line > 0 {
		file += ":" + strconv.Itoa(line)
	}
	return append(problems, file+": "+text)
}
