package dnscheck

import (
	"net/netip"
	"strconv"
	"strings"
)

const (
	maxNameservers = 3 // resolv.conf(5), MAXNS; Go keeps the same limit
	maxIgnored     = 16
	maxSearch      = 32   // neither Go nor a recent C library has a limit; a file without one is not sane
	maxOption      = 1000 // keeps arithmetic on timeouts far from overflow
)

// parseResolvConf reads a resolv.conf as Go's resolver does, see net's
// dnsconfig_unix.go and resolv.conf(5). domain is the search list when the file
// has none: the domain of the node's own name, "" = none.
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

// leadingNumber reads digits until something else stands there, as Go does, and
// is 0 without any.
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
