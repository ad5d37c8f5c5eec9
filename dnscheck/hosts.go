package dnscheck

import (
	"net/netip"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

const hostsFile = "/etc/hosts"

// HostsEntry is one line of a hosts file.
type HostsEntry struct {
	Address netip.Addr `json:"address"`
	// Names are the names of the line as written, at most 16.
	Names []string `json:"names,omitempty"`
	File  string   `json:"file"`
	Line  int      `json:"line"` // the first is 1
	// Changed is when the file was last written; zero = not known. The line itself
	// may be older.
	Changed time.Time `json:"changed,omitzero"`
}

const (
	maxHostsNames   = 16
	maxHostsEntries = 10000
	maxHostsMatches = 64
)

// parseHosts reads a hosts file as Go's resolver does (net's hosts.go, hosts(5))
// and returns the lines that keep wants, at most limit. A line without an IP
// address or without a name says nothing and is skipped.
func parseHosts(data []byte, problems *[]string, limit int, keep func(names []string) bool) []HostsEntry {
	var entries []HostsEntry
	for line := range lines(data, problems, hostsFile) {
		text, _, _ := strings.Cut(line.text, "#")
		f := fields(text)
		if len(f) < 2 {
			continue
		}
		addr, err := netip.ParseAddr(f[0])
		if err != nil || !keep(f[1:]) {
			continue
		}
		if len(entries) == limit {
			*problems = addProblem(*problems, hostsFile, line.number, "more entries than are kept; the rest is left out")
			break
		}
		e := HostsEntry{Address: addr, File: hostsFile, Line: line.number}
		for _, name := range f[1:min(len(f), maxHostsNames+1)] {
			e.Names = append(e.Names, classify.Redact(name, maxNameText))
		}
		entries = append(entries, e)
	}
	return entries
}

// named keeps the lines of a hosts file that hold name, in any case, with or
// without trailing dot.
func named(name string) func([]string) bool {
	name = strings.TrimSuffix(name, ".")
	return func(names []string) bool {
		for _, n := range names {
			if strings.EqualFold(strings.TrimSuffix(n, "."), name) {
				return true
			}
		}
		return false
	}
}
