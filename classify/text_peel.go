package classify

import "strings"

// splitRecords cuts a pasted table or log into its records. A line that does
// not look like the start of one belongs to the record before: containerd puts
// a line break before the registry's message, and terminals wrap.
func splitRecords(text string, records []string) []string {
	if strings.IndexByte(text, '\n') < 0 {
		if text = strings.Trim(text, margin); text == "" {
			return nil
		}
		return append(records, text)
	}
	var record strings.Builder
	inURL := false // the record so far ends inside a quoted URL
	flush := func() {
		if record.Len() > 0 {
			records = append(records, record.String())
			record.Reset()
		}
		inURL = false
	}
	for line := range strings.Lines(text) {
		trimmed := strings.Trim(line, margin)
		if trimmed == "" || foreignLine(trimmed) {
			continue
		}
		if startsRecord(trimmed) && !wantsTime(record.String()) {
			flush()
		}
		if len(records) == 512 {
			return records
		}
		if record.Len() > 0 && !inURL {
			record.WriteByte('\n')
		}
		record.WriteString(trimmed)
		if i := strings.LastIndex(trimmed, `"http`); i >= 0 {
			inURL = strings.IndexByte(trimmed[i+1:], '"') < 0 && !strings.Contains(trimmed[i:], ": ")
		} else if strings.IndexByte(trimmed, '"') >= 0 {
			inURL = false
		}
	}
	flush()
	return records
}

// foreignLine reports whether a line is what a Makefile, a builder or a pretty
// printer puts around an error.
func foreignLine(line string) bool {
	return beginsWith(line, []string{"```", "make: ", "make[", "-----", "Dockerfile:", "script returned exit code "}) ||
		len(line) < 3 && strings.Trim(line, "{}[],") == "" || len(line) < 16 && strings.HasPrefix(line, "exit status ")
}

// wantsTime reports whether a record so far ends before a time, which then does
// not begin a line of a log.
func wantsTime(record string) bool {
	return strings.HasSuffix(record, "current time") || strings.HasSuffix(record, " is after") || strings.HasSuffix(record, " is before")
}

// margin is what stands around lines in mails, Markdown and terminals.
const margin = " \t\r\n\u2502\u2503|>"

func startsRecord(line string) bool {
	word, _, _ := strings.Cut(line, " ")
	word, _, _ = strings.Cut(word, "\t")
	switch word {
	case "Normal", "Warning", "Failed", "Error:", "BackOff", "Pulling", "Pulled", "ErrImagePull:", "Back-off", "Trying", "FATA[0000]":
		return true
	}
	if beginsWith(word, []string{"time=", "level=", "[ERROR", "E0", "E1", "W0", "W1", "I0", "I1", "ERRO[", "FATA[", "WARN[", "INFO[", "DEBU["}) {
		return true
	}
	// "17m", "2m35s": an age; "2025-04-29T...": a time stamp; "Nov" "21".
	if word != "" && word[0] >= '0' && word[0] <= '9' {
		return isAge(word) || (len(word) >= 10 && word[4] == '-' && word[7] == '-')
	}
	return len(word) == 3 && strings.Contains("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec", word)
}

// maxAttempts bounds the attempts of one text.
const maxAttempts = 16

// splitAttempts returns the attempts that one record joins: the kubelet's
// "[a, b]" over credentials, CRI-O's list of mirrors, image before artifact.
func splitAttempts(record string) []attempt {
	if i := strings.Index(record, "pull image err: "); i >= 0 {
		record = record[i+len("pull image err: "):]
		if j := strings.Index(record, "; artifact err: "); j >= 0 {
			record = record[:j] // the same fault once more
		}
	}
	if list, before, after, ok := mirrorList(record); ok {
		var attempts []attempt
		for _, text := range list {
			attempts = append(attempts, attempt{text: text, context: before, mirror: true, cut: after == ""})
		}
		return append(attempts, attempt{text: after, context: before})
	}
	before, inner, ok := bracketed(record)
	if !ok {
		return []attempt{{text: record}}
	}
	var attempts []attempt
	for _, text := range splitJoined(inner) {
		attempts = append(attempts, attempt{text: text, context: before})
	}
	return attempts
}

// attempt is one attempt's text and the text that stood before the list.
type attempt struct {
	text    string
	context string
	mirror  bool
	cut     bool // what the registry itself said is missing
}

// bracketed returns the inside of the kubelet's list of errors, and what stands
// before it.
func bracketed(record string) (before, inner string, ok bool) {
	for _, marker := range []string{`: [`, `:[`} {
		for from := 0; ; {
			i := strings.Index(record[from:], marker)
			if i < 0 {
				break
			}
			i += from + len(marker)
			from = i
			if !startsAttempt(record[i:]) {
				continue
			}
			end := strings.LastIndexByte(record, ']')
			if end < i {
				end = len(record) // cut
			}
			return record[:i], record[i:end], true
		}
	}
	return "", "", false
}

// startsAttempt reports whether text begins as an attempt's does.
func startsAttempt(text string) bool {
	return beginsWith(text, []string{
		"rpc error: ", "failed to pull and unpack image", "unable to pull image", "initializing source", "Error response from daemon",
		"pull QPS exceeded", "reading manifest", "RegistryUnavailable: ", "SignatureValidationFailed: ", "copying system image",
		"writing blob", "reading blob", "parsing image configuration", "Error initializing source",
	})
}

// splitJoined splits "a, b" where what follows the comma begins an attempt. A
// comma alone does not: certificate names are a list, too.
func splitJoined(inner string) []string {
	var parts []string
	from := 0
	for at := 0; ; {
		i := strings.Index(inner[at:], ", ")
		if i < 0 || len(parts) == maxAttempts-1 {
			break
		}
		i += at
		at = i + 2
		if startsAttempt(inner[at:]) {
			parts = append(parts, inner[from:i])
			from = at
		}
	}
	return append(parts, inner[from:])
}

// mirrorList splits CRI-O's "(Mirrors also failed: [ref: err]\n[ref: err]): ref:
// err". "Fallback sources" is the same for blobs.
func mirrorList(record string) (list []string, before, after string, ok bool) {
	for _, marker := range []string{"(Mirrors also failed: [", "(Fallback sources also failed: ["} {
		i := strings.Index(record, marker)
		if i < 0 {
			continue
		}
		rest := record[i+len(marker):]
		end := strings.Index(rest, "]):")
		if end < 0 {
			return []string{rest}, record[:i], "", true
		}
		sep := "]\n["
		if !strings.Contains(rest[:end], sep) {
			sep = "] ["
		}
		return strings.SplitN(rest[:end], sep, maxAttempts), record[:i], rest[end+2:], true
	}
	return nil, "", "", false
}
