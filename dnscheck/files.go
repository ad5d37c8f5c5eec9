package dnscheck

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

const (
	maxFile     = 1 << 20  // the most that is read of one file
	maxLine     = 64 << 10 // a longer line is skipped, and that is said
	maxProblems = 32
)

var errNotRegular = errors.New("not a regular file")

// readFile reads at most maxFile bytes. A missing resolv.conf is a problem, other missing files are
// ordinary.
func readFile(fsys fs.FS, file string, problems *[]string) ([]byte, time.Time, error) {
	var changed time.Time
	path := strings.TrimPrefix(file, "/")
	if info, err := fs.Stat(fsys, path); err == nil {
		changed = info.ModTime().UTC()
	}
	data, more, err := readBounded(fsys, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if file == resolvConfFile {
			addProblem(problems, file, 0, "does not exist")
		}
	case err != nil:
		addProblem(problems, file, 0, "could not be read: "+classify.Redact(err.Error(), 256))
	case more:
		addProblem(problems, file, 0, "is larger than 1 MiB; only the beginning was read")
	}
	return data, changed, err
}

// readBounded reads a regular file: a pipe would block for ever.
func readBounded(fsys fs.FS, path string) (data []byte, more bool, err error) {
	info, err := fs.Stat(fsys, path)
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, errNotRegular
	}
	f, err := fsys.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, false, err
	}
	return data[:min(len(data), maxFile)], len(data) > maxFile, nil
}

type line struct {
	number int    // the first is 1
	text   string // never empty
}

// lines yields the lines of data that are not empty, without their ends, LF or CRLF. Overlong ones
// are skipped and added to problems; nil = nobody wants to know.
func lines(data []byte, problems *[]string, file string) iter.Seq[line] {
	return func(yield func(line) bool) {
		for number := 1; len(data) > 0; number++ {
			var text []byte
			text, data, _ = bytes.Cut(data, []byte("\n"))
			text = bytes.TrimSuffix(text, []byte("\r"))
			switch {
			case len(text) == 0:
			case len(text) > maxLine:
				addProblem(problems, file, number, fmt.Sprintf("has more than %d bytes and was skipped", maxLine))
			case !yield(line{number, string(text)}):
				return
			}
		}
	}
}

// fields splits at blanks. Other control characters belong to the words, so that a word with one in
// it matches nothing.
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
	if quoted[1:len(quoted)-1] == text {
		quoted = text
	}
	return classify.Redact(quoted, 2*most)
}

// addProblem appends "file:line: text" within the bound; line 0 is not printed.
func addProblem(problems *[]string, file string, line int, text string) {
	if problems == nil || len(*problems) >= maxProblems {
		return
	}
	if line > 0 {
		file += ":" + strconv.Itoa(line)
	}
	*problems = append(*problems, file+": "+text)
}
