package dnscheck

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

const (
	maxIgnored = 16
	maxSearch  = 32   // neither Go nor a recent C library has a limit; a file without one is not sane
	maxOption  = 1000 // keeps arithmetic on timeouts far from overflow
)

// parseResolvConf reads a resolv.conf as Go's resolver does, see net's dnsconfig_unix.go and
// resolv.conf(5). domain is the search list when the file has none: the domain of the node's own
// name, "" = none.
func parseResolvConf(data []byte, domain string) Settings {
	s := Settings{File: resolvConfFile, NDots: 1, Attempts: 2, TimeoutMS: 5000}
	for line := range lines(data, &s.Problems, resolvConfFile) {
		if line.text[0] == ';' || line.text[0] == '#' {
			continue
		}
		f := fields(line.text)
		switch {
		case len(f) == 0:
		case f[0] == "nameserver" && len(f) > 1:
			s.addNameserver(f[1])
		case f[0] == "domain" && len(f) > 1:
			s.setSearch(f[1:2], line.number)
		case f[0] == "search":
			s.setSearch(f[1:], line.number)
		case f[0] == "options":
			for _, option := range f[1:] {
				s.setOption(option)
			}
		}
	}
	if len(s.Nameservers) == 0 {
		s.DefaultNameservers = true
		s.Nameservers = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:53"), netip.MustParseAddrPort("[::1]:53")}
	}
	if len(s.Search) == 0 && domain != "" {
		s.setSearch([]string{domain}, 0)
	}
	return s
}

func (s *Settings) addNameserver(text string) {
	addr, err := netip.ParseAddr(text)
	if err == nil && len(s.Nameservers) < maxNameservers {
		s.Nameservers = append(s.Nameservers, netip.AddrPortFrom(addr, dnsPort))
		return
	}
	if len(s.Ignored) < maxIgnored {
		s.Ignored = append(s.Ignored, shown(text))
	}
}

// setSearch replaces the list: the last "search" or "domain" line counts.
func (s *Settings) setSearch(domains []string, line int) {
	s.Search = nil
	for _, d := range domains {
		d = strings.TrimSuffix(d, ".")
		switch {
		case d == "":
		case checkDomain(d) != nil:
			addProblem(&s.Problems, resolvConfFile, line, "search domain "+shown(d)+" is not a domain name")
		case len(s.Search) < maxSearch:
			s.Search = append(s.Search, d)
		}
	}
}

func (s *Settings) setOption(option string) {
	name, value, _ := strings.Cut(option, ":")
	switch name {
	case "ndots":
		s.NDots = min(leadingNumber(value), 15)
	case "timeout":
		s.TimeoutMS = 1000 * int64(max(leadingNumber(value), 1))
	case "attempts":
		s.Attempts = max(leadingNumber(value), 1)
	case "rotate":
		s.Rotate = true
	case "single-request", "single-request-reopen":
		s.SingleRequest = true
	case "use-vc", "usevc", "tcp":
		s.UseTCP = true
	case "no-reload":
		s.NoReload = true
	case "edns0", "trust-ad": // do not change an address
	default:
		s.leaveToC(resolvConfFile + ": options " + shown(option))
	}
}

// leadingNumber reads digits until something else stands there, as Go does, and is 0 without any.
func leadingNumber(text string) int {
	end := 0
	for end < len(text) && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	if end > 4 { // more than any sane value has
		return maxOption
	}
	n, _ := strconv.Atoi(text[:end])
	return min(n, maxOption)
}

const (
	maxHostsNames   = 16
	maxHostsEntries = 10000
	maxHostsMatches = 64
	maxHostsLines   = 8 // of nsswitch.conf
)

// parseHosts reads a hosts file as Go's resolver does (net's hosts.go, hosts(5)) and returns the
// lines that keep wants, at most limit. A line without an IP address or without a name is skipped.
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
			addProblem(problems, hostsFile, line.number, "more entries than are kept; the rest is left out")
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

// named keeps the lines of a hosts file that hold name, in any case, with or without trailing dot.
func named(name string) func([]string) bool {
	name = strings.TrimSuffix(name, ".")
	return func(names []string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(strings.TrimSuffix(n, "."), name) })
	}
}

// nssLines are the databases of nsswitch.conf; ok is false for a line without colon.
func nssLines(data []byte, problems *[]string, each func(n int, database, rest string, ok bool) bool) {
	for line := range lines(data, problems, nsswitchFile) {
		text, _, _ := strings.Cut(line.text, "#")
		if strings.TrimSpace(text) == "" {
			continue
		}
		database, rest, ok := strings.Cut(text, ":")
		if !each(line.number, strings.TrimSpace(database), rest, ok) {
			return
		}
	}
}

// parseNSSwitch returns the order in which Go's resolver takes "files" (the hosts file) and "dns"
// (net's conf.go and nss.go, nsswitch.conf(5)). Without a "hosts" line, or with one that cannot be
// read, it is files, dns. A source that Go does not know (resolve, mdns4_minimal, myhostname)
// counts as dns, unless the line also names dns.
func parseNSSwitch(data []byte, problems *[]string) []string {
	var sources []string
	readable := true
	nssLines(data, problems, func(n int, database, rest string, ok bool) bool {
		wrong := "has no colon"
		var found []string
		if ok {
			wrong = "has a bracket that is never closed"
			found, ok = nssSources(rest)
		}
		if readable = ok; !ok {
			addProblem(problems, nsswitchFile, n, wrong+"; the runtime then takes files before dns")
		} else if database == "hosts" {
			sources = append(sources, found...)
		}
		return ok
	})
	var order []string
	namesDNS := slices.Contains(sources, sourceDNS)
	for _, source := range sources {
		if source != sourceFiles && source != sourceDNS {
			if namesDNS {
				continue
			}
			source = sourceDNS
		}
		if !slices.Contains(order, source) {
			order = append(order, source)
		}
	}
	if len(order) == 0 || !readable {
		return []string{sourceFiles, sourceDNS}
	}
	return order
}

// nssSources splits "files mdns4_minimal [NOTFOUND=return] dns" into its sources, without the
// criteria in brackets. ok is false for a bracket left open.
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

// nssHosts is the text of the hosts lines of nsswitch.conf with their criteria; "" = none.
func nssHosts(data []byte) string {
	var all []string
	nssLines(data, nil, func(_ int, database, rest string, ok bool) bool {
		if ok && database == "hosts" && len(all) < maxHostsLines {
			all = append(all, strings.TrimSpace(rest))
		}
		return true
	})
	return strings.Join(all, " ")
}

// mdnsOnly reports whether a hosts line makes the C library stop before DNS: a name of two labels
// under .local, and a minimal mDNS source before dns.
func mdnsOnly(name, nss string) bool {
	name, nss = lower(name), strings.ToLower(nss)
	if !strings.HasSuffix(name, ".local") || strings.Count(name, ".") != 1 {
		return false
	}
	for _, minimal := range []string{"mdns4_minimal", "mdns6_minimal", "mdns_minimal"} {
		if before, after, ok := strings.Cut(nss, minimal); ok && !slices.Contains(fields(before), sourceDNS) {
			return strings.HasPrefix(strings.ReplaceAll(after, " ", ""), "[notfound=return]")
		}
	}
	return false
}
