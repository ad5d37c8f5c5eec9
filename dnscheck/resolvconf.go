package dnscheck

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const resolvConfFile = "/etc/resolv.conf"

const (
	dnsPort        = 53
	maxNameservers = 3 // resolv.conf(5), MAXNS; Go keeps the same limit
	maxIgnored     = 16
	maxSearch      = 32 // neither Go nor a recent C library has a limit; a file without one is not sane
	defaultTimeout = 5 * time.Second
	defaultTries   = 2
	defaultNDots   = 1
	maxOption      = 1000 // keeps arithmetic on timeouts far from overflow
)

// parseResolvConf reads a resolv.conf as Go's resolver does, see net's
// dnsconfig_unix.go and resolv.conf(5). domain is the search list when the file
// has none: the domain of the node's own name, "" = none.
func parseResolvConf(data []byte, domain string) Settings {
	s := Settings{
		File: resolvConfFile, NDots: defaultNDots, Attempts: defaultTries, TimeoutMS: defaultTimeout.Milliseconds(),
	}
	for line := range lines(data, &s.Problems, resolvConfFile) {
		if line.text[0] == ';' || line.text[0] == '#' {
			continue
		}
		f := fields(line.text)
		if len(f) == 0 {
			continue
		}
		switch f[0] {
		case "nameserver":
			if len(f) > 1 {
				s.addNameserver(f[1])
			}
		case "domain":
			if len(f) > 1 {
				s.setSearch(f[1:2], line.number)
			}
		case "search":
			s.setSearch(f[1:], line.number)
		case "options":
			for _, option := range f[1:] {
				s.setOption(option)
			}
		}
	}
	if len(s.Nameservers) == 0 {
		s.DefaultNameservers = true
		s.Nameservers = []netip.AddrPort{
			netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), dnsPort),
			netip.AddrPortFrom(netip.IPv6Loopback(), dnsPort),
		}
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
			s.Problems = addProblem(s.Problems, resolvConfFile, line, "search domain "+shown(d)+" is not a domain name")
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
		s.TimeoutMS = (time.Duration(max(leadingNumber(value), 1)) * time.Second).Milliseconds()
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
	case "edns0", "trust-ad": // no matter for an address
	default:
		s.leave(resolvConfFile + ": options " + shown(option))
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
