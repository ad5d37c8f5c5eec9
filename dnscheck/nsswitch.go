package dnscheck

import (
	"slices"
	"strings"
)

const nsswitchFile = "/etc/nsswitch.conf"

const (
	sourceFiles = "files"
	sourceDNS   = "dns"

	maxHostsLines = 8
)

// parseNSSwitch returns the order in which Go's own resolver takes the hosts
// file and DNS (net's conf.go and nss.go, nsswitch.conf(5)): a list of "files"
// and "dns". Without a "hosts" line, or with one that cannot be read, it is
// files, dns.
//
// A source that Go does not know (resolve, mdns4_minimal, myhostname) counts as
// dns, unless the line also names dns.
func parseNSSwitch(data []byte, problems *[]string) []string {
	order := []string{sourceFiles, sourceDNS}
	var sources []string
	for line := range lines(data, problems, nsswitchFile) {
		text, _, _ := strings.Cut(line.text, "#")
		if strings.TrimSpace(text) == "" {
			continue
		}
		database, rest, ok := strings.Cut(text, ":")
		if !ok {
			*problems = addProblem(*problems, nsswitchFile, line.number, "has no colon; the runtime then takes files before dns")
			return order
		}
		found, ok := nssSources(rest)
		if !ok {
			*problems = addProblem(*problems, nsswitchFile, line.number, "has a bracket that is never closed; the runtime then takes files before dns")
			return order
		}
		if strings.TrimSpace(database) == "hosts" {
			sources = append(sources, found...)
		}
	}
	var read []string
	namesDNS := slices.Contains(sources, sourceDNS)
	for _, source := range sources {
		if source != sourceFiles && source != sourceDNS {
			if namesDNS {
				continue
			}
			source = sourceDNS
		}
		if !slices.Contains(read, source) {
			read = append(read, source)
		}
	}
	if len(read) == 0 {
		return order
	}
	return read
}

// nssSources splits "files mdns4_minimal [NOTFOUND=return] dns" into its sources,
// without the criteria in brackets. ok is false for a bracket left open.
func nssSources(text string) (sources []string, ok bool) {
	for {
		text = strings.TrimLeft(text, " \t\r")
		if text == "" {
			return sources, true
		}
		if text[0] == '[' {
			end := strings.IndexByte(text, ']')
			if end < 0 {
				return sources, false
			}
			text = text[end+1:]
			continue
		}
		end := strings.IndexAny(text, " \t\r[")
		if end < 0 {
			end = len(text)
		}
		sources = append(sources, text[:end])
		text = text[end:]
	}
}

// nssHosts is the text of the hosts lines of nsswitch.conf with their criteria;
// "" = none.
func nssHosts(data []byte) string {
	var all []string
	var problems []string
	for line := range lines(data, &problems, nsswitchFile) {
		text, _, _ := strings.Cut(line.text, "#")
		if database, rest, ok := strings.Cut(text, ":"); ok && strings.TrimSpace(database) == "hosts" && len(all) < maxHostsLines {
			all = append(all, strings.TrimSpace(rest))
		}
	}
	return strings.Join(all, " ")
}
