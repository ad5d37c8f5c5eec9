package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk"
)

const maxLines = 10 // of one list in the text; the JSON has all

// printJSON writes the report as one document.
func (r *report) printJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// String returns the report for a terminal: a table for each image, and what keeps
// it from being the whole truth.
func (r *report) String() string {
	var b strings.Builder
	verdict := map[pullwalk.Status]string{pullwalk.StatusOK: "PROVED", pullwalk.StatusFailed: "FAILED"}[r.Verdict]
	if verdict == "" {
		verdict = "OPEN"
	}
	fmt.Fprintf(&b, "%s  %s in %s: %s\n", verdict, r.Workload, r.Namespace, r.Reason)
	list := func(title string, n int, line func(int) string) {
		for i := range min(n, maxLines) {
			fmt.Fprintf(&b, "  %-12s %s\n", title, line(i))
			title = ""
		}
		if n > maxLines {
			fmt.Fprintf(&b, "  %-12s and %d more\n", "", n-maxLines)
		}
	}
	list("Open:", len(r.Open), func(i int) string { return r.Open[i] })
	for _, c := range r.Images {
		fmt.Fprintf(&b, "\n%s", c)
	}
	silent := slices.DeleteFunc(slices.Clone(r.Unanswered), func(o outcome) bool { return o.told })
	if len(silent)+len(r.Apart)+len(r.Notes) > 0 {
		b.WriteString("\n")
	}
	list("No answer:", len(silent), func(i int) string {
		o := silent[i]
		return fmt.Sprintf("%s (%s), %s: %s", o.Node, o.Pool, shown(o.Image), o.Reason)
	})
	list("Elsewhere:", len(r.Apart), func(i int) string {
		a := r.Apart[i]
		return fmt.Sprintf("%s (%s) cannot take it: %s", a.Pool, count(a.Nodes, "node"), a.Reason)
	})
	list("Notes:", len(r.Notes), func(i int) string { return r.Notes[i] })
	return b.String()
}
