// Command corpus scores the text reader of package classify against labelled
// texts and prints where it is weak.
//
//	go run ./test/corpus [-misses] [-min 0.98] FILE...
//
// A file holds one JSON object per line, in one of two forms, told apart by
// their fields:
//
//   - texts labelled by hand: message, reason, layer, cause, operation, host,
//     note. The layers "ok" and "backoff" are kinds of message. A note or a list
//     of alternatives that calls the record ambiguous lets the label stand in
//     Alternatives, too.
//   - texts printed by a runtime's libraries against a server whose true state
//     is known: text, layer, cause, operation, in the laboratory's own words. The
//     text does not always show that state; the rules stand in lab.go.
//
// The texts themselves are not part of this repository. It exits with 1 if a
// number is below -min, with 2 if a file cannot be read.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// record is one line of either form.
type record struct {
	ID           string   `json:"id"`
	Reason       string   `json:"reason"`
	Message      string   `json:"message"`
	Layer        string   `json:"layer"`
	Cause        string   `json:"cause"`
	Operation    string   `json:"operation"`
	Host         string   `json:"host"`
	Note         string   `json:"note"`
	Alternatives []string `json:"alternatives"`

	Text     string `json:"text"`
	Runtime  string `json:"runtime"`
	Scenario string `json:"scenario"`
}

func main() {
	misses := flag.Bool("misses", false, "print every record that was read differently from its label")
	least := flag.Float64("min", 0, "the least share of right records, 0 to 1, for exit code 0")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./test/corpus [-misses] [-min 0.98] FILE...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	good := true
	for _, name := range flag.Args() {
		records, err := load(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "corpus:", err)
			os.Exit(2)
		}
		fmt.Printf("%s: %d texts\n", name, len(records))
		printSpeed(os.Stdout, records)
		if records[0].Text != "" {
			good = scoreLab(os.Stdout, records, *misses) && good
		} else {
			good = scoreLabels(os.Stdout, records, *misses, *least) && good
		}
		fmt.Println()
	}
	if !good {
		os.Exit(1)
	}
}

func load(name string) ([]record, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var records []record
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 8<<20)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if r.ID == "" {
			r.ID = fmt.Sprintf("line %d", n)
		}
		records = append(records, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(records) == 0 {
		return nil, errors.New(name + ": no records")
	}
	return records, nil
}

// read reads a record as the cluster would hand it over.
func (r record) read() classify.Reading {
	if r.Text != "" {
		return classify.Text(r.Text)
	}
	return classify.Event(r.Reason, r.Message)
}

// printSpeed reads all records on one goroutine for half a second.
func printSpeed(w io.Writer, records []record) {
	n, start := 0, time.Now()
	for time.Since(start) < 500*time.Millisecond {
		for _, r := range records {
			r.read()
			n++
		}
	}
	fmt.Fprintf(w, "  speed      %.0f texts/s on this machine, as busy as it is\n", float64(n)/time.Since(start).Seconds())
}

// said returns layer and cause of a reading in the words of the labels.
func said(r classify.Reading) (layer, cause string) {
	switch r.Kind {
	case classify.KindFailure:
		return string(r.Best.Layer), string(r.Best.Cause)
	case classify.KindBackoff:
		return "backoff", "backoff.backoff-no-cause"
	case classify.KindOK:
		if r.Cached {
			return "ok", "ok.already-present"
		}
		return "ok", "ok.pulled"
	}
	if len(r.Attempts) > 0 {
		return string(r.Attempts[0].Layer), string(r.Attempts[0].Cause)
	}
	return "unknown", "-"
}

// count is a score.
type count struct{ right, of int }

func (c *count) add(ok bool) {
	c.of++
	if ok {
		c.right++
	}
}

func (c count) share() float64 {
	if c.of == 0 {
		return 1
	}
	return float64(c.right) / float64(c.of)
}

func (c count) print(w io.Writer, name string) {
	fmt.Fprintf(w, "  %-10s %3d of %3d  %5.1f %%\n", name, c.right, c.of, 100*c.share())
}
