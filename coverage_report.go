package pullwalk

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pullwalk/pullwalk/classify"
)

// Bounds of the reports. The JSON has everything.
const (
	reportWidth = 100 // characters of a line of text
	maxRows     = 100 // pools
	maxItems    = 10  // causes, differences, results without a pool, notes
	poolWidth   = 24
	cellText    = 400 // bytes of one cell
)

// String returns the report for a terminal, at most 100 characters wide: the
// verdict, the pools with the worst first, the root causes with the pools that
// share them, and what differs between nodes. Long lists are cut, and say so.
func (c CoverageReport) String() string {
	var b strings.Builder
	for _, line := range wrap(c.headline(), reportWidth) {
		fmt.Fprintln(&b, line)
	}
	rows, more := c.worstFirst()
	pool, state, probed := len("POOL"), len("STATE"), len("PROBED")
	for _, p := range rows {
		pool = max(pool, width(p.name))
		state = max(state, width(p.state))
		probed = max(probed, width(p.probed))
	}
	pool = min(pool, poolWidth)
	row := func(name, st, pr, why string) {
		margin := fmt.Sprintf("  %s  %s  %s  ", pad(name, pool), pad(st, state), pad(pr, probed))
		for _, line := range wrap(why, reportWidth-width(margin)) {
			fmt.Fprintln(&b, margin+line)
			margin = strings.Repeat(" ", width(margin))
		}
	}
	if len(rows) > 0 {
		row("POOL", "STATE", "PROBED", "WHY")
	}
	for _, p := range rows {
		row(p.name, p.state, p.probed, p.reason)
	}
	if more > 0 {
		fmt.Fprintf(&b, "  and %s more\n", count(more, "pool"))
	}
	for _, s := range c.sections() {
		margin := fmt.Sprintf("  %-12s ", s.title+":")
		for _, item := range s.lines {
			for _, line := range wrap(item, reportWidth-width(margin)) {
				fmt.Fprintln(&b, margin+line)
				margin = strings.Repeat(" ", width(margin))
			}
		}
	}
	return b.String()
}

// Markdown returns the same report for an issue or a chat. Text of other parties
// is escaped, so that it cannot format or mention anything.
func (c CoverageReport) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", escape(c.headline()))
	rows, more := c.worstFirst()
	if len(rows) > 0 {
		b.WriteString("| Pool | State | Probed | Why |\n| --- | --- | --- | --- |\n")
		for _, p := range rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", escape(p.name), escape(p.state), escape(p.probed), escape(p.reason))
		}
		if more > 0 {
			fmt.Fprintf(&b, "\nAnd %s more.\n", count(more, "pool"))
		}
		b.WriteString("\n")
	}
	for _, s := range c.sections() {
		fmt.Fprintf(&b, "- **%s**:\n", s.title)
		for _, item := range s.lines {
			fmt.Fprintf(&b, "  - %s\n", escape(item))
		}
	}
	return b.String()
}

func (c CoverageReport) headline() string {
	about := cell(c.Image)
	if about == "" {
		about = "no result"
	}
	if c.Digest != "" {
		about += " (" + cell(c.Digest) + ")"
	}
	verdict := map[Status]string{StatusOK: "proved", StatusFailed: "failed"}[c.Verdict]
	if verdict == "" {
		verdict = "not proved"
	}
	return about + ": " + verdict + ": " + cell(c.Reason)
}

// poolRow is one row of the table, safe to print.
type poolRow struct{ name, state, probed, reason string }

// worstFirst are the pools as rows, and how many are left out.
func (c CoverageReport) worstFirst() (rows []poolRow, more int) {
	badness := func(s CoverageState) int {
		switch s {
		case CoverageFailed:
			return 0
		case CoverageProved:
			return 2
		}
		return 1
	}
	order := slices.Clone(c.Pools)
	slices.SortStableFunc(order, func(a, b PoolCoverage) int { return badness(a.State) - badness(b.State) })
	for _, p := range order[:min(len(order), maxRows)] {
		rows = append(rows, poolRow{
			clip(cell(p.Name), 2*poolWidth), clip(cell(string(p.State)), poolWidth),
			fmt.Sprintf("%d/%d", len(p.Nodes), len(p.Nodes)+max(p.Unprobed, 0)), cell(p.Reason),
		})
	}
	return rows, len(order) - len(rows)
}

// sections are what follows the table.
func (c CoverageReport) sections() []section {
	var out []section
	add := func(title string, total int, line func(int) string) {
		if total == 0 {
			return
		}
		s := section{title: title}
		for i := range min(total, maxItems) {
			s.lines = append(s.lines, line(i))
		}
		if total > maxItems {
			s.lines = append(s.lines, fmt.Sprintf("and %d more", total-maxItems))
		}
		out = append(out, s)
	}
	add("Causes", len(c.Causes), func(i int) string { return c.Causes[i].line() })
	add("Differs", len(c.Differences), func(i int) string { return c.Differences[i].line() })
	add("In no pool", len(c.Unclaimed), func(i int) string {
		u := c.Unclaimed[i]
		name := cell(u.Node)
		if name == "" {
			name = "a result"
		}
		return fmt.Sprintf("%s (%s): %s", name, cell(string(u.Verdict)), cell(u.Reason))
	})
	add("Notes", len(c.Notes), func(i int) string { return cell(c.Notes[i]) })
	return out
}

func (c CoverageCause) line() string {
	var pools []string
	for _, p := range c.Pools[:min(len(c.Pools), maxItems)] {
		pools = append(pools, cell(p))
	}
	list := strings.Join(pools, ", ")
	if more := len(c.Pools) - len(pools); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	word := "pool"
	if len(c.Pools) != 1 {
		word = "pools"
	}
	owner := ""
	if c.Finding.Owner != "" {
		owner = "owner " + cell(string(c.Finding.Owner)) + ": "
	}
	return fmt.Sprintf("%s %s (%s): %s%s", word, list, count(c.Nodes, "node"), owner, cell(c.Finding.Error()))
}

func (d CoverageDifference) line() string {
	var values []string
	for _, v := range d.Values[:min(len(d.Values), maxValues)] {
		var nodes []string
		for _, n := range []struct {
			count int
			word  string
		}{{v.Proved, "proved"}, {v.Failed, "failed"}, {v.Other, "other"}} {
			if n.count > 0 {
				nodes = append(nodes, fmt.Sprintf("%d %s", n.count, n.word))
			}
		}
		value := clip(cell(v.Value), 60)
		if value == "" {
			value = "not known"
		}
		values = append(values, fmt.Sprintf("%s (%s)", value, strings.Join(nodes, ", ")))
	}
	if more := max(d.More, 0) + len(d.Values) - len(values); more > 0 {
		values = append(values, count(more, "more value"))
	}
	line := cell(d.What) + ": " + strings.Join(values, ", ")
	if d.Apart {
		line += "; good and bad have no value in common"
	}
	return line
}

// cell makes a text safe to print on one line: the report may be a document from
// elsewhere.
func cell(s string) string {
	return strings.TrimSpace(classify.Redact(s, cellText))
}

func width(s string) int { return utf8.RuneCountInString(s) }

// pad makes s exactly n characters wide.
func pad(s string, n int) string {
	s = clip(s, n)
	return s + strings.Repeat(" ", n-width(s))
}

// clip cuts s after n characters, and shows that it did.
func clip(s string, n int) string {
	if width(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// wrap breaks s into lines of at most n characters, between words where it can.
func wrap(s string, n int) []string {
	var lines []string
	for width(s) > n {
		runes := []rune(s)
		at := strings.LastIndexByte(string(runes[:n+1]), ' ')
		if at <= 0 {
			at = len(string(runes[:n]))
		}
		lines = append(lines, s[:at])
		s = strings.TrimLeft(s[at:], " ")
	}
	return append(lines, s)
}

// CoverageError is a [CoverageReport] that is not ok, as an error.
type CoverageError struct{ Report CoverageReport }

// Error returns the whole text report.
func (e *CoverageError) Error() string { return strings.TrimSpace(e.Report.String()) }

// Unwrap returns the root causes, for errors.As with a [classify.Finding].
func (e *CoverageError) Unwrap() []error {
	out := make([]error, len(e.Report.Causes))
	for i, c := range e.Report.Causes {
		out[i] = c.Finding
	}
	return out
}

// Err returns nil if the verdict is ok: if every pool is proved. Else it returns a
// [*CoverageError].
func (c CoverageReport) Err() error {
	if c.Verdict == StatusOK {
		return nil
	}
	return &CoverageError{Report: c}
}
