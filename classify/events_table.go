package classify

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// parseEventText reads a table of events if the text has one, else each line.
func parseEventText(text string) []EventRecord {
	var (
		records = []EventRecord{}
		table   *eventTable
		pod     EventRecord // what a description says about the pod itself
		plain   []string
		more    int // lines that the last record went on for
	)
	width, _ := windowWidth(strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n"))
	full := false
	for line := range strings.Lines(text) {
		// Whether a window cut the line before this one.
		cut := full
		full = width > 0 && utf8.RuneCountInString(strings.TrimRight(line, "\r\n")) == width
		line = bareLine(line)
		if t := tableHeader(line); t != nil {
			table = t
			continue
		}
		if table == nil {
			if line != "" && len(plain) < maxEventRecords {
				plain = append(plain, line)
				pod = describedPod(pod, line)
			}
			continue
		}
		switch row, ok := table.row(line); {
		case ok:
			row.Namespace, row.Pod = orElse(row.Namespace, pod.Namespace), orElse(row.Pod, pod.Pod)
			if row.Node == "" && table.kubelet {
				row.Node = pod.Node
			}
			records, more = append(records, row), 0
		case line == "" || strings.HasPrefix(strings.TrimSpace(line), "----"):
		case strings.HasPrefix(line, "Name:"): // the next pod's description
			table, pod = nil, describedPod(EventRecord{}, line)
		case len(records) > 0 && more < 64:
			last := &records[len(records)-1]
			if cut {
				last.Message = boundMessage(last.Message + line)
			} else {
				// The runtime's text has line breaks of its own.
				last.Message = boundMessage(last.Message + "\n" + strings.TrimSpace(line))
			}
			more++
		}
		if len(records) >= maxEventRecords {
			break
		}
	}
	if len(records) == 0 && table == nil {
		for _, line := range plain {
			records = append(records, EventRecord{Message: boundMessage(strings.TrimSpace(line))})
		}
	}
	for i := range records {
		records[i].Image = imageIn(clean(records[i].Message))
	}
	return records
}

// describedPod reads the head of a pod's description.
func describedPod(pod EventRecord, line string) EventRecord {
	key, value, ok := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	if !ok || value == "" || strings.HasPrefix(value, "<") {
		return pod
	}
	switch key {
	case "Name":
		pod.Pod = boundName(value)
	case "Namespace":
		pod.Namespace = boundName(value)
	case "Node":
		name, _, _ := strings.Cut(value, "/") // name/address
		pod.Node = boundName(name)
	}
	return pod
}

// eventTable is where the columns of a table stand.
type eventTable struct {
	names   []string
	starts  []int // in runes
	kubelet bool  // the last row came from the kubelet
}

// tableHeader reads the head of a table of events, nil if line is none.
func tableHeader(line string) *eventTable {
	if len(line) > 512 {
		return nil
	}
	var t eventTable
	runes := []rune(line)
	for i := 0; i < len(runes); {
		if runes[i] == ' ' || runes[i] == '\t' {
			i++
			continue
		}
		start := i
		// One space is inside of a name ("LAST SEEN"), two end it.
		for i < len(runes) && runes[i] != '\t' && (runes[i] != ' ' || (i+1 < len(runes) && runes[i+1] != ' ')) {
			i++
		}
		t.names = append(t.names, strings.ToLower(strings.TrimSpace(string(runes[start:i]))))
		t.starts = append(t.starts, start)
	}
	if t.index("message") < 0 || t.index("type") < 0 || t.index("reason") < 0 {
		return nil
	}
	return &t
}

func (t *eventTable) index(name string) int { return slices.Index(t.names, name) }

// row reads one line of the table. It is one only if the type is an event's:
// other lines go on with the message before.
func (t *eventTable) row(line string) (EventRecord, bool) {
	cells := t.aligned(line)
	if cells == nil || !eventType(cells[t.index("type")]) {
		if cells = t.separated(line); cells == nil || !eventType(cells[t.index("type")]) {
			return EventRecord{}, false
		}
	}
	var r EventRecord
	t.kubelet = t.index("from") < 0 && t.index("source") < 0
	for i, name := range t.names {
		cell := strings.TrimSpace(cells[i])
		switch name {
		case "reason":
			r.Reason = boundName(cell)
		case "age", "last seen", "lastseen":
			last, first, n := ages(cell)
			if n > 0 {
				r.Count = n
			}
			r.AgeMS, r.FirstAgeMS = last, max(first, r.FirstAgeMS)
		case "first seen", "firstseen":
			first, _, _ := ages(cell)
			r.FirstAgeMS = max(first, r.FirstAgeMS)
		case "count":
			r.Count = max(atoi(cell), 0)
		case "namespace":
			r.Namespace = boundName(cell)
		case "name":
			// Of the event, and of the pod before the last dot.
			if k := t.index("kind"); k >= 0 && strings.EqualFold(strings.TrimSpace(cells[k]), "pod") {
				name := cell
				if n := strings.LastIndexByte(name, '.'); n > 0 {
					name = name[:n]
				}
				r.Pod = boundName(name)
			}
		case "object":
			if kind, name, ok := strings.Cut(cell, "/"); ok && strings.EqualFold(kind, "pod") {
				r.Pod = boundName(name)
			}
		case "from", "source":
			component, node, ok := strings.Cut(cell, ",")
			if !ok { // very old: {kubelet node-1}
				component, node, _ = strings.Cut(strings.Trim(cell, "{}"), " ")
			}
			t.kubelet = component == "kubelet" || component == ""
			r.Node = boundName(node)
		case "message":
			r.Message = boundMessage(peelSpec(cell))
		}
	}
	return r, true
}

// aligned cuts a line at the columns of the head, nil if it does not fit them.
func (t *eventTable) aligned(line string) []string {
	runes := []rune(line)
	cells := make([]string, len(t.names))
	for i, start := range t.starts {
		end := len(runes)
		if i+1 < len(t.starts) {
			end = t.starts[i+1]
		}
		if start > len(runes) || end > len(runes) || (start > 0 && start <= len(runes) && runes[start-1] != ' ' && runes[start-1] != '\t') {
			return nil
		}
		cells[i] = strings.TrimSpace(string(runes[start:end]))
	}
	return cells
}

// separated cuts a line at tabs and runs of spaces, for tables that were pasted.
func (t *eventTable) separated(line string) []string {
	cells := make([]string, 0, len(t.names))
	rest := strings.TrimSpace(line)
	for len(cells) < len(t.names)-1 {
		i := strings.IndexByte(rest, '\t')
		if j := strings.Index(rest, "  "); j >= 0 && (i < 0 || j < i) {
			i = j
		}
		if i < 0 {
			break
		}
		cells = append(cells, rest[:i])
		rest = strings.TrimLeft(rest[i:], " \t")
	}
	cells = append(cells, rest)
	if t.names[len(t.names)-1] != "message" {
		return nil // a wide table: the message has no end but its column's
	}
	if missing := len(t.names) - len(cells); missing == 1 && t.index("from") == len(t.names)-2 {
		// The component was not printed.
		cells = append(cells[:len(cells)-1], "", rest)
	}
	if len(cells) != len(t.names) {
		return nil
	}
	return cells
}

// bareLine takes off what mails and terminals put around a line. Tabs become
// spaces as a terminal shows them, so that columns stay under their heads.
func bareLine(line string) string {
	line = strings.TrimRight(line, " \t\r\n")
	if rest, ok := strings.CutPrefix(line, ">"); ok {
		line = strings.TrimPrefix(rest, " ")
	}
	if rest, ok := strings.CutPrefix(line, "\u2502"); ok {
		line = strings.TrimRight(strings.TrimSuffix(rest, "\u2502"), " ")
	}
	if strings.HasPrefix(line, "```") || strings.IndexByte(line, '\t') < 0 {
		return strings.TrimPrefix(line, "```")
	}
	var b strings.Builder
	column := 0
	for _, r := range line[:min(len(line), 4096)] {
		if r != '\t' {
			b.WriteRune(r)
			column++
			continue
		}
		// At least two spaces: one is inside of a cell.
		for n := max(8-column%8, 1); n > 0; n-- {
			b.WriteByte(' ')
			column++
		}
	}
	b.WriteString(line[min(len(line), 4096):])
	return b.String()
}

// ages reads "7s (x2 over 50s)": how long ago it was seen last and first, and how
// often.
func ages(cell string) (last, first int64, count int) {
	word, rest, _ := strings.Cut(cell, " ")
	if _, over, ok := strings.Cut(rest, " over "); ok {
		first = ageMS(strings.TrimRight(over, ")"))
	}
	if _, times, ok := strings.Cut(cell, "(x"); ok {
		digits, _, _ := strings.Cut(times, " ")
		count = atoi(strings.TrimRight(digits, ")"))
	}
	return ageMS(word), first, count
}

// ageMS reads an age as kubectl prints it, "2m35s" or "3d4h", in milliseconds.
func ageMS(age string) int64 {
	if !isAge(age) || len(age) > 16 {
		return 0
	}
	var total, n int64
	for _, c := range age {
		if c >= '0' && c <= '9' {
			n = min(n*10+int64(c-'0'), 1_000_000)
			continue
		}
		total, n = total+n*ageUnits[c], 0
	}
	return total
}

var ageUnits = map[rune]int64{'s': 1000, 'm': 60_000, 'h': 3600_000, 'd': 24 * 3600_000, 'y': 365 * 24 * 3600_000}

func eventType(cell string) bool { return cell == "Normal" || cell == "Warning" }

// peelSpec takes off the field path that newer kubectl prints before a message.
func peelSpec(message string) string {
	if rest, ok := strings.CutPrefix(message, "spec."); ok {
		if i := strings.Index(rest, "}: "); i >= 0 && i < 300 {
			return rest[i+3:]
		}
	}
	return message
}
